import type { Millis } from '../../core/clock.ts';
import {
  CountsSum,
  keptMs,
  startOf,
  type StatsUnit,
  type StoredCounts,
  unitMs,
} from '../../core/delivery-stats.ts';
import { minuteMs } from '../../core/units.ts';
import type { CountsAt, DeliveryStatsStore, RecordedMinute } from '../port/delivery-stats.ts';
import { type Command, sql, type Statement, type On } from './command.ts';
import { forUpdate, Fragment, listedRows, oneOf, perDialect, piece, verbatim } from './dialect.ts';
import { horizonOf } from './horizon.ts';

/** Creates the store of the statistics of deliveries. */
export function createDeliveryStatsStore({ on }: On): DeliveryStatsStore {
  const { transact } = on.commands;
  return {
    record: (writer, minutes) => transact('relaxed', () => record(writer, minutes)),
    read: ({ tenant, stream = '' }, window) => on.lists.read(counts({ tenant, stream }, window)),
    latencies: (tenant, streams, since) => on.lists.read(latencies(tenant, streams, since)),
    rollUp: async () => {
      const hours = await transact('relaxed', rollUpHours);
      return hours > 0 ? hours : transact('relaxed', () => rollUp('day', 'hour'));
    },
    prune: ({ take }) => transact('relaxed', () => prune(take)),
  };
}

/** In the order of the key: two transactions that write the same rows do not wait for each other. */
function* record(writer: string, minutes: readonly RecordedMinute[]): Command<void> {
  const rows = minutes.map(({ tenant, stream = '', at, ...counted }) => [
    tenant,
    stream,
    at,
    counted.published,
    counted.delivered,
    counted.failed,
    counted.retried,
    counted.latency,
    counted.duration,
  ]);
  yield* sql.run`
    insert into delivery_stats (tenant, stream, unit, starts_at, writer, published, delivered, failed,
      retried, latency, duration)
    select c.tenant, c.stream, 'minute', c.starts_at, ${writer}, c.published, c.delivered, c.failed,
      c.retried, c.latency, c.duration
    from (
      select cast(value ->> 0 as integer) as tenant, value ->> 1 as stream,
        cast(value ->> 2 as bigint) as starts_at, cast(value ->> 3 as bigint) as published,
        cast(value ->> 4 as bigint) as delivered, cast(value ->> 5 as bigint) as failed,
        cast(value ->> 6 as bigint) as retried, value ->> 7 as latency, value ->> 8 as duration
      from ${listedRows(rows)}) as c
    where exists (select 1 from tenants t where t.id = c.tenant) and (c.stream = '' or exists (
      select 1 from streams s where s.tenant = c.tenant and s.id = c.stream))
    order by c.tenant, c.stream, c.starts_at
    on conflict (tenant, stream, unit, starts_at, writer) do update set
      published = excluded.published, delivered = excluded.delivered, failed = excluded.failed,
      retried = excluded.retried, latency = excluded.latency, duration = excluded.duration`;
}

interface About {
  readonly tenant: number;
  readonly stream: string;
}

const columns = verbatim(
  'starts_at as at, published, delivered, failed, retried, latency, duration',
);

/** One statement, so that it sees a sum or its parts, and never both. */
function* counts(
  { tenant, stream }: About,
  { unit, from, to }: Parameters<DeliveryStatsStore['read']>[1],
): Command<readonly CountsAt[]> {
  const about = { tenant, stream };
  const hours = unit === 'hour' ? from : afterSum('day', about, from);
  const minutes = unit === 'minute' ? from : afterSum('hour', about, from);
  return yield* sql.all<CountsAt>`
    select ${columns} from delivery_stats
    where tenant = ${tenant} and stream = ${stream} and unit = 'minute'
      and starts_at >= ${minutes} and starts_at < ${to}
    union all
    select ${columns} from delivery_stats
    where tenant = ${tenant} and stream = ${stream} and unit = 'hour' and ${unit !== 'minute'}
      and starts_at >= ${hours} and starts_at < ${to}
    union all
    select ${columns} from delivery_stats
    where tenant = ${tenant} and stream = ${stream} and unit = 'day' and ${unit === 'day'}
      and starts_at >= ${from} and starts_at < ${to}`;
}

/** The later of `from` and the end of what is added up to units of a stream. */
function afterSum(unit: 'hour' | 'day', { tenant, stream }: About, from: Millis): Fragment {
  const span = unitMs[unit];
  return new Fragment({
    sqlite: piece`max(${from}, ifnull((
      select starts_at + case when (last_tenant, last_stream) >= (${tenant}, ${stream})
        then ${span} else 0 end from delivery_stats_sums where unit = ${unit}), 0))`,
    postgres: piece`greatest(${from}::bigint, coalesce((
      select starts_at + case when (last_tenant, last_stream) >= (${tenant}::int, ${stream}::text)
        then ${span}::bigint else 0 end from delivery_stats_sums where unit = ${unit}), 0))`,
  });
}

/**
 * Reads hours that are added up, and the minutes after them. An hour that is added up between the two
 * statements counts twice, which hardly changes a percentile.
 */
function* latencies(
  tenant: number,
  streams: readonly string[],
  since: Millis,
): Command<{ readonly stream: string; readonly latency: string }[]> {
  const sum = yield* sql.get<Position>`
    select starts_at, last_tenant, last_stream from delivery_stats_sums where unit = 'hour'`;
  const minutes = Math.max(since, sum?.starts_at ?? 0);
  const rows = yield* sql.all<{ unit: StatsUnit; at: Millis; stream: string; latency: string }>`
    select unit, starts_at as at, stream, latency from delivery_stats
    where tenant = ${tenant} and stream ${oneOf(streams)} and unit = 'hour' and starts_at >= ${since}
      and latency <> ''
    union all
    select unit, starts_at as at, stream, latency from delivery_stats
    where tenant = ${tenant} and stream ${oneOf(streams)} and unit = 'minute'
      and starts_at >= ${minutes} and latency <> ''`;
  return rows.filter(({ unit, at, stream }) => {
    const isSummed = unit === 'minute' && sum !== undefined && at < sum.starts_at + unitMs.hour;
    return !isSummed || !isUpTo({ tenant, stream }, sum);
  });
}

/** Returns whether a stream is at a position or before it. */
function isUpTo({ tenant, stream }: About, position: Position): boolean {
  if (tenant !== position.last_tenant) return tenant < position.last_tenant;
  return stream <= position.last_stream;
}

/** Streams of one step: some milliseconds for those that send all the time. */
const streamsPerStep = 5;

/** Writers record a minute within this time after its end, or drop it. */
const graceMs = 6 * minuteMs;

interface Position {
  readonly starts_at: Millis;
  /** 0 before the first. */
  readonly last_tenant: number;
  /** Empty for the sum over the streams, which comes first. */
  readonly last_stream: string;
}

/**
 * After the clock was ahead: forgets the sums of units that are not over, which lack what was counted
 * since. Their parts are still stored, and are added up again.
 */
function* followClock(): Command<void> {
  const ahead = yield* sql.all<{ unit: 'hour' | 'day'; now: Millis }>`
    select unit, leat_now() as now from delivery_stats_sums
    where starts_at > leat_now() order by unit ${forUpdate}`;
  for (const { unit, now } of ahead) {
    const start = startOf(unit, now);
    yield* sql.run`delete from delivery_stats where unit = ${unit} and starts_at >= ${start}`;
    yield* setPosition(unit, { starts_at: start, last_tenant: 0, last_stream: '' });
  }
}

function* rollUpHours(): Command<number> {
  yield* followClock();
  return yield* rollUp('hour', 'minute');
}

/** Adds up some streams of the oldest unit that is not complete; returns 0 when there is none. */
function* rollUp(unit: 'hour' | 'day', finer: 'minute' | 'hour'): Command<number> {
  const stored = yield* sql.get<Position>`
    select starts_at, last_tenant, last_stream from delivery_stats_sums
    where unit = ${unit} ${forUpdate}`;
  const found = yield* sql.get<{ now: Millis; next: Millis | null; sums: Millis | null }>`
    select leat_now() as now, (select starts_at from delivery_stats_sums where unit = ${finer}) as sums, (
        select min(starts_at) from delivery_stats
        where unit = ${finer} and starts_at >= ${stored?.starts_at ?? 0}) as next`;
  const next = found?.next ?? undefined;
  if (found === undefined || next === undefined) return 0;
  const start = startOf(unit, next);
  const end = start + unitMs[unit];
  // Days are complete once their hours are.
  const done = finer === 'minute' ? found.now - graceMs : (found.sums ?? 0);
  if (end > done) return 0;
  const position =
    stored?.starts_at === start ? stored : { starts_at: start, last_tenant: 0, last_stream: '' };
  const { tenant, streams } = yield* nextStreams(position);
  if (tenant === undefined) {
    yield* setPosition(unit, { starts_at: end, last_tenant: 0, last_stream: '' });
    return 1;
  }
  const rows = yield* sql.all<StoredCounts & { stream: string }>`
    select stream, ${columns} from delivery_stats
    where tenant = ${tenant} and stream ${oneOf(streams)} and unit = ${finer}
      and starts_at >= ${start} and starts_at < ${end}`;
  for (const [stream, parts] of Map.groupBy(rows, (row) => row.stream)) {
    yield* writeSum({ tenant, stream, unit, start }, parts);
  }
  const last = streams.at(-1) ?? '';
  yield* setPosition(unit, { starts_at: start, last_tenant: tenant, last_stream: last });
  return streams.length;
}

/** Returns the streams after a position, of one tenant; no tenant at the end. */
function* nextStreams({
  last_tenant: tenant,
  last_stream: stream,
}: Position): Command<{ readonly tenant: number | undefined; readonly streams: string[] }> {
  const rows = yield* sql.all<{ id: string }>`
    select id from streams where tenant = ${tenant} and id > ${stream}
    order by id limit ${streamsPerStep}`;
  if (rows.length > 0) return { tenant, streams: rows.map(({ id }) => id) };
  const row = yield* sql.get<{ id: number | null }>`
    select min(id) as id from tenants where id > ${tenant}`;
  return { tenant: row?.id ?? undefined, streams: [''] };
}

function writeSum(
  { tenant, stream, unit, start }: About & { readonly unit: StatsUnit; readonly start: Millis },
  parts: readonly StoredCounts[],
): Statement<number> {
  const sum = new CountsSum();
  for (const part of parts) sum.add(part);
  const { published, delivered, failed, retried, latency, duration } = sum.stored();
  return sql.run`
    insert into delivery_stats (tenant, stream, unit, starts_at, writer, published, delivered, failed,
      retried, latency, duration)
    values (${tenant}, ${stream}, ${unit}, ${start}, '', ${published}, ${delivered}, ${failed},
      ${retried}, ${latency}, ${duration})
    on conflict (tenant, stream, unit, starts_at, writer) do update set
      published = excluded.published, delivered = excluded.delivered, failed = excluded.failed,
      retried = excluded.retried, latency = excluded.latency, duration = excluded.duration`;
}

function setPosition(
  unit: StatsUnit,
  { starts_at: startsAt, last_tenant: tenant, last_stream: stream }: Position,
): Statement<number> {
  return sql.run`
    insert into delivery_stats_sums (unit, starts_at, last_tenant, last_stream)
    values (${unit}, ${startsAt}, ${tenant}, ${stream})
    on conflict (unit) do update set starts_at = excluded.starts_at,
      last_tenant = excluded.last_tenant, last_stream = excluded.last_stream`;
}

/** The smaller of two numbers. */
const smaller = perDialect({ sqlite: 'min', postgres: 'least' });

function* prune(take: number): Command<number> {
  const now = yield* horizonOf(0);
  for (const [unit, sum] of [
    ['minute', 'hour'],
    ['hour', 'day'],
    ['day', 'none'],
  ] as const) {
    // Nothing is removed before its sum is stored, but days have none.
    const unsummed = unit === 'day' ? now : 0;
    const removed = yield* sql.run`
      delete from delivery_stats where (tenant, stream, unit, starts_at, writer) in (
        select tenant, stream, unit, starts_at, writer from delivery_stats
        where unit = ${unit} and starts_at < ${smaller}(cast(${now - keptMs[unit]} as bigint), coalesce((
          select starts_at from delivery_stats_sums where unit = ${sum}), cast(${unsummed} as bigint)))
        order by starts_at limit ${take})`;
    if (removed > 0) return removed;
  }
  return 0;
}
