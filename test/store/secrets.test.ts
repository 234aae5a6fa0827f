import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { createFirstKey, revokeKey } from '../../src/auth/keys.ts';
import { SealBroken, StartRefused } from '../../src/core/errors.ts';
import { keyIdOf } from '../../src/store/seal.ts';
import { openStore } from '../../src/store/open.ts';
import type { Rotation, SealedRow, SecretStore } from '../../src/store/port/secrets.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createSeal } from '../../src/store/seal.ts';
import { placeIn, sealedTables } from '../../src/store/sealed-columns.ts';
import { sharedPostgres } from '../helpers/postgres.ts';
import { rotate } from '../helpers/secrets.ts';
import { addTenant, newStream, start, waitRule } from './contract/fixture.ts';
import { newDatabase } from './engines.ts';

/** The seals of a store and the change of their key, on both engines. */

const one = Buffer.alloc(32, 1);
const two = Buffer.alloc(32, 2);
const three = Buffer.alloc(32, 3);
const [oneId, twoId, threeId] = [one, two, three].map(keyIdOf) as [string, string, string];

/** Looks like a bound seal, and is too short for one. */
const damaged = Buffer.of(2, 1, 2);
/** Names a key that nobody has, as after damage to the id in a bound seal. */
const ofNoKey = Buffer.concat([Buffer.of(2), Buffer.alloc(6, 0xab), Buffer.alloc(40)]);

type Report = (error: unknown) => void;

/** A database, and stores on it. */
interface Fixture {
  readonly isShared: boolean;
  /** A function receives what the store reports. */
  open(...keys: (Uint8Array | Report)[]): Promise<Store>;
  /** Runs SQL on the database while no store is open; `?` marks a value. */
  sql(text: string, ...values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Returns the names of the columns with bytes, as `table.column`. */
  byteColumns(): Promise<string[]>;
}

/** Hashes open nothing, nor does the key of those of contents, so they are not sealed. */
const hashColumns = [
  'console_codes.code_hash',
  'console_sessions.secret_hash',
  'events.content',
  'tenants.content_key',
];

for (const [engine, fixtureFor] of [
  ['SQLite', sqlite],
  ['PostgreSQL', postgres],
] as const) {
  describe(`${engine}: sealed columns`, () => {
    test('sealed columns: every column with bytes is in the list that a rotation seals again', async (t) => {
      const fixture = await fixtureFor(t);
      await closed(fixture.open(one));
      const listed = Object.entries(sealedTables).flatMap(([table, { columns }]) =>
        columns.map((column) => `${table}.${column}`),
      );
      assert.deepEqual(
        (await fixture.byteColumns()).toSorted(),
        ['key_check.sealed', ...hashColumns, ...listed].toSorted(),
      );
    });

    for (const [table, { row, columns }] of Object.entries(sealedTables)) {
      for (const column of columns) {
        test(`${table}.${column}: a value copied to another row, or to another tenant, does not open`, async (t) => {
          const fixture = await fixtureFor(t);
          const { here, beside, there } = await filled(fixture, one);
          for (const from of [beside, there]) {
            const copied = await copyOver(fixture, { table, row, column }, from, here);
            const store = await fixture.open(one, () => {});
            if (table === 'streams') await assert.rejects(readAll(store, here.tenant), SealBroken);
            else assert.equal((await readAll(store, here.tenant)).length, 5);
            await store.close();
            await copied.undo();
          }
          const store = await fixture.open(one);
          assert.deepEqual((await readAll(store, here.tenant)).length, 6);
          await store.close();
        });
      }
    }

    test('streams: a value copied to the other column of its row does not open', async (t) => {
      const fixture = await fixtureFor(t);
      const { here } = await filled(fixture, one);
      await fixture.sql('update streams set signing_secrets = destination');
      const store = await fixture.open(one);
      await assert.rejects(readAll(store, here.tenant), SealBroken);
      await store.close();
    });
  });

  describe(`${engine}: a stream whose secrets do not open`, () => {
    test('broken stream: is left out of a claim and reported, and the other streams are claimed', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, beside, there } = await filled(fixture, one);
      await copyOver(fixture, { table: 'streams', row: 'id', column: 'destination' }, beside, here);
      const reports: unknown[] = [];
      const store = await fixture.open(one, (error) => reports.push(error));
      const node = await store.ownership.join('node', 10_000);
      const owned = await store.ownership.claim(node, { claim: 1, take: 10, ...waitRule });
      assert.deepEqual(
        owned.map(({ stream }) => stream.id),
        [beside.row, there.row],
      );
      assert.deepEqual(reports.map(String), [
        `SealBroken: Stream ${here.row} of tenant ${here.tenant} is not delivered: A stored secret does not open: another key or place, or damaged bytes.`,
      ]);
      assert.equal(await store.streams.delete(here.tenant, here.row), true);
      assert.equal((await readAll(store, here.tenant)).length, 5);
      await store.close();
    });

    test('broken stream: one with the id of an unknown key stops no claim, no page and no signing key', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, beside, there } = await filled(fixture, one);
      await fixture.sql('update streams set signing_secrets = ? where id = ?', ofNoKey, here.row);
      await fixture.sql('update signing_keys set private_jwk = ? where kid = ?', ofNoKey, here.row);
      const store = await fixture.open(one, () => {});
      const node = await store.ownership.join('node', 10_000);
      const owned = await store.ownership.claim(node, { claim: 1, take: 10, ...waitRule });
      assert.deepEqual(
        owned.map(({ stream }) => stream.id),
        [beside.row, there.row],
      );
      const page = await store.streams.list(here.tenant, { after: undefined, take: 10 });
      assert.deepEqual([page.items.map(({ id }) => id), page.broken], [[beside.row], [here.row]]);
      const keys = await store.keys.list(here.tenant, start);
      assert.deepEqual(
        keys.map(({ kid }) => kid),
        [beside.row],
      );
      await store.close();
    });

    test('broken stream: a page names it, has the other streams, and the next page follows it', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, beside } = await filled(fixture, one);
      await fixture.sql('update streams set destination = ? where id = ?', damaged, beside.row);
      const reports: unknown[] = [];
      const store = await fixture.open(one, (error) => reports.push(error));
      const pageAfter = (after: string | undefined, take: number) =>
        store.streams.list(here.tenant, { after, take });
      const whole = await pageAfter(undefined, 10);
      assert.deepEqual(
        [whole.items.map(({ id }) => id), whole.broken, whole.next],
        [[here.row], [beside.row], undefined],
      );
      await store.streams.create(newStream(here.tenant, start, { id: 'est_9' }), {
        streamsMax: 100,
      });
      const cut = await pageAfter(undefined, 2);
      assert.equal(cut.next, beside.row);
      assert.deepEqual(
        (await pageAfter(cut.next, 2)).items.map(({ id }) => id),
        ['est_9'],
      );
      assert.deepEqual(reports.map(String), [
        `SealBroken: Stream ${beside.row} of tenant ${beside.tenant} is not delivered: A stored secret does not open: another key or place, or damaged bytes.`,
      ]);
      await store.close();
    });
  });

  describe(`${engine}: a signing key that does not open`, () => {
    test('broken webhook key: is replaced by the first key that is added', async (t) => {
      const fixture = await fixtureFor(t);
      const { there } = await filled(fixture, one);
      await fixture.sql(
        'update webhook_keys set private_jwk = ? where kid = ?',
        damaged,
        there.row,
      );
      const reports: unknown[] = [];
      const store = await fixture.open(one, (error) => reports.push(error));
      const added = () => store.webhookKeys.addFirst({ ...newKey(there.tenant), kid: 'next' });
      assert.deepEqual([await added(), await added()], ['added', 'present']);
      const keys = await store.webhookKeys.list(there.tenant, start);
      assert.deepEqual(
        keys.map(({ kid }) => kid),
        ['next'],
      );
      assert.deepEqual(reports.map(String), [
        `SealBroken: Webhook key ${there.row} of tenant ${there.tenant} is not used: A stored secret does not open: another key or place, or damaged bytes.`,
      ]);
      await store.close();
    });

    test('broken signing key: is left out and reported once, and the other keys stay', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, beside } = await filled(fixture, one);
      await fixture.sql('update signing_keys set private_jwk = ? where kid = ?', damaged, here.row);
      const reports: unknown[] = [];
      const store = await fixture.open(one, (error) => reports.push(error));
      for (let read = 0; read < 2; read += 1) {
        const keys = await store.keys.list(here.tenant, start);
        assert.deepEqual(
          keys.map(({ kid }) => kid),
          [beside.row],
        );
      }
      assert.deepEqual(reports.map(String), [
        `SealBroken: Signing key ${here.row} of tenant ${here.tenant} is not used: A stored secret does not open: another key or place, or damaged bytes.`,
      ]);
      await store.close();
    });

    test('broken signing key: a start replaces the only key of a tenant, and the broken one can be revoked', async (t) => {
      const fixture = await fixtureFor(t);
      const { there } = await filled(fixture, one);
      await fixture.sql(
        'update signing_keys set private_jwk = ? where kid = ?',
        damaged,
        there.row,
      );
      const store = await fixture.open(one, () => {});
      await createFirstKey(store.keys, there.tenant, start);
      const keys = await store.keys.list(there.tenant, start);
      assert.deepEqual(
        keys.map(({ signsFrom, expiresAt }) => [signsFrom, expiresAt]),
        [[start, undefined]],
      );
      const revoke = () => revokeKey(store, there.tenant, there.row, { now: start });
      assert.deepEqual([await revoke(), await revoke()], ['revoked', 'unknown']);
      assert.deepEqual(await store.keys.list(there.tenant, start), keys);
      await store.close();
    });
  });

  describe(`${engine}: a rotation of the secret key`, () => {
    test('rotation: the former key is needed until its end, and not afterwards', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, there } = await filled(fixture, one);
      const store = await fixture.open(two, one);
      const { state } = await begun(store.secrets, twoId);
      assert.deepEqual(state, { key: twoId, former: oneId });
      await store.close();

      await assert.rejects(fixture.open(one), {
        name: 'StartRefused',
        message: new RegExp(`^LEAT_SECRET_KEY: .* which key ${twoId} seals: set that key; this is`),
      });
      await assert.rejects(fixture.open(two), {
        name: 'StartRefused',
        message: new RegExp(
          `still sealed with key ${oneId}: set both keys, ${twoId},${oneId}, and`,
        ),
      });
      await assert.rejects(fixture.open(three), StartRefused);

      const resumed = await fixture.open(one, two);
      assert.equal((await rotate(resumed.secrets, twoId)).values, 12);
      assert.deepEqual(await resumed.secrets.begin(twoId), {
        done: { key: twoId, former: undefined },
      });
      await resumed.close();
      await assert.rejects(fixture.open(one), StartRefused);
      const after = await fixture.open(two);
      for (const { tenant } of [here, there]) await readAll(after, tenant);
      await after.close();
    });

    test(
      'rotation: continues after an interruption at any step, while streams and keys change',
      { tags: ['long'] },
      async (t) => {
        const fixture = await fixtureFor(t);
        const { here } = await filled(fixture, one);
        await addStreams(fixture, here.tenant, 250);
        let steps = 0;
        let isDone = false;
        // Each round is a process that ends one step later than the one before.
        for (let round = 0; !isDone; round += 1) {
          const store = await fixture.open(two, one);
          const rotation = await begun(store.secrets, twoId);
          let after: SealedRow | undefined;
          for (let step = 0; step < round; step += 1) {
            const done = await store.secrets.step(rotation, after);
            assert.ok(done);
            steps += 1;
            after = done.next;
            if (after !== undefined) continue;
            isDone = await store.secrets.finish(rotation);
            break;
          }
          await store.streams.create(newStream(here.tenant, start), { streamsMax: 1000 });
          const changed = await store.streams.update(here.tenant, here.row, (stream) => ({
            after: { ...stream, name: `round ${round}` },
          }));
          assert.ok('updated' in changed);
          await store.keys.add({ ...newKey(here.tenant), kid: `round ${round}` }, start);
          await store.close();
        }
        assert.ok(steps > 5, `${steps} steps`);
        const after = await fixture.open(two);
        assert.ok((await readAll(after, here.tenant)).length > 254);
        await after.close();
      },
    );

    test('rotation: a change to a third key is refused until the first one is complete', async (t) => {
      const fixture = await fixtureFor(t);
      await filled(fixture, one);
      const store = await fixture.open(two, one, three);
      await begun(store.secrets, twoId);
      assert.deepEqual(await store.secrets.begin(threeId), {
        unfinished: { key: twoId, former: oneId },
      });
      await store.close();
    });

    test('rotation: back to the former key, in the middle and after the end', async (t) => {
      const fixture = await fixtureFor(t);
      const { here } = await filled(fixture, one);
      const store = await fixture.open(two, one);
      const first = await begun(store.secrets, twoId);
      await store.secrets.step(first, undefined);
      await rotate(store.secrets, oneId);
      assert.equal(await store.secrets.step(first, undefined), undefined);
      assert.equal(await store.secrets.finish(first), false);
      await store.close();
      const again = await fixture.open(one, two);
      await rotate(again.secrets, twoId);
      await rotate(again.secrets, oneId);
      await again.close();
      const after = await fixture.open(one);
      assert.equal((await readAll(after, here.tenant)).length, 6);
      await after.close();
    });

    test('rotation: a step and the end of one that was replaced meanwhile do nothing', async (t) => {
      const fixture = await fixtureFor(t);
      const { here } = await filled(fixture, one);
      const store = await fixture.open(two, one);
      const first = await begun(store.secrets, twoId);
      await begun(store.secrets, oneId);
      const second = await begun(store.secrets, twoId);
      assert.equal(await store.secrets.step(first, undefined), undefined);
      assert.equal(await store.secrets.finish(first), false);
      assert.ok(await store.secrets.step(second, undefined));
      const { state, mark } = await begun(store.secrets, twoId);
      assert.deepEqual([state, Buffer.from(mark)], [second.state, Buffer.from(second.mark)]);
      await rotate(store.secrets, twoId);
      await readAll(store, here.tenant);
      await store.close();
    });

    test('rotation: a value that does not open is reported, and the others are sealed', async (t) => {
      const fixture = await fixtureFor(t);
      const { here, beside } = await filled(fixture, one);
      await copyOver(fixture, { table: 'streams', row: 'id', column: 'destination' }, beside, here);
      const store = await fixture.open(two, one);
      const { values, broken } = await rotate(store.secrets);
      assert.equal(values, 11);
      assert.deepEqual(broken, [
        { table: 'streams', tenant: here.tenant, row: here.row, column: 'destination' },
      ]);
      await store.close();
    });

    test('rotation: what is written after its begin is sealed with the new key, by every process', async (t) => {
      const fixture = await fixtureFor(t);
      const { here } = await filled(fixture, one);
      const store = await fixture.open(two, one);
      const other = fixture.isShared ? await fixture.open(one, two) : store;
      await begun(store.secrets, twoId);
      const stream = newStream(here.tenant, start);
      await other.streams.create(stream, { streamsMax: 100 });
      await store.close();
      if (other !== store) await other.close();
      const [, ...id] = (await formOf(fixture, stream.id)).subarray(0, 7);
      assert.equal(Buffer.from(id).toString('hex'), twoId);
    });

    test('rotation: one process runs one at a time', async (t) => {
      const fixture = await fixtureFor(t);
      const store = await fixture.open(one);
      const { alone } = store.secrets;
      let end = (): void => {};
      const first = alone(() => new Promise<string>((resolve) => (end = () => resolve('ended'))));
      assert.equal(await alone(async () => 'second'), undefined);
      end();
      assert.equal(await first, 'ended');
      await assert.rejects(
        alone(() => Promise.reject(new Error('failed'))),
        /failed/,
      );
      assert.equal(await alone(async () => 'third'), 'third');
      await store.close();
    });
  });
}

describe('PostgreSQL: nodes and the secret key', () => {
  test('nodes: a rotation waits for every live node to have the new key', async (t) => {
    const fixture = await postgres(t);
    await filled(fixture, one);
    const [old, ready, command] = [
      await fixture.open(one),
      await fixture.open(one, two),
      await fixture.open(two, one),
    ];
    const node = await old.ownership.join('old', 60_000);
    await ready.ownership.join('ready', 60_000);
    assert.deepEqual(await command.secrets.begin(twoId), {
      key: twoId,
      lacking: [{ id: 'old', keys: [oneId] }],
    });
    await old.ownership.leave(node);
    await begun(command.secrets, twoId);
    for (const store of [old, ready, command]) await store.close();
  });

  test('nodes: one that lacks the new key stops using the store, and a join is refused', async (t) => {
    const fixture = await postgres(t);
    const { here } = await filled(fixture, one);
    const [old, command] = [await fixture.open(one), await fixture.open(two, one)];
    const node = await old.ownership.join('old', 1);
    await command.secrets.begin(twoId);
    while ('lacking' in (await command.secrets.begin(twoId)));
    const lacks = { name: 'StoreUnavailable', reason: 'key', message: /which key \w{12} seals/ };
    await assert.rejects(old.ownership.heartbeat(node, 10_000), lacks);
    await assert.rejects(old.ownership.join('old', 10_000), lacks);
    await rotate(command.secrets, twoId);
    await assert.rejects(old.streams.list(here.tenant, { after: undefined, take: 1 }), lacks);
    await assert.rejects(old.keys.list(here.tenant, start), lacks);
    for (const store of [old, command]) await store.close();
  });

  test('nodes: a fail-over in the middle of a rotation ends it, and the next one passes every row', async (t) => {
    const fixture = await postgres(t);
    const { here } = await filled(fixture, one);
    const store = await fixture.open(two, one);
    const rotation = await begun(store.secrets, twoId);
    let step = await store.secrets.step(rotation, undefined);
    while (step?.next !== undefined) step = await store.secrets.step(rotation, step.next);
    const [lost] = await fixture.sql('select destination from streams where id = ?', here.row);
    const before = createSeal([one], randomBytes);
    const place = placeIn('streams', here, 'destination');
    const text = createSeal([two], randomBytes).open(lost?.['destination'] as Uint8Array, place);
    const former = before.seal(text, place, { key: oneId, former: undefined });
    // The replica has the begin of the rotation, and not its last step.
    await fixture.sql('update streams set destination = ? where id = ?', former, here.row);
    await fixture.sql('update store set generation = generation + 1');
    const replaced = { name: 'StoreReplaced' };
    await assert.rejects(store.secrets.step(rotation, undefined), replaced);
    await assert.rejects(store.secrets.finish(rotation), replaced);
    await store.close();
    const next = await fixture.open(two, one);
    assert.equal((await rotate(next.secrets)).values, 1);
    await next.close();
    const after = await fixture.open(two);
    assert.equal((await readAll(after, here.tenant)).length, 6);
  });

  test(
    'nodes: rotations of two processes to two keys end with one of them, and everything opens',
    { tags: ['long'] },
    async (t) => {
      const fixture = await postgres(t);
      const { here } = await filled(fixture, one);
      await addStreams(fixture, here.tenant, 300);
      const stores = [await fixture.open(two, one), await fixture.open(one, two)];
      const ends = await Promise.all(
        stores.flatMap(({ secrets }) =>
          [1, 2, 3].map((round) => tryRotate(secrets, round % 2 === 0 ? oneId : twoId)),
        ),
      );
      assert.equal(ends.length, 6);
      for (const store of stores) await store.close();
      const last = await fixture.open(one, two);
      const { key } = await last.secrets.state();
      await rotate(last.secrets, key);
      await last.close();
      const after = await fixture.open(key === oneId ? one : two);
      assert.equal((await readAll(after, here.tenant)).length, 306);
      await after.close();
    },
  );
});

async function begun(secrets: SecretStore, key: string): Promise<Rotation> {
  const result = await secrets.begin(key);
  assert.ok('begun' in result, JSON.stringify(result));
  return result.begun;
}

/** Does the same as {@link rotate}; another process may disturb it. */
async function tryRotate(secrets: SecretStore, key: string): Promise<void> {
  const rotation = await secrets.begin(key);
  if (!('begun' in rotation)) return;
  let after: SealedRow | undefined;
  do {
    const step = await secrets.step(rotation.begun, after);
    if (step === undefined) return;
    after = step.next;
  } while (after !== undefined);
  await secrets.finish(rotation.begun);
}

/** Opens every sealed value of a tenant. */
async function readAll(store: Store, tenant: number): Promise<unknown[]> {
  const streams = [];
  let after: string | undefined;
  do {
    const page = await store.streams.list(tenant, { after, take: 100 });
    streams.push(...page.items);
    for (const id of page.broken) await store.streams.get(tenant, id);
    after = page.next;
  } while (after !== undefined);
  for (const { destination, signingSecrets } of streams) {
    assert.deepEqual(destination.authorization, { method: 'bearer', token: 'kept-secret' });
    assert.equal(signingSecrets[0]?.secret, 'whsec_AAEC');
  }
  const keys = [...(await store.keys.list(tenant, start))];
  keys.push(...(await store.webhookKeys.list(tenant, start)));
  for (const { privateJwk } of keys) assert.equal(privateJwk, newKey(tenant).privateJwk);
  return [...streams, ...keys];
}

interface At {
  readonly tenant: number;
  /** The id of a stream, and of a key. */
  readonly row: string;
}

/** Two tenants, with two streams and two keys of each use, and with one of each: twelve values in nine rows. */
async function filled(fixture: Fixture, key: Uint8Array) {
  const store = await fixture.open(key);
  const [first, second] = [await addTenant(store, 'one'), await addTenant(store, 'two')];
  const here = { tenant: first.id, row: 'est_1' };
  const beside = { tenant: first.id, row: 'est_2' };
  const there = { tenant: second.id, row: 'est_3' };
  for (const { tenant, row } of [here, beside, there]) {
    await store.streams.create(newStream(tenant, start, { id: row }), { streamsMax: 100 });
    for (const keys of [store.keys, store.webhookKeys]) {
      await keys.add({ ...newKey(tenant), kid: row }, start + 1_000_000);
    }
  }
  await store.close();
  return { here, beside, there };
}

async function addStreams(fixture: Fixture, tenant: number, count: number): Promise<void> {
  const store = await fixture.open(one);
  for (let number = 0; number < count; number += 1) {
    await store.streams.create(newStream(tenant, start), { streamsMax: 1000 });
  }
  await store.close();
}

function newKey(tenant: number) {
  const privateJwk = JSON.stringify({ kty: 'RSA', d: 'private-part' });
  return { tenant, kid: 'k', privateJwk, createdAt: start, signsFrom: start };
}

/** Writes the sealed value of one row into another. */
async function copyOver(
  fixture: Fixture,
  { table, row, column }: { table: string; row: string; column: string },
  from: At,
  to: At,
) {
  const select = `select ${column} as value from ${table} where tenant = ? and ${row} = ?`;
  const update = `update ${table} set ${column} = ? where tenant = ? and ${row} = ?`;
  const [former] = await fixture.sql(select, to.tenant, to.row);
  const [value] = await fixture.sql(select, from.tenant, from.row);
  await fixture.sql(update, value?.['value'], to.tenant, to.row);
  return {
    undo: () => fixture.sql(update, former?.['value'], to.tenant, to.row),
  };
}

async function formOf(fixture: Fixture, stream: string): Promise<Buffer> {
  const [row] = await fixture.sql('select destination from streams where id = ?', stream);
  return Buffer.from(row?.['destination'] as Uint8Array);
}

async function closed(opening: Promise<Store>): Promise<void> {
  await (await opening).close();
}

function open(where: string, given: readonly (Uint8Array | Report)[]): Promise<Store> {
  const location = where.startsWith('postgres')
    ? ({ engine: 'postgres', url: where } as const)
    : ({ engine: 'sqlite', path: where } as const);
  const secretKeys = given.filter((each) => typeof each !== 'function');
  const report = given.find((each) => typeof each === 'function');
  return openStore({ location, secretKeys, report, random: systemRandom, clock: systemClock });
}

async function sqlite(t: TestContext): Promise<Fixture> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-secrets-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'leat.db');
  const sql: Fixture['sql'] = async (text, ...values) => {
    const db = new DatabaseSync(file);
    try {
      return db.prepare(text).all(...(values as SQLInputValue[]));
    } finally {
      db.close();
    }
  };
  return {
    isShared: false,
    open: (...keys) => open(file, keys),
    sql,
    byteColumns: async () => {
      const rows = await sql(`
        select m.name || '.' || c.name as name
        from sqlite_schema m join pragma_table_info(m.name) c
        where m.type = 'table' and c.type = 'BLOB' collate nocase`);
      return rows.map(({ name }) => String(name));
    },
  };
}

async function postgres(t: TestContext): Promise<Fixture> {
  const server = await sharedPostgres();
  const url = await newDatabase();
  const opened: Store[] = [];
  t.after(async () => {
    // A failed test leaves stores open.
    await Promise.allSettled(opened.map((store) => store.close()));
    await server.dropDatabase(url);
  });
  const sql: Fixture['sql'] = async (text, ...values) => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      let number = 0;
      const numbered = text.replaceAll('?', () => `$${(number += 1)}`);
      return (await client.query(numbered, values)).rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  };
  // Its first start is that of a test, with keys of the test.
  await sql('delete from key_check');
  return {
    isShared: true,
    open: async (...keys) => {
      const store = await open(url, keys);
      opened.push(store);
      return store;
    },
    sql,
    byteColumns: async () => {
      const rows = await sql(`
        select table_name || '.' || column_name as name from information_schema.columns
        where table_schema = 'public' and data_type = 'bytea' and table_name !~ '^events_d'`);
      return rows.map(({ name }) => String(name));
    },
  };
}
