import type { Millis } from '../../core/clock.ts';
import { isFailing } from '../../core/stream-state.ts';
import type { Offset } from '../../core/types.ts';
import type { OverviewStore, StreamPosition, TenantOverview } from '../port/overview.ts';
import { sendsAll } from '../rules/pause.ts';
import { type Command, type On, sql } from './command.ts';
import { type Fragment, larger, oneOf, perDialect } from './dialect.ts';
import { overdueStreams } from './overdue.ts';
import { type Range, storeNow, stretchOf } from './runs.ts';

export interface OverviewDeps extends On {
  /** The parts of which each engine has its own. */
  readonly engine: Pick<OverviewStore, 'engine' | 'server' | 'faults' | 'size'>;
}

/** Creates the store of sizes and counts. Every query reads a bounded number of events. */
export function createOverviewStore({ on, engine }: OverviewDeps): OverviewStore {
  return {
    ...engine,
    tenant: (id) => on.lists.read(overview(id)),
    behind: (tenant, take) => on.lists.read(behind(tenant, take)),
  };
}

/** Tenants with the last offset before their retained events, which is the head without any. */
const logs = perDialect({
  sqlite: `(
    select id, head, last_published_at, coalesce((
      select min(e.offset) - 1 from events e where e.tenant = tenants.id), head) as pruned_to
    from tenants)`,
  postgres: 'tenants',
});

/** When the event after an offset of the log `t` was published; null when there is none. */
const publishedAfter = (offset: string): Fragment =>
  perDialect({
    // What is above the head is a part of an append, and none of the log.
    sqlite: `(
      select e.published_at from events e
      where e.tenant = t.tenant and e.offset = ${offset} + 1 and e.offset <= t.head)`,
    postgres: `leat_published_at(t.tenant, ${offset} + 1)`,
  });
const [afterPruned, afterCursor] = [publishedAfter('t.pruned'), publishedAfter('t.passed')];

interface OverviewRow extends Pick<TenantOverview['streams'], 'enabled' | 'disabled'> {
  readonly head: Offset;
  readonly pruned: Offset;
  readonly failures: number;
  /** The lowest cursor of an enabled stream. */
  readonly passed: Offset;
  readonly oldest: Millis | null;
  readonly newest: Millis | null;
  readonly since: Millis | null;
}

function* overview(tenant: number): Command<TenantOverview | undefined> {
  const row = yield* sql.get<OverviewRow>`
    select t.*, case when head > pruned then last_published_at end as newest,
      ${afterPruned} as oldest, ${afterCursor} as since
    from (
      select log.id as tenant, log.head, log.last_published_at, log.pruned_to as pruned, s.*,
        ${larger}(coalesce(s.cursor, log.head), log.pruned_to) as passed
      from ${logs} as log, (
        select
          count(*) filter (where s.status = 'enabled') as enabled,
          count(*) filter (where s.status = 'disabled') as disabled,
          coalesce(sum(r.total_failures), 0) as failures,
          min(r.cursor) filter (where s.status = 'enabled') as cursor
        from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
        where s.tenant = ${tenant}) as s
      where log.id = ${tenant}) as t`;
  if (row === undefined) return undefined;
  const { head, pruned, passed, enabled, disabled } = row;
  const failing = yield* countFailing(tenant);
  const events = head - pruned;
  return {
    head,
    events,
    aboutBytes: Math.round(events * (yield* averageBytes(tenant, row))),
    oldestPublishedAt: row.oldest ?? undefined,
    newestPublishedAt: row.newest ?? undefined,
    streams: { enabled: enabled - failing, failing, disabled },
    openFailures: row.failures,
    lag: { events: head - passed, since: row.since ?? undefined },
  };
}

interface FailingRow {
  readonly id: string;
  readonly consecutive: number;
  readonly refused_at: Millis | null;
  readonly failing_since: Millis | null;
}

/** Counts the streams that fail among those that are enabled and not paused. */
function* countFailing(tenant: number): Command<number> {
  const now = yield* storeNow();
  const overdue = yield* overdueStreams(tenant, now);
  const sinceOf = new Map(overdue.map(({ id, since }) => [id, since]));
  const rows = yield* sql.all<FailingRow>`
    select s.id, r.consecutive_failures as consecutive, r.refused_at, r.failing_since
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant} and ${sendsAll}
      and (r.consecutive_failures > 0 or r.refused_at is not null or r.failing_since is not null
        or s.id ${oneOf([...sinceOf.keys()])})`;
  return rows.filter(({ id, consecutive, ...row }) =>
    isFailing(
      {
        consecutive,
        isRefused: row.refused_at !== null,
        failingSince: row.failing_since ?? undefined,
        overdueSince: sinceOf.get(id),
      },
      now,
    ),
  ).length;
}

/** Returns the bytes of a body, averaged over the oldest and the newest hundred. */
function* averageBytes(tenant: number, { head, pruned }: OverviewRow): Command<number> {
  const first = { after: pruned, upTo: Math.min(pruned + 100, head) };
  const last = { after: Math.max(head - 100, pruned + 100), upTo: head };
  const oldest = yield* bodiesOf(tenant, first);
  const newest = yield* bodiesOf(tenant, last);
  return (oldest.bytes + newest.bytes) / Math.max(oldest.count + newest.count, 1);
}

/** Counts the bodies of a range, or those of them in few days. */
function* bodiesOf(
  tenant: number,
  range: Range,
): Command<{ readonly bytes: number; readonly count: number }> {
  const { upTo, inDays } = yield* stretchOf(tenant, range);
  const row = yield* sql.get<{ bytes: number; count: number }>`
    select cast(coalesce(sum(octet_length(body)), 0) as bigint) as bytes, count(*) as count
    from events where tenant = ${tenant} and "offset" > ${range.after} and "offset" <= ${upTo} ${inDays}`;
  return row ?? { bytes: 0, count: 0 };
}

type PositionRow = Omit<StreamPosition, 'since'> & { readonly since: Millis | null };

function* behind(tenant: number, take: number): Command<StreamPosition[]> {
  const rows = yield* sql.all<PositionRow>`
    select id, name, status, cursor, head - passed as events, ${afterCursor} as since
    from (
      select log.id as tenant, log.head, s.id, s.name, s.status, r.cursor,
        ${larger}(r.cursor, log.pruned_to) as passed
      from ${logs} as log
      join runs r on r.tenant = log.id and r.cursor < log.head
      join streams s on s.tenant = r.tenant and s.id = r.stream and s.status = 'enabled'
      where log.id = ${tenant}
      order by r.cursor, s.id limit ${take}) as t
    order by cursor, id`;
  return rows.map(({ since, ...row }) => ({ ...row, since: since ?? undefined }));
}
