import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { startDump } from '../helpers/dump.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/leat.ts';
import { watchLocks } from '../helpers/locks.ts';
import {
  expectBody,
  failuresOf,
  patchStream,
  redeliver,
  waitForFailures,
} from '../helpers/api-client.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** Older than every default retention. */
const ageDays = 20;
const failureCount = 40;
/** A node that does not lead in the first round waits for a minute, the longest duration of a round. */
const twoRoundsMs = 240_000;
/** Attempts in the history that no failure needs. */
const historyCount = 50_000;

test(
  'while a database is dumped, upkeep blocks no request; old days are removed after the dump',
  { tags: ['long'] },
  async (t) => {
    const cluster = await startCluster(t);
    const { query, url } = cluster;
    const endpoint = await startEndpoint(503);
    t.after(() => endpoint.close());
    const receiver = await startCountingReceiver(t);
    receiver.startRound();
    const first = await cluster.start({ LEAT_RETRY_DELAYS_MS: '0' });
    await createStream(first, receiver.url, 'healthy');
    const broken = await createStream(first, endpoint.url, 'broken');
    await receiver.waitForAll('old events', ['healthy'], await publish(first, failureCount));
    const failures = await waitForFailures(first, broken, failureCount);
    await patchStream(first, broken, { status: 'disabled' });
    // Age is measured from the newest event: without an event of today nothing would be old.
    const acknowledged = new Set(await publish(first, 1));
    await receiver.waitForAll('an event of today', ['healthy'], acknowledged);
    await first.stop();
    await age(cluster);
    const old = await oldDays(cluster);

    const dump = await startDump(url);
    await beginToDetach(url, old);
    const locks = await watchLocks(url);
    // A node that starts does a round of upkeep at once, if no other node leads.
    const settings = { LEAT_LOG_LEVEL: 'info' };
    const nodes = await Promise.all([cluster.start(settings), cluster.start(settings)]);
    const assertNoLock = (found: readonly string[]): void =>
      assert.deepEqual(found, [], 'no lock that publishing or delivering waits for');
    const publishAtEach = async (size: number): Promise<void> => {
      for (const node of nodes) {
        const ids = await publish(node, size);
        assert.equal(ids.length, size, 'every event is accepted');
        for (const id of ids) acknowledged.add(id);
      }
    };
    const isKept = async (): Promise<boolean> => {
      assertNoLock(locks.found());
      await publishAtEach(1);
      const [row] = await query<{ count: number }>(
        'select count(*)::int as count from kept_events',
      );
      return row?.count === failureCount;
    };
    await waitFor('upkeep to keep the bodies of open failures', isKept, { stallMs: twoRoundsMs });
    await waitFor('the round of upkeep to end', async () => {
      assertNoLock(locks.found());
      await publishAtEach(1);
      const lines = nodes.flatMap((node) => node.output().split('\n'));
      return ['history', 'days of events'].every((what) =>
        lines.some((line) => line.includes('"upkeep"') && line.includes(`"${what}"`)),
      );
    });
    await publishAtEach(100);
    await receiver.waitForAll('every event, during the dump', ['healthy'], acknowledged);
    assertNoLock(await locks.end());
    assert.deepEqual(await oldDays(cluster), old);

    await dump.end();
    await Promise.all(nodes.map((node) => node.stop()));
    const last = await cluster.start({ LEAT_RETRY_DELAYS_MS: '0' });
    await waitFor('the old days to go', async () => (await oldDays(cluster)).length === 0);
    const left = await failuresOf(last, broken);
    assert.deepEqual(left.map(attemptsOf).toSorted(), failures.map(attemptsOf).toSorted());
    endpoint.respondWith(204);
    const [failure] = left;
    assert.ok(failure);
    await expectBody(202, redeliver(last, broken, failure.id));
    await waitFor('a failure of an old day again', () => endpoint.of(failure.id).length > 2);
    assert.deepEqual(endpoint.of(failure.id).at(-1)?.event, endpoint.of(failure.id)[0]?.event);
  },
);

const attemptsOf = ({ id, attempts }: { id: string; attempts: readonly unknown[] }): string =>
  `${id} ${attempts.length}`;

/**
 * Makes everything but the newest event old, the first half of the events by one more day, and adds
 * many attempts to the history that nothing needs.
 */
async function age({ query }: Cluster): Promise<void> {
  const daysOf = (offset: string): string =>
    `(${ageDays} + (${offset} <= ${failureCount / 2})::int)`;
  await query(`
    do $$ declare today integer := floor(extract(epoch from clock_timestamp()) / 86400); begin
      -- One day for each half, one more in case midnight passes, and an empty one.
      for day in today - ${ageDays + 3} .. today - ${ageDays} loop
        execute format('create table events_d%s partition of events for values from (%s) to (%s)',
          day, day * 86400000::bigint, (day + 1) * 86400000::bigint);
        execute format('create table attempts_d%s partition of attempts for values from (%s) to (%s)',
          day, day, day + 1);
      end loop;
      -- Created ahead by upkeep, also during the dump.
      execute format('drop table if exists events_d%s, attempts_d%1$s', today + 2);
    end $$;
    update events set published_at = published_at - ${daysOf('"offset"')} * 86400000::bigint
      where "offset" <= ${failureCount};
    update attempts set day = day - ${daysOf('event_key')},
      at = at - ${daysOf('event_key')} * 86400000::bigint
      where event_key <= ${failureCount};
    insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome)
      select day, tenant, stream_key, ${failureCount} + n, at, 1, 1
      from (select * from attempts where outcome = 1 order by at limit 1) delivered,
        generate_series(2, ${historyCount}) n;
    update deliveries set event_day = event_day - ${daysOf('"offset"')},
      attempts_from = attempts_from - ${daysOf('"offset"')},
      attempts_to = attempts_to - ${daysOf('"offset"')},
      failed_at = failed_at - ${daysOf('"offset"')} * 86400000::bigint
      where "offset" <= ${failureCount};
    update tenants set oldest_at = (select min(published_at) from events);
    delete from log_days; select leat_fill_log_days()`);
}

/** Returns the names of the partitions of old days, detached ones included. */
async function oldDays({ query }: Cluster): Promise<string[]> {
  const found = await query<{ name: string }>(`
    select relname as name from pg_class
    where relkind = 'r' and relname ~ '^(events|attempts)_d[0-9]+$'
      and substring(relname from '[0-9]+$')::int < extract(epoch from clock_timestamp()) / 86400 - 10
    order by relname`);
  return found.map(({ name }) => name);
}

/** Begins to detach the empty day, as a node does that is interrupted by the start of a dump. */
async function beginToDetach(url: string, days: readonly string[]): Promise<void> {
  const [day = ''] = days.filter((name) => name.startsWith('events'));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('set statement_timeout = 300');
  await assert.rejects(
    client.query(`alter table events detach partition ${day} concurrently`),
    /statement timeout/,
  );
  await client.end();
}
