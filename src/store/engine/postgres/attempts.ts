import type { Millis } from '../../../core/clock.ts';
import type { Attempt, Offset } from '../../../core/types.ts';
import { dayMs, dayOf } from '../../../core/units.ts';
import {
  attemptOf,
  type AttemptRow,
  eventKeyOf,
  type HistoryEvent,
  outcomeCodes,
  shownMax,
} from '../../rows/attempts.ts';
import { attemptBytes, historyBytes } from '../../rows/failures.ts';
import type { Run } from '../../rows/runs.ts';
import { numbers, type Queries } from './database.ts';
import { type DayGroup, type Days, groupByDays, readByDays } from './day-ranges.ts';

/** A new entry for the history of a stream's delivery. */
export interface Entry {
  readonly run: Pick<Run, 'tenant' | 'key'>;
  readonly event: HistoryEvent;
  readonly attempt: Attempt;
}

/**
 * Adds entries in order. Histories are written apart from SQLite, where they are one table: a
 * statement here has to name the days that it reads.
 */
export async function addAttempts(tx: Queries, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 0) return;
  const rows = entries.map(
    ({ run, event, attempt: { at, durationMs, outcome, status, error } }) => [
      Math.floor(at / dayMs),
      run.tenant,
      run.key,
      eventKeyOf(event),
      at,
      durationMs,
      outcomeCodes[outcome],
      status,
      error,
    ],
  );
  await tx.copy`attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome, status, error)`(
    rows,
  );
}

/**
 * Moves entries of events of the log from before the start of a day to day 0, which is never removed. Those
 * that are there already move as well: so a release of them waits, or is over.
 */
export async function keepAttempts(
  tx: Queries,
  { tenant, key }: Pick<Run, 'tenant' | 'key'>,
  offsets: readonly Offset[],
  before: Millis,
): Promise<void> {
  await tx.run`
    with moved as (
      delete from attempts
      where day < ${dayOf(before)} and tenant = ${tenant} and stream_key = ${key}
        and event_key = any((select ${numbers(offsets)}::bigint[])::bigint[])
      returning *
    )
    insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome, status,
      error, number)
    select 0, tenant, stream_key, event_key, at, duration_ms, outcome, status, error, number
    from moved`;
}

/** A delivery whose history is read. */
export interface AskedHistory {
  /** The key of its stream in the history. */
  readonly key: number;
  readonly event: HistoryEvent;
  /** Days that are searched; kept entries are always found. */
  readonly days: Days;
}

/**
 * Returns the newest entries of deliveries of one tenant, oldest first: those of the first deliveries whose
 * entries are not larger than `bytesMax`, of one at least.
 */
export async function historiesOf<HistoryQuery extends AskedHistory>(
  db: Queries,
  tenant: number,
  queries: readonly HistoryQuery[],
  bytesMax: number,
): Promise<ReadonlyMap<HistoryQuery, readonly Attempt[]>> {
  return readByDays<HistoryQuery, readonly Attempt[]>(queries, {
    daysOf: ({ days }) => days,
    read: (group) => historiesOfGroup(db, tenant, group, bytesMax),
    bytesOf: historyBytes,
    bytesMax,
  });
}

async function historiesOfGroup<HistoryQuery extends AskedHistory>(
  db: Queries,
  tenant: number,
  group: DayGroup<HistoryQuery>,
  bytesMax: number,
): Promise<ReadonlyMap<HistoryQuery, readonly Attempt[]>> {
  const histories = new Map<HistoryQuery, Attempt[]>();
  for (const { n, ...entry } of await entriesOf(db, tenant, group, bytesMax)) {
    const one = group.rows[n - 1];
    if (one === undefined) continue;
    const history = histories.get(one) ?? [];
    if (isEntry(entry)) history.push(attemptOf(entry));
    histories.set(one, history);
  }
  return histories;
}

/** An empty history has one row without an entry: a delivery without a row was left out. */
type NoEntry = { readonly [Column in keyof AttemptRow]: null };

function isEntry(row: AttemptRow | NoEntry): row is AttemptRow {
  return row.at !== null;
}

/** Returns the last failed attempt of each of these deliveries of one tenant that has one. */
export async function lastFailures<HistoryQuery extends AskedHistory>(
  db: Queries,
  tenant: number,
  queries: readonly HistoryQuery[],
): Promise<ReadonlyMap<HistoryQuery, Pick<Attempt, 'status' | 'error'>>> {
  const found = new Map<HistoryQuery, Pick<Attempt, 'status' | 'error'>>();
  for (const group of groupByDays(queries, ({ days }) => days)) {
    const { first, last } = group.days;
    const rows = await db.all<Pick<AttemptRow, 'status' | 'error'> & { readonly n: number }>`
      select u.n, a.status, a.error
      from unnest(${numbers(group.rows.map(({ key }) => key))}::bigint[],
        ${numbers(group.rows.map(({ event }) => eventKeyOf(event)))}::bigint[])
        with ordinality as u(stream_key, event_key, n)
      cross join lateral (
        select status, error from attempts
        where tenant = ${tenant} and stream_key = u.stream_key and event_key = u.event_key
          and (day = 0 or (day >= ${first} and day <= ${last}))
          and outcome = ${outcomeCodes.failed}
        order by number desc limit 1
      ) as a`;
    for (const { n, status, error } of rows) {
      const one = group.rows[n - 1];
      if (one === undefined) continue;
      found.set(one, { status: status ?? undefined, error: error ?? undefined });
    }
  }
  return found;
}

async function entriesOf(
  db: Queries,
  tenant: number,
  { rows, days: { first, last } }: DayGroup<AskedHistory>,
  bytesMax: number,
): Promise<((AttemptRow | NoEntry) & { readonly n: number })[]> {
  return db.all`
    select n, at, duration_ms, outcome, status, error from (
      select u.n, a.*,
        sum(${attemptBytes} + coalesce(octet_length(a.error), 0)) over (order by u.n) as bytes
      from unnest(${numbers(rows.map(({ key }) => key))}::bigint[],
        ${numbers(rows.map(({ event }) => eventKeyOf(event)))}::bigint[])
        with ordinality as u(stream_key, event_key, n)
      left join lateral (
        select number, at, duration_ms, outcome, status, error from attempts
        where tenant = ${tenant} and stream_key = u.stream_key and event_key = u.event_key
          and (day = 0 or (day >= ${first} and day <= ${last}))
        order by number desc limit ${shownMax}
      ) as a on true
    ) as sized
    where n = 1 or bytes <= ${bytesMax}::bigint
    order by n, number`;
}
