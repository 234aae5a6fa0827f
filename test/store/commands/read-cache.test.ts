import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock } from '../../../src/clock.ts';
import type { Commands } from '../../../src/store/commands/command.ts';
import { createEventDeliveries } from '../../../src/store/commands/event-deliveries.ts';
import { createReadCache } from '../../../src/store/commands/read-cache.ts';
import { createStreamFacts } from '../../../src/store/commands/stream-facts.ts';
import { createStreamStates } from '../../../src/store/commands/stream-states.ts';
import { readSubscriptions } from '../../../src/store/commands/stream-subscriptions.ts';
import type { Hint } from '../../../src/store/port/hints.ts';
import { createSeal } from '../../../src/store/seal.ts';
import { createCommands, purposesOf } from '../../../src/store/engine/sqlite/commands.ts';
import { openConnection } from '../../../src/store/engine/sqlite/connection.ts';
import { createDatabase } from '../../../src/store/engine/sqlite/database.ts';
import { prepareSchema } from '../../../src/store/engine/sqlite/schema.ts';
import { createWalRoom } from '../../../src/store/engine/sqlite/wal-room.ts';
import { createSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import { createFileCopy } from '../../helpers/sqlite.ts';
import { addTenant, fixtureOf, start } from '../contract/fixture.ts';
import { createTestTime } from '../test-time.ts';

/** Returns a store, and the queries of states on its connection with a cache of their own. */
async function setup(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'leat-read-cache-'));
  const file = join(folder, 'leat.db');
  await createFileCopy(file);
  const time = createTestTime(start);
  const random = (count: number) => randomBytes(count);
  const secretKeys = [randomBytes(32)];
  const location = { path: file, file };
  const connection = openConnection(location);
  await prepareSchema(connection, location, createSeal(secretKeys, random));
  const store = createSqliteStore(connection, {
    secretKeys,
    random,
    time,
    clock: systemClock,
    defer: (action) => void setImmediate(action),
    report: (error) => assert.fail(String(error)),
  });
  t.after(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  const tenant = await addTenant(store, 'main');

  let emit: (hint: Hint) => void = () => undefined;
  const readCache = createReadCache((listener) => (emit = listener));
  const db = createDatabase(connection);
  const all = createCommands(db, createWalRoom(db));
  let reads = 0;
  let beforeRead = async (_: number): Promise<void> => undefined;
  const commands: Commands = {
    ...all,
    read: async (command) => {
      reads += 1;
      await beforeRead(reads);
      return all.read(command);
    },
  };
  const deps = { on: purposesOf(commands), readCache };
  return {
    connection,
    commands,
    fixture: fixtureOf(store, tenant.id, time),
    emit: (hint: Hint) => emit(hint),
    states: createStreamStates(deps),
    facts: createStreamFacts(deps),
    deliveries: createEventDeliveries(deps),
    /** Returns how many statements this reads, `meanwhile` running before each. */
    during: async (
      reading: () => Promise<unknown>,
      meanwhile: (read: number) => Promise<void> = async () => undefined,
    ): Promise<number> => {
      reads = 0;
      beforeRead = meanwhile;
      await reading();
      beforeRead = async () => undefined;
      return reads;
    },
  };
}

test('states: a stream that was created while they were read, and deleted since, is not among the next ones', async (t) => {
  const { fixture, states, during } = await setup(t);
  const stream = await fixture.addStream();
  const idsOf = async () => {
    const read = await states(fixture.tenant, { lagsOf: 'none' });
    return read.streams.map(({ id }) => id);
  };
  const another = await fixture.addStream();
  const count = await during(idsOf);
  await fixture.store.streams.delete(fixture.tenant, another.id);
  for (let at = 1; at <= count; at += 1) {
    const passing: string[] = [];
    // A list that is known is not read.
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, name: `before ${at}` },
    }));
    await during(idsOf, async (read) => {
      if (read === at) passing.push((await fixture.addStream()).id);
    });
    for (const id of passing) await fixture.store.streams.delete(fixture.tenant, id);
    assert.deepEqual(await idsOf(), [stream.id], `created before statement ${at} of ${count}`);
  }
});

test('states: what is read of a store after it was replaced meanwhile is not kept', async (t) => {
  const { connection, fixture, states, facts, emit, during } = await setup(t);
  const stream = await fixture.addStream();
  await fixture.publish(...Array<string>(128).fill('user.created'));
  fixture.now += 100_000;
  const read = () => states(fixture.tenant, { lagsOf: 'all' });
  const count = await during(read);
  emit({ kind: 'replaced' });
  await during(read, async (at) => {
    // The events, of which the store of the backup has fewer.
    if (at !== count) return;
    connection.exec('delete from events where offset > 70; update tenants set head = 70');
    emit({ kind: 'replaced' });
  });
  connection.exec(`
    insert into events (tenant, offset, id, type, time, published_at, body)
    select tenant, offset + 58, id || 'x', type, time, published_at, body
    from events where offset > 12;
    update tenants set head = 128`);
  assert.equal((await facts.facts(fixture.tenant, stream.id))?.waiting.count, 128);
});

test('states: changes that a server lost when it ended are not shown as the next ones', async (t) => {
  const { connection, fixture, states, emit } = await setup(t);
  const [one, other] = [await fixture.addStream(), await fixture.addStream()];
  const read = async () => {
    const { streams } = await states(fixture.tenant, { lagsOf: 'none' });
    return streams.map(({ state }) => state);
  };
  const { tenant } = fixture;
  const disable = (id: string) =>
    connection.exec(`update streams set status = 'disabled', version = 2 where id = '${id}'`);
  assert.deepEqual(await read(), ['ok', 'ok']);
  disable(one.id);
  assert.deepEqual(await read(), ['disabled', 'ok']);
  connection.exec(`update streams set status = 'enabled', version = 1 where tenant = ${tenant}`);
  emit({ kind: 'missed' });
  disable(other.id);
  assert.deepEqual(await read(), ['ok', 'disabled']);
});

/** Returns the bytes of the objects that are reachable. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}

/** Returns a stream, an event, and the queries of what became of it. */
async function setupEvent(t: TestContext) {
  const { fixture, deliveries, during, ...others } = await setup(t);
  const stream = await fixture.addStream();
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  const found = await fixture.store.eventLog.find(fixture.tenant, event.id);
  assert.ok(found);
  const read = () => deliveries(fixture.tenant, found, { after: undefined, take: 10 });
  const select = (types: string[]) =>
    fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, subscriptions: [{ after: -1, types }] },
    }));
  return {
    ...others,
    stream,
    fixture,
    reads: (meanwhile?: Parameters<typeof during>[1]) => during(read, meanwhile),
    select,
    state: async () => (await read()).items.map(({ state }) => state),
  };
}

test('deliveries: subscriptions are read once, and again after a change', async (t) => {
  const { reads, select } = await setupEvent(t);
  await reads();
  const known = await reads();
  await select(['user.created', 'user.deleted']);
  assert.ok((await reads()) > known);
  assert.equal(await reads(), known);
});

test('deliveries: a selection that a server lost when it ended is not shown as the next one', async (t) => {
  const { connection, emit, state, stream } = await setupEvent(t);
  assert.deepEqual(await state(), ['waiting']);
  const filter = JSON.stringify({ type: 'other.type' });
  const subscriptions = JSON.stringify([{ after: -1, types: ['user.created'], filter }]);
  connection
    .prepare('update streams set subscriptions = ? where id = ?')
    .run(subscriptions, stream.id);
  emit({ kind: 'missed' });
  assert.deepEqual(await state(), ['filtered']);
});

test(
  'deliveries: of subscriptions with megabytes, few are in memory at a time',
  { tags: ['long'] },
  async (t) => {
    const { reads, connection, fixture } = await setupEvent(t);
    for (let count = 0; count < 50; count += 1) await fixture.addStream();
    const types = Array.from({ length: 20_000 }, (_, n) => `user.created_${n}`.padEnd(50, '_'));
    const [present, past] = [types.slice(10_000), types.slice(0, 10_000)].map((half) =>
      JSON.stringify([...half, 'user.created']),
    );
    connection
      .prepare('update streams set subscriptions = ?')
      .run(`[{"after":-1,"types":${present}}]`);
    connection
      .prepare(
        `insert into past_selections (tenant, stream, after_offset, to_offset, types, filter)
      select tenant, id, -1, 1000, ?, null from streams`,
      )
      .run(past ?? '');
    const used: number[] = [];
    await reads(async () => {
      used.push(heapUsed());
    });
    assert.ok(Math.max(...used) - (used[0] ?? 0) < 25e6, `${used.join()} bytes`);
  },
);

test('deliveries: streams with long subscriptions are searched in pieces, between which other work runs', async (t) => {
  const { reads, connection, fixture } = await setupEvent(t);
  for (let count = 0; count < 20; count += 1) await fixture.addStream();
  const types = [...Array.from({ length: 20_000 }, () => 'user.deleted'.repeat(4)), 'user.created'];
  connection
    .prepare('update streams set subscriptions = ?')
    .run(JSON.stringify([{ after: -1, types }]));
  let turns = 0;
  let isOver = false;
  const turn = () => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  turn();
  const turnsAt: number[] = [];
  await reads(async () => void turnsAt.push(turns));
  isOver = true;
  const [begin = 0, end = 0] = [turnsAt[0], turnsAt.at(-1)];
  assert.ok(end - begin >= 20, `${end - begin} turns`);
});

test(
  'readSubscriptions: those of many streams take no more memory than long ones',
  { tags: ['long'] },
  async (t) => {
    const { connection, commands, fixture } = await setup(t);
    await fixture.addStream();
    const columns = Object.keys(connection.prepare('select * from streams').get() ?? {});
    const copied = columns.map((name) =>
      ['id', 'name'].includes(name) ? `'${name} of one of many streams, ' || value` : name,
    );
    connection.exec(`
    insert into streams (${columns.join()})
    with recursive numbers (value) as (
      select 100001 union all select value + 1 from numbers where value < 250000)
    select ${copied.join()} from numbers, (select * from streams limit 1)`);
    const streams = connection
      .prepare('select id, version, 1 as key, 0 as first_offset from streams order by id')
      .all() as unknown as Parameters<typeof readSubscriptions>[2];
    const { present: kept } = createReadCache(() => undefined);
    const before = heapUsed();
    let count = 0;
    for await (const some of readSubscriptions({ commands, kept }, fixture.tenant, streams)) {
      count += some.length;
    }
    assert.equal(count, streams.length);
    const bytes = heapUsed() - before;
    assert.ok(bytes < 32e6, `${bytes} bytes`);
    assert.ok(kept.subscriptions.size > 1000);
  },
);
