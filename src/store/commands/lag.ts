import type { Millis } from '../../core/clock.ts';
import type { Hint } from '../port/hints.ts';
import type { LaggingStream, UpkeepStore } from '../port/upkeep.ts';
import { disabledEntry } from '../rules/audit-log.ts';
import { record } from './audit-log.ts';
import { type Command, engine, type On, sql, together } from './command.ts';
import { Fragment, larger, piece } from './dialect.ts';
import { failWaiting } from './disabling.ts';
import { horizonOf } from './horizon.ts';
import { lockRun, noteChanges, storeNow } from './runs.ts';

export interface LagDeps extends On {
  readonly hint: (hint: Hint) => void;
}

/** Creates the commands that enforce the bound on lag. */
export function createLagStore({
  on: { commands },
  hint,
}: LagDeps): Pick<UpkeepStore, 'lagging' | 'noteLag' | 'disableLagging'> {
  return {
    lagging: (query) => commands.read(lagging(query)),
    noteLag: async ({ tenant, stream, reportedPercent }, percent) => {
      await commands.transact('relaxed', function* () {
        return yield* sql.run`
          update streams set lag_reported = ${percent}, lag_at = leat_now()
          where tenant = ${tenant} and id = ${stream} and lag_reported = ${reportedPercent}`;
      });
    },
    disableLagging: async (lag) => {
      const isDisabled = await commands.transact('durable', () => disableLagging(lag));
      if (isDisabled) hint({ kind: 'stream', tenant: lag.tenant, stream: lag.stream });
      return isDisabled;
    },
  };
}

/**
 * Tenants per call, which takes about a millisecond on SQLite. On PostgreSQL each stream that is not
 * at the head costs one search in old days.
 */
const tenantsPerStep = 100;

/** See {@link UpkeepStore.lagging}; includes streams whose lag was reported and is over. */
function* lagging({
  olderThanMs,
  after,
}: Parameters<UpkeepStore['lagging']>[0]): Command<Awaited<ReturnType<UpkeepStore['lagging']>>> {
  const present = yield* horizonOf(0);
  const before = present - olderThanMs;
  const tenants = yield* sql.all<{ id: number }>`
    select id from tenants where id > ${after} order by id limit ${tenantsPerStep}`;
  const last = tenants.at(-1)?.id ?? after;
  const rows = yield* sql.all<Omit<LaggingStream, 'lagMs'> & { readonly oldest: Millis | null }>`
    select s.tenant, s.id as stream, s.name, s.status, r.cursor, s.lag_reported as "reportedPercent",
      leat_now() - s.lag_at as "reportedAgoMs", e.published_at as oldest
    from streams s
    join tenants t on t.id = s.tenant
    join runs r on r.tenant = s.tenant and r.stream = s.id
    ${withOldest(before)}
    where s.tenant > ${after} and s.tenant <= ${last}
      and (s.status = 'enabled' or s.disabled_reason = 'lag' and s.lag_reported > 0)
      and (e.published_at < ${before} or s.lag_reported > 0)
    order by s.tenant, s.id`;
  const streams = rows.map(({ oldest, ...stream }) => ({
    ...stream,
    lagMs: oldest === null || oldest >= before ? 0 : present - oldest,
  }));
  return { streams, next: tenants.length < tenantsPerStep ? undefined : last };
}

/** Joins the event after the cursor as `e`. PostgreSQL reads only one from days that may lag. */
function withOldest(before: Millis): Fragment {
  return new Fragment({
    // What is above the head is a part of an append, and none of the log.
    sqlite: piece`
      left join events e on e.tenant = t.id and e.offset = r.cursor + 1 and e.offset <= t.head`,
    postgres: piece`
      left join lateral leat_stretch(s.tenant, r.cursor, r.cursor + 1, 1) as d
        on r.cursor < t.head and t.oldest_at < ${before}
      cross join lateral (
        select case when d.from_at < ${before} then leat_published_at(s.tenant, r.cursor + 1) end
          as published_at) as e`,
  });
}

/**
 * Disables a stream that has not moved since it was listed. Its reported percentage stays recorded
 * until the alert about this is stored: see {@link lagging}.
 */
function* disableLagging({ tenant, stream, cursor }: LaggingStream): Command<boolean> {
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (run === undefined || run.status !== 'enabled' || run.cursor !== cursor) return false;
  const health = yield* failWaiting(run, 'retrying', now);
  yield* together(
    engine.writeRuns([{ ...run, health }]),
    sql.run`
      update streams set status = 'disabled', disabled_reason = 'lag', lag_at = ${now},
        disabled_since = ${now}, disabled_code = (
          select last_error_code from runs where tenant = ${tenant} and stream = ${stream}),
        version = version + 1, updated_at = ${larger}(${now}, updated_at + 1)
      where tenant = ${tenant} and id = ${stream}`,
    noteChanges([run]),
  );
  yield* record(disabledEntry(run, 'lag'));
  return true;
}
