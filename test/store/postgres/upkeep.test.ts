import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { makeDays } from '../../../src/store/engine/postgres/partitions.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { startDump } from '../../helpers/dump.ts';
import { watchLocks } from '../../helpers/locks.ts';
import { sharedPostgres } from '../../helpers/postgres.ts';
import { waitFor } from '../../helpers/wait.ts';
import { addTenant, failed, newEvent, newStream, fixtureOf, start } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const dayMs = 86_400_000;
const firstDay = Math.floor(start / dayMs);
const query = { olderThanMs: dayMs, take: 200 };

interface Fixture {
  readonly url: string;
  readonly store: Store;
  readonly tenant: number;
  connect(): Promise<pg.Client>;
  /** Rows of one statement, on a connection of the test. */
  rows<Row extends object>(sql: string): Promise<Row[]>;
  /** Names of the partitions of old days, detached ones included. */
  oldDays(): Promise<string[]>;
}

async function openFixture(t: TestContext): Promise<Fixture> {
  const url = await newDatabase();
  const store = await openUrl(url);
  const clients: pg.Client[] = [];
  t.after(async () => {
    await Promise.all(clients.map((client) => client.end()));
    await store.close();
    await (await sharedPostgres()).dropDatabase(url);
  });
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url, application_name: 'test' });
    client.on('error', () => undefined);
    await client.connect();
    clients.push(client);
    return client;
  };
  const own = await connect();
  const rows = async <Row extends object>(sql: string): Promise<Row[]> =>
    (await own.query<Row>(sql)).rows;
  return {
    url,
    store,
    tenant: (await addTenant(store, 'main')).id,
    connect,
    rows,
    oldDays: async () => {
      const found = await rows<{ name: string }>(`
        select relname as name from pg_class
        where relkind = 'r' and relname ~ '^(events|attempts)_d${firstDay}$' order by relname`);
      return found.map(({ name }) => name);
    },
  };
}

/** An old day of events and history, failures of them that are open, and an event of today. */
async function fill(
  { store, tenant, rows }: Fixture,
  given: { events: number; streams: number; failures: number; attempts: number },
): Promise<void> {
  const { events, streams, failures, attempts } = given;
  await rows(`update test_time set ms = ${start}`);
  await store.log.append(
    tenant,
    Array.from({ length: events }, (_, index) => newEvent({ id: `evt_${index + 1}` })),
  );
  await rows(`update test_time set ms = ${start + 3 * dayMs}`);
  await store.log.append(tenant, [newEvent()]);
  for (let stream = 1; stream <= streams; stream += 1) {
    await rows(`
      insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
        version, created_at, updated_at)
      values (${tenant}, 'est_${stream}', '${stream}', 'disabled', '[]', '', '', 1, 1, 1)`);
    await rows(`
      insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
      values (${tenant}, 'est_${stream}', 0, 1, 0, ${failures}, 0)`);
    await rows(`
      insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
        failed_at, event_day, attempts_from, attempts_to)
      select ${tenant}, 'est_${stream}', 'evt_' || n, n, 'user.created', ${start}, 'first', 'failed',
        4, ${start}, ${firstDay}, ${firstDay}, ${firstDay} from generate_series(1, ${failures}) n`);
  }
  await rows(historyDay(tenant, attempts));
}

/** Creates a partition of the old day, as an attempt of that day does, with its history. */
function historyDay(tenant: number, attempts: number): string {
  return `
    create table if not exists attempts_d${firstDay} (like attempts including all);
    alter table attempts attach partition attempts_d${firstDay}
      for values from (${firstDay}) to (${firstDay + 1});
    insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome)
    select ${firstDay}, ${tenant}, r.key, n, ${start}, 1, 2
    from runs r, generate_series(1, ${attempts}) n`;
}

/** Counts the statements that move history, in the sequence `statements`. */
const countStatements = `
  create sequence statements;
  create function count_statement() returns trigger language plpgsql as $$ begin
    perform nextval('statements'); return null; end $$;
  create trigger counted after delete on attempts for each statement
    execute function count_statement()`;

/** Replaces the store, as a fail-over or a restore does; `sql` sets its rows back. */
async function replaceStore({ rows }: Fixture, sql: string): Promise<void> {
  await rows(`begin; ${sql};
    update store set generation = generation + 1, identity = 'another one'; commit`);
}

/** Runs steps of upkeep until none does anything. */
async function runUpkeep({ store, tenant }: Fixture): Promise<number> {
  let steps = 0;
  const all = [
    () => store.log.prune(tenant, { ...query, take: 1_000_000 }),
    () => store.deliveries.pruneAttempts(query),
    () => store.upkeep.dropEvents(query),
    () => store.upkeep.releaseKept(query),
  ];
  for (const step of all) {
    while ((await step()) > 0) steps += 1;
  }
  return steps;
}

describe('PostgreSQL: upkeep', () => {
  test('upkeep: a backup that reads every table blocks neither publishers nor upkeep for long', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, url, oldDays } = fixture;
    await fill(fixture, { events: 20, streams: 1, failures: 10, attempts: 20 });
    const backup = await startDump(url);

    const locks = await watchLocks(fixture.url);
    const published: number[] = [];
    const upkeep = runUpkeep(fixture);
    for (let count = 0; count < 30; count += 1) {
      const [appended] = await store.log.append(tenant, [newEvent()]);
      published.push(appended?.offset ?? 0);
      await store.upkeep.prepare();
    }
    await upkeep;
    assert.deepEqual(await locks.end(), [], 'no lock that publishing or delivering waits for');
    assert.deepEqual(published.at(-1), 51);
    assert.deepEqual(await oldDays(), [`attempts_d${firstDay}`, `events_d${firstDay}`]);
    assert.equal((await store.deliveries.listFailures(tenant, 'est_1', page)).items.length, 10);

    await backup.end();
    await waitFor('the days to go', async () => {
      await runUpkeep(fixture);
      return (await oldDays()).length === 0;
    });
    const { items } = await store.deliveries.listFailures(tenant, 'est_1', page);
    assert.deepEqual(new Set(items.map(({ attempts }) => attempts.length)), new Set([1]));
  });

  test('upkeep: a day that is vacuumed is removed after it, and publishers do not wait meanwhile', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, connect, oldDays } = fixture;
    await fill(fixture, { events: 3, streams: 1, failures: 1, attempts: 3 });
    // A vacuum, also the automatic one, holds this lock until it ends.
    const vacuum = await connect();
    await vacuum.query(`begin; lock table attempts_d${firstDay} in share update exclusive mode`);
    const locks = await watchLocks(fixture.url);
    await runUpkeep(fixture);
    const [appended] = await store.log.append(tenant, [newEvent()]);
    assert.equal(appended?.offset, 5);
    assert.ok((await oldDays()).includes(`attempts_d${firstDay}`));
    assert.deepEqual(await locks.end(), []);
    await vacuum.query('commit');
    await waitFor('the days to go', async () => {
      await runUpkeep(fixture);
      return (await oldDays()).length === 0;
    });
  });

  test('upkeep: a day is removed by keys of kept rows, without reading the day', async (t) => {
    const fixture = await openFixture(t);
    const { rows, oldDays } = fixture;
    await fill(fixture, { events: 500, streams: 4, failures: 500, attempts: 20_000 });
    const locks = await watchLocks(fixture.url);
    const scans = async () => {
      const [row] = await rows<{ seq: string; idx: string }>(`
        select coalesce(sum(seq_tup_read), 0) as seq, coalesce(sum(idx_tup_fetch), 0) as idx
        from pg_stat_user_tables where relname = 'attempts_d${firstDay}'`);
      return { seq: Number(row?.seq), idx: Number(row?.idx) };
    };
    const { store } = fixture;
    const before = await scans();
    // Everything but the removal of the day, which also removes its statistics: ten pages of rows.
    for (let step = 0; step < 10; step += 1) await store.deliveries.pruneAttempts(query);
    await waitFor('the statistics', async () => {
      // A connection reports its former work when it does something again.
      await store.upkeep.lead('this', 1000);
      return (await scans()).idx >= before.idx + 2000;
    });
    const after = await scans();
    assert.equal(after.seq, before.seq);
    assert.ok(after.idx < before.idx + 10_000, `${after.idx - before.idx} entries were read`);
    await waitFor('the day to go', async () => {
      await runUpkeep(fixture);
      return (await oldDays()).length === 0;
    });
    assert.deepEqual(await locks.end(), []);
    const [kept] = await rows<{ count: string }>('select count(*) as count from attempts_kept');
    assert.equal(Number(kept?.count), 2000);
  });

  test('upkeep: attempts of an open failure stay even when its event has a later day', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, rows, oldDays } = fixture;
    const storeFixture = fixtureOf(store, tenant);
    const stream = await storeFixture.addStream({ types: ['user.created'] });
    // The clock was ahead for one publication, and the log has its day since.
    await rows(`update test_time set ms = ${start + 20 * dayMs}`);
    await store.log.append(tenant, [newEvent({ type: 'user.deleted' })]);
    await rows(`update test_time set ms = ${start}`);
    await store.log.append(tenant, [newEvent()]);
    const { events } = await store.log.page(tenant, { after: 1, take: 1, bytesMax: 1e6 });
    assert.ok(events[0]);
    const owned = await storeFixture.own(stream);
    await storeFixture.settle(owned, { outcomes: [failed(events[0])], cursor: 2 });
    assert.deepEqual(await oldDays(), [`attempts_d${firstDay}`]);
    await rows(`update test_time set ms = ${start + 20 * dayMs}`);
    while ((await store.deliveries.pruneAttempts(query)) > 0);
    assert.deepEqual(await oldDays(), []);
    const { items } = await store.deliveries.listFailures(tenant, stream.id, page);
    assert.deepEqual(
      items.map(({ attempts }) => attempts.length),
      [1],
    );
  });

  test('upkeep: a body is kept once, however many streams need it', async (t) => {
    const fixture = await openFixture(t);
    const { rows, oldDays } = fixture;
    await fill(fixture, { events: 20, streams: 30, failures: 20, attempts: 1 });
    await waitFor('the days to go', async () => {
      await runUpkeep(fixture);
      return (await oldDays()).length === 0;
    });
    const [kept] = await rows<{ bodies: string; copies: string }>(`
      select (select count(*) from kept_events) as bodies,
        (select count(*) from deliveries where body is not null) as copies`);
    assert.deepEqual([Number(kept?.bodies), Number(kept?.copies)], [20, 0]);
    const { items } = await fixture.store.deliveries.listFailures(fixture.tenant, 'est_30', page);
    assert.equal(items.length, 20);
  });

  test('upkeep: a step that keeps history takes one statement for a day, however many streams failed', async (t) => {
    const fixture = await openFixture(t);
    const { store, rows } = fixture;
    await fill(fixture, { events: 20, streams: 30, failures: 20, attempts: 21 });
    await rows(countStatements);
    while ((await store.deliveries.pruneAttempts(query)) > 0);
    const [found] = await rows(`
      select (select last_value::int from statements) as statements,
        (select count(*)::int from attempts) as kept,
        (select count(*)::int from attempts where event_key > 20) as more`);
    assert.deepEqual(
      found,
      { statements: 4, kept: 600, more: 0 },
      'of three full pages and the end',
    );
  });

  test('upkeep: a year of days without history costs no statement for each of them', async (t) => {
    const fixture = await openFixture(t);
    const { store, rows, connect } = fixture;
    await fill(fixture, { events: 20, streams: 30, failures: 20, attempts: 20 });
    const client = await connect();
    const script = async (sql: string): Promise<void> => void (await client.query(sql));
    const empty = Array.from({ length: 40 }, (_, index) => firstDay - 1 - index);
    await makeDays({ script }, 'attempts', empty);
    // The last of them gets a row once the walk over the failures has begun.
    await rows(countStatements);
    assert.ok((await store.deliveries.pruneAttempts(query)) > 0);
    const late = firstDay - empty.length;
    await rows(`
      insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome)
      select ${late}, tenant, key, 1, ${start}, 1, 2 from runs where stream = 'est_1'`);
    await waitFor('the days to go', async () => {
      while ((await store.deliveries.pruneAttempts(query)) > 0);
      const left = await rows(`
        select 1 from pg_class where relkind = 'r' and relname ~ '^attempts_d[0-9]+$'
          and substring(relname from '[0-9]+$')::int <= ${firstDay}`);
      return left.length === 0;
    });
    const [found] = await rows(`
      select (select last_value::int from statements) as statements,
        (select count(*)::int from attempts) as kept`);
    // One page of one day; then four of two days.
    assert.deepEqual(found, { statements: 9, kept: 601 });
  });

  test('upkeep: one pass removes kept rows that no delivery needs', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, rows } = fixture;
    await fill(fixture, { events: 20, streams: 3, failures: 0, attempts: 0 });
    await rows(`
      insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
        failed_at)
      select ${tenant}, 'est_1', 'evt_' || n, n, 'user.created', 1, 'first', 'failed', 4, 1
      from generate_series(1, 12) n;
      insert into kept_events (tenant, "offset", id, body)
      select ${tenant}, n, 'evt_' || n, '{}' from generate_series(1, 20) n;
      insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome)
      select 0, ${tenant}, key, 1, 1, 1, 2 from runs`);
    const steps: number[] = [];
    do steps.push(await store.upkeep.releaseKept({ take: 5 }));
    while (steps.at(-1) !== 0);
    const [left] = await rows(`
      select (select count(*)::int from kept_events) as bodies,
        (select count(*)::int from attempts_kept) as attempts`);
    assert.deepEqual(left, { bodies: 12, attempts: 1 }, `steps: ${steps.join(', ')}`);
  });

  test('upkeep: a day that a former process began to detach is removed', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, connect, oldDays } = fixture;
    await fill(fixture, { events: 3, streams: 1, failures: 1, attempts: 3 });
    assert.equal(await store.log.prune(tenant, { ...query, take: 100 }), 3);
    const reader = await connect();
    await reader.query('begin; select count(*) from events');
    const former = await connect();
    await former.query(`set statement_timeout = 300`);
    await assert.rejects(
      former.query(`alter table events detach partition events_d${firstDay} concurrently`),
      /statement timeout/,
    );
    await reader.query('commit');
    await waitFor('the days to go', async () => {
      await runUpkeep(fixture);
      return (await oldDays()).length === 0;
    });
  });

  test('upkeep: many tenants with one that lags cost next to nothing', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, rows } = fixture;
    await fill(fixture, { events: 1000, streams: 1, failures: 0, attempts: 0 });
    await rows(`update streams set status = 'enabled'; update runs set cursor = 1`);
    await rows(`
      insert into tenants (name, domain, head, last_published_at, oldest_at, created_at)
      select 'other ' || n, n || '.example.com', 5, ${start + 3 * dayMs}, ${start + 3 * dayMs}, 1
      from generate_series(1, 2000) n`);
    const pruneQuery = { olderThanMs: dayMs, after: 0, take: 500 };
    const found = await store.upkeep.tenantsToPrune(pruneQuery);
    assert.deepEqual(found, { tenants: [tenant], next: undefined });
    assert.equal(await store.log.prune(tenant, { ...query, take: 1_000_000 }), 1);
    assert.equal(await store.upkeep.dropEvents(query), 0, 'the day is needed');
    await rows('update runs set cursor = 1000');
    assert.equal(await store.log.prune(tenant, { ...query, take: 1_000_000 }), 999, 'at once');
  });

  test('upkeep: one process leads, and another one after its lease', async (t) => {
    const { store } = await openFixture(t);
    assert.equal(await store.upkeep.lead('one', 60_000), true);
    assert.equal(await store.upkeep.lead('two', 60_000), false);
    assert.equal(await store.upkeep.lead('one', 0), true);
    assert.equal(await store.upkeep.lead('two', 60_000), true);
    await store.upkeep.resign('one');
    assert.equal(await store.upkeep.lead('one', 60_000), false);
    await store.upkeep.resign('two');
    assert.equal(await store.upkeep.lead('one', 60_000), true);
  });

  test('listFailures: reads only the days of the events', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, rows, connect } = fixture;
    await fill(fixture, { events: 20, streams: 1, failures: 20, attempts: 20 });
    await rows(`do $$ begin for day in ${firstDay + 10} .. ${firstDay + 100} loop
      execute format('create table attempts_d%s partition of attempts for values from (%s) to (%s)',
        day, day, day + 1);
    end loop; end $$`);
    // A statement that opens one of these days waits for it.
    const blocker = await connect();
    await blocker.query('begin');
    await blocker.query(
      `lock table ${Array.from({ length: 91 }, (_, index) => `attempts_d${firstDay + 10 + index}`).join(', ')} in access exclusive mode`,
    );
    const { items } = await store.deliveries.listFailures(tenant, 'est_1', page);
    assert.equal(items.length, 20);
    assert.deepEqual(new Set(items.map(({ attempts }) => attempts.length)), new Set([1]));
  });
});

describe('PostgreSQL: upkeep after a fail-over or a restore', () => {
  test('a restored day of the history is removed, and entries of open failures are kept', async (t) => {
    const fixture = await openFixture(t);
    const { store, rows, oldDays } = fixture;
    await store.ownership.join('node', 60_000);
    await fill(fixture, { events: 3, streams: 1, failures: 3, attempts: 9 });
    const prune = async (): Promise<number> => store.deliveries.pruneAttempts(query);
    while ((await prune()) > 0);
    assert.deepEqual(await oldDays(), [`events_d${firstDay}`]);
    // The state of an earlier backup.
    await replaceStore(fixture, `delete from attempts; ${historyDay(fixture.tenant, 9)}`);
    await assert.rejects(prune(), { name: 'StoreReplaced' });
    assert.ok((await store.ownership.join('node', 60_000)).replaced);
    while ((await prune()) > 0);
    assert.deepEqual(await oldDays(), [`events_d${firstDay}`]);
    const kept = await rows('select event_key::int from attempts order by event_key');
    assert.deepEqual(kept, [{ event_key: 1 }, { event_key: 2 }, { event_key: 3 }]);
  });

  test('a day of events stays while the new primary lacks the copied bodies or needs its events', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant, rows, oldDays } = fixture;
    await store.ownership.join('node', 60_000);
    await fill(fixture, { events: 3, streams: 1, failures: 1, attempts: 0 });
    await rows(`update streams set status = 'enabled'; update runs set cursor = 3`);
    const prune = () => store.log.prune(tenant, { ...query, take: 1_000_000 });
    const drop = () => store.upkeep.dropEvents(query);
    assert.equal(await prune(), 3);
    const backup = await startDump(fixture.url);
    while ((await drop()) > 0);
    const kept = () => rows('select "offset"::int from kept_events');
    assert.deepEqual(await kept(), [{ offset: 1 }], 'the bodies are copied, and the day is in use');
    // A replica that was late: neither the copies nor the beginning of the log had reached it.
    await replaceStore(
      fixture,
      `delete from kept_events; update tenants set pruned_to = 0, oldest_at = 0;
       update runs set cursor = 1`,
    );
    await backup.end();
    await assert.rejects(drop(), { name: 'StoreReplaced' });
    await store.ownership.join('node', 60_000);
    assert.equal(await prune(), 1);
    while ((await drop()) > 0);
    assert.ok((await oldDays()).includes(`events_d${firstDay}`), 'the stream has yet to send two');
    const { events } = await store.log.page(tenant, { after: 1, take: 9, bytesMax: 1_000_000 });
    assert.deepEqual(events.map(({ offset }) => offset).slice(0, 2), [2, 3]);
    await rows('update runs set cursor = 3');
    assert.equal(await prune(), 2);
    await waitFor('the day to go', async () => {
      while ((await drop()) > 0);
      return !(await oldDays()).includes(`events_d${firstDay}`);
    });
    assert.deepEqual(await kept(), [{ offset: 1 }]);
    assert.ok(await store.deliveries.failure(tenant, 'est_1', 'evt_1'));
  });

  test('prune: the beginning of the log does not move in a store that was not joined', async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant } = fixture;
    await store.ownership.join('node', 60_000);
    await fill(fixture, { events: 3, streams: 0, failures: 0, attempts: 0 });
    await replaceStore(fixture, 'select 1');
    const prune = () => store.log.prune(tenant, { ...query, take: 1_000_000 });
    await assert.rejects(prune(), { name: 'StoreReplaced' });
    await store.ownership.join('node', 60_000);
    assert.equal(await prune(), 3);
  });
});

test('PostgreSQL: nothing is pruned after the cursor of a stream that is being created in the past', async (t) => {
  const fixture = await openFixture(t);
  const { store, tenant, rows, connect } = fixture;
  await fill(fixture, { events: 3, streams: 0, failures: 0, attempts: 0 });
  // Blocks the creation once its rows are written.
  await rows(`
    create function hold() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock(1); return new; end $$;
    create trigger hold after insert on runs for each row execute function hold()`);
  const holder = await connect();
  await holder.query('begin; select pg_advisory_xact_lock(1)');
  const first = store.streams.create({ ...newStream(tenant, start), cursor: 0 }, { streamsMax: 9 });
  await waitFor('the creation to wait', async () => {
    const waiting = await rows(
      `select 1 from pg_locks where locktype = 'advisory' and not granted`,
    );
    return waiting.length > 0;
  });
  const prune = () => store.log.prune(tenant, { ...query, take: 1_000_000 });
  assert.equal(await prune(), 0);
  await holder.query('commit');
  assert.ok('created' in (await first));
  assert.equal(await prune(), 0, 'the stream has yet to send them');
  await rows('update runs set cursor = 3');
  assert.equal(await prune(), 3);
  const later = { ...newStream(tenant, start), cursor: 0 };
  assert.ok('created' in (await store.streams.create(later, { streamsMax: 9 })));
  const [run] = await rows<{ cursor: number }>(
    `select cursor::int from runs where stream = '${later.id}'`,
  );
  assert.equal(run?.cursor, 3, 'it begins where the log does');
});

test('PostgreSQL: while a detached day is in use, other days keep their history', async (t) => {
  const fixture = await openFixture(t);
  const { store, rows, connect, oldDays } = fixture;
  await fill(fixture, { events: 3, streams: 1, failures: 3, attempts: 9 });
  // A partition that a former leader detached and did not drop.
  await rows(`create table attempts_d${firstDay - 1} (like attempts including all)`);
  const reader = await connect();
  await reader.query(`begin; select count(*) from attempts_d${firstDay - 1}`);
  while ((await store.deliveries.pruneAttempts(query)) > 0);
  assert.deepEqual(await oldDays(), [`events_d${firstDay}`]);
  const { items } = await store.deliveries.listFailures(fixture.tenant, 'est_1', page);
  assert.deepEqual(
    items.map(({ attempts }) => attempts.length),
    [1, 1, 1],
  );
});

const page = { after: undefined, take: 100 };
