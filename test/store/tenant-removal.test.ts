import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { removeTenant } from '../../src/upkeep/tenant-removal.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import { newApi } from './contract/apis.ts';
import { newEntry } from './contract/audit-log.ts';
import { newClient } from './contract/clients.ts';
import { newSession } from './contract/console-sessions.ts';
import { dismissFailures } from './contract/failure-work.ts';
import {
  addTenant,
  blocked,
  delivered,
  failed,
  newEvent,
  fixtureOf,
  start,
  dueRules,
} from './contract/fixture.ts';
import { newDatabase, openUrl } from './engines.ts';

/** Removing a tenant reaches every table on both engines, including later ones. */

interface Fixture {
  readonly store: Store;
  /** Rows of a tenant by table. */
  counts(tenant: number): Promise<ReadonlyMap<string, number>>;
}

/** Tables without a tenant, or that belong to the removal itself. */
const aside = ['leaving_runs', 'attempts_kept', 'kept_events'];

for (const [engine, open] of [
  ['SQLite', openSqlite],
  ['PostgreSQL', openPostgres],
] as const) {
  describe(`${engine}: the removal of a tenant`, () => {
    test(
      'removal: leaves no row of the tenant, and every row of the others',
      { tags: ['long'] },
      async (t) => {
        const { store, counts } = await open(t);
        const [one, two] = [await addTenant(store, 'one'), await addTenant(store, 'two')];
        for (const { id } of [one, two]) await fill(store, id);
        const kept = await counts(one.id);
        for (const [table, count] of await counts(two.id)) {
          assert.ok(count > 0 || aside.includes(table), `the test gives ${table} no row`);
        }
        await store.tenants.leave(two.id);
        await remove(store, two.id);
        for (const [table, count] of await counts(two.id)) assert.equal(count, 0, table);
        assert.deepEqual(await counts(one.id), kept);
        assert.deepEqual(await store.tenants.leaving(), []);
        const again = await store.tenants.create({ name: 'two', domain: two.domain }, start);
        assert.ok('created' in again && again.created.id !== two.id);
      },
    );

    test('removal: continues after an interruption at any step', { tags: ['long'] }, async (t) => {
      const { store, counts } = await open(t);
      await addTenant(store, 'one');
      const two = await addTenant(store, 'two');
      await fill(store, two.id);
      await store.tenants.leave(two.id);
      let isDone = false;
      // Each round is a process of its own that ends after one step.
      for (let rounds = 0; !isDone; rounds += 1) {
        assert.ok(rounds < 10_000);
        const step = await store.tenants.removeStep(two.id, { take: 1 });
        if (step.removed === 0 && !step.isDone) break;
        ({ isDone } = step);
      }
      await remove(store, two.id);
      for (const [table, count] of await counts(two.id)) assert.equal(count, 0, table);
    });
  });
}

function remove(store: Store, tenant: number): Promise<number> {
  return removeTenant(
    { store, clock: systemClock },
    tenant,
    () => {},
    new AbortController().signal,
  );
}

/** Creates something of everything that a tenant can have. */
async function fill(store: Store, tenant: number): Promise<void> {
  const fixture = fixtureOf(store, tenant);
  const owned = await fixture.own(await fixture.addStream());
  const { id: stream } = owned.stream;
  const events = await fixture.publish('user.created', 'user.created', 'order.paid');
  const [first, second, third] = events;
  assert.ok(first && second && third);
  const outcomes = [delivered(first), failed(second), blocked(third, { orderKey: 'key' })];
  await fixture.settle(owned, { cursor: second.offset, settledAbove: [9], outcomes });
  const { id, type, time, body } = newEvent();
  await store.deliveries.addTest(tenant, stream, { id, type, time, body });
  const [due] = await store.deliveries.claimDue([
    { tenant, stream, epoch: owned.epoch, take: 1, ...dueRules },
  ]);
  const [row] = due?.rows ?? [];
  assert.ok(row);
  await fixture.settle(owned, {
    cursor: second.offset,
    outcomes: [delivered(row.event, { kind: 'test', hasRow: true })],
  });
  await store.replays.create({
    tenant,
    stream,
    id: `rpl_${tenant}`,
    from: 0,
    to: second.offset,
    types: undefined,
  });
  const late = await fixture.addStream({ status: 'disabled' });
  await fixture.publish('user.created');
  await store.streams.update(tenant, late.id, (before) => ({
    after: { ...before, status: 'enabled' },
  }));
  const [dismissed] = await fixture.publish('user.created');
  assert.ok(dismissed);
  const head = { cursor: dismissed.offset };
  await fixture.settle(owned, { ...head, outcomes: [failed(dismissed)] });
  await dismissFailures(store, tenant, stream, { eventIds: [dismissed.id] });
  await store.streams.update(tenant, late.id, (before) => ({
    after: { ...before, subscriptions: [...before.subscriptions, { after: 1, types: ['a.b'] }] },
  }));
  const request = { tenant, id: `rdl_${tenant}`, streams: undefined, createdBy: 'robot' };
  await store.redeliveries.create({ ...request, selection: {} });
  while ((await store.redeliveries.step(tenant, request.id, 0)) !== 'done');
  const counts = { published: 1, delivered: 1, failed: 0, retried: 0 };
  const histograms = { latency: '1:1', duration: '1:1' };
  await store.deliveryStats.record('node', [
    { tenant, stream, at: start, ...counts, ...histograms },
  ]);
  await store.eventTypes.record([{ tenant, type: 'a.b', offset: 1, at: start }]);
  await fillAccess(store, tenant);
  const secretHash = randomBytes(32);
  await store.consoleSessions.begin(newSession(tenant, 'ses', { secretHash }));
  const code = { codeHash: randomBytes(32), role: 'viewer' } as const;
  await store.consoleSessions.addCode({ tenant, ...code });
  await store.auditLog.add([{ entry: newEntry(tenant), count: 1, ageMs: 0 }]);
  await store.alertState.record(tenant, undefined, { at: start, state: '{}' }, true);
}

async function fillAccess(store: Store, tenant: number): Promise<void> {
  const key = { tenant, kid: 'kid', privateJwk: '{}', createdAt: start, signsFrom: start };
  await store.keys.addFirst(key);
  await store.webhookKeys.addFirst(key);
  await store.clients.create(newClient(tenant, 'robot'));
  await store.clients.useAssertion(tenant, 'robot', 'jti', systemClock.now() + 3_600_000);
  const scopes = [{ value: 'read:messages', description: '' }];
  await store.apis.create(newApi(tenant, 'api_1', { scopes }));
  const grant = { tenant, id: 'g', client: 'robot', api: 'api_1', scope: ['read:messages'] };
  assert.ok('created' in (await store.grants.create(grant)));
  const user = {
    tenant,
    id: 'leat|1',
    connection: 'c',
    email: 'a@example.com',
    username: undefined,
    passwordHash: 'hash',
    profileJson: '{}',
    createdAt: start,
    updatedAt: start,
  };
  assert.ok('created' in (await store.users.create(user, newEvent())));
  const role = { tenant, id: 'r', name: 'role', description: '', createdAt: start };
  await store.roles.create(role);
  await store.roles.addPermissions(tenant, 'r', [{ api: 'api_1', name: 'read:messages' }]);
  await store.roles.addClients(tenant, 'r', ['robot']);
  await store.roles.addUsers(tenant, 'r', ['leat|1']);
}

async function openSqlite(t: TestContext): Promise<Fixture> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-removal-'));
  const path = join(folder, 'leat.db');
  const store = await openStore({
    location: { engine: 'sqlite', path },
    secretKeys: [randomBytes(32)],
    random: (count) => randomBytes(count),
    clock: systemClock,
  });
  t.after(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });
  let copies = 0;
  return {
    store,
    counts: async (tenant) => {
      // The file belongs to the store, so a copy is read.
      copies += 1;
      const copy = join(folder, `copy-${copies}`);
      new DatabaseSync(copy).close();
      const { writeFile } = await import('node:fs/promises');
      await writeFile(copy, '');
      await store.copy?.(copy, { progress: () => {}, signal: new AbortController().signal });
      return sqliteCounts(copy, tenant);
    },
  };
}

function sqliteCounts(file: string, tenant: number): Map<string, number> {
  const db = new DatabaseSync(file);
  const tables = db
    .prepare(
      `select distinct t.name from sqlite_schema t, pragma_table_info(t.name) c
        where t.type = 'table' and (c.name = 'tenant' or t.name like 'attempts%') order by t.name`,
    )
    .all()
    .map(({ name }) => String(name));
  const counts = tables.map((table) => {
    const where = table.startsWith('attempts')
      ? `stream_key in (select key from runs where tenant = ${tenant}
            union all select key from leaving_runs where tenant = ${tenant})
          or stream_key not in (select key from runs)`
      : `tenant = ${tenant}`;
    const row = db.prepare(`select count(*) as count from "${table}" where ${where}`).get();
    return [table, Number(row?.['count'])] as const;
  });
  db.close();
  return new Map(counts);
}

async function openPostgres(t: TestContext): Promise<Fixture> {
  const url = await newDatabase();
  const store = await openUrl(url);
  t.after(async () => {
    await store.close();
    await (await sharedPostgres()).dropDatabase(url);
  });
  return {
    store,
    counts: async (tenant) => {
      const tables = await query<{ name: string }>(
        url,
        `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
          where a.attname = 'tenant' and c.relkind in ('r', 'p') and not c.relispartition
            and c.relnamespace = 'public'::regnamespace order by c.relname`,
      );
      const counts = new Map<string, number>();
      for (const { name } of tables) {
        const [row] = await query<{ count: number }>(
          url,
          `select count(*)::int as count from "${name}" where tenant = ${tenant}`,
        );
        counts.set(name, row?.count ?? 0);
      }
      return counts;
    },
  };
}
