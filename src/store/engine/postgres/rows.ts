import { streamKeyOf } from '../../../core/stream-key.ts';
import type { Millis } from '../../../core/clock.ts';
import type { DeliveryKind, DeliveryState, Offset, StreamRef } from '../../../core/types.ts';
import { dayMs } from '../../../core/units.ts';
import type { Settlement } from '../../port/settlement.ts';
import { sql } from '../../commands/command.ts';
import { storedCode } from '../../rows/failures.ts';
import { endWithStream } from '../../rules/pause.ts';
import type { DeliveryRow } from '../../rules/settlement.ts';
import { run } from './commands.ts';
import { numbers, type Queries } from './database.ts';
import type { Days } from './day-ranges.ts';

/** A row of `deliveries` while a batch is recorded; `after` changes with each outcome. */
export interface Row extends StreamRef {
  readonly eventId: string;
  /** Whether the table has no row of the event yet. */
  readonly isNew: boolean;
  readonly offset: Offset | undefined;
  readonly type: string;
  readonly time: Millis;
  /** Only of a new row, as are the next three. */
  readonly body: string | undefined;
  readonly publishedAt: Millis | undefined;
  readonly trace: string | undefined;
  readonly orderKey: string | undefined;
  /** The days with entries of its history. */
  readonly attemptDays: Days;
  readonly after: DeliveryRow | 'removed';
}

interface RowColumns extends StreamRef {
  readonly event_id: string;
  readonly offset: Offset | null;
  readonly type: string;
  readonly time: Millis;
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly due_at: Millis | null;
  readonly failed_at: Millis | null;
  readonly cycle_at: Millis | null;
  readonly error_code: string;
  readonly attempts_from: number;
  readonly attempts_to: number;
}

function rowOf(columns: RowColumns): Row {
  const { tenant, stream, event_id: eventId, offset, type, time, kind, state, attempt } = columns;
  const dueAt = columns.due_at ?? undefined;
  const failedAt = columns.failed_at ?? undefined;
  const cycleAt = columns.cycle_at ?? undefined;
  const errorCode = storedCode(columns.error_code);
  const after = { kind, state, attempt, dueAt, failedAt, cycleAt, errorCode };
  return {
    tenant,
    stream,
    eventId,
    isNew: false,
    offset: offset ?? undefined,
    type,
    time,
    body: undefined,
    publishedAt: undefined,
    trace: undefined,
    orderKey: undefined,
    attemptDays: { first: columns.attempts_from, last: columns.attempts_to },
    after,
  };
}

/** Rows by event id, for each stream by {@link streamKeyOf}. */
export type RowsByStream = ReadonlyMap<string, ReadonlyMap<string, Row>>;

/** Reads the rows of the outcomes; a first attempt that was delivered has none. */
export async function readRows(
  tx: Queries,
  settlements: readonly Settlement[],
): Promise<RowsByStream> {
  const requested = settlements.flatMap(({ tenant, stream, outcomes }) =>
    outcomes
      .filter((outcome) => outcome.hasRow || outcome.result !== 'delivered')
      .map(({ event }) => ({ tenant, stream, eventId: event.id })),
  );
  if (requested.length === 0) return new Map();
  const rows = await tx.all<RowColumns>`
    select d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.kind, d.state, d.attempt,
      d.due_at, d.failed_at, d.cycle_at, d.error_code, d.attempts_from, d.attempts_to
    from deliveries d
    where (d.tenant, d.stream, d.event_id) in (select * from unnest(
      ${numbers(requested.map(({ tenant }) => tenant))}::int[],
      ${requested.map(({ stream }) => stream)}::text[], ${requested.map(({ eventId }) => eventId)}::text[]))`;
  return byStream(rows.map(rowOf));
}

function byStream(rows: readonly Row[]): RowsByStream {
  const found = new Map<string, Map<string, Row>>();
  for (const row of rows) {
    const key = streamKeyOf(row);
    const ofStream = found.get(key) ?? new Map<string, Row>();
    found.set(key, ofStream.set(row.eventId, row));
  }
  return found;
}

/** Reads the first and test deliveries of a stream that wait for an attempt, the oldest first. */
export async function readWaiting(tx: Queries, { tenant, stream }: StreamRef): Promise<Row[]> {
  const waiting = sql.all<RowColumns>`
    select tenant, stream, event_id, "offset", type, time, kind, state, attempt, due_at, failed_at,
      cycle_at, error_code, attempts_from, attempts_to
    from deliveries
    where tenant = ${tenant} and stream = ${stream} and due_at is not null
      and state = 'retrying' and ${endWithStream}
    order by due_at, event_id`;
  return (await run(tx, waiting[Symbol.iterator]())).map(rowOf);
}

export async function removeRows(tx: Queries, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.run`
    delete from deliveries
    where (tenant, stream, event_id) in (select * from unnest(
      ${numbers(rows.map(({ tenant }) => tenant))}::int[],
      ${rows.map(({ stream }) => stream)}::text[], ${rows.map(({ eventId }) => eventId)}::text[]))`;
}

/**
 * Writes rows, those of the table apart from new ones: with a clause for a conflict each insertion would
 * take two steps. The runs are locked since before the rows were read, so none was added since.
 */
export async function writeRows(tx: Queries, rows: readonly Row[]): Promise<void> {
  await Promise.all([
    addRows(
      tx,
      rows.filter(({ isNew }) => isNew),
    ),
    changeRows(
      tx,
      rows.filter(({ isNew }) => !isNew),
    ),
  ]);
}

/**
 * Stores the body only where the log does not have the event: a test, or an event that was pruned
 * while the last attempts of a disabled stream were under way. Upkeep relies on that: once the
 * transactions from before an event was pruned have ended, no new row needs its body.
 */
async function addRows(tx: Queries, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const after = rows.map(rowIn);
  await tx.run`
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      due_at, failed_at, cycle_at, error_code, order_key, event_day, attempts_from, attempts_to, body, trace)
    select u.tenant, u.stream, u.event_id, u."offset", u.type, u.time, u.kind, u.state, u.attempt,
      u.due_at, u.failed_at, u.cycle_at, u.error_code, u.order_key, u.published_at / ${dayMs}, u.attempts_from, u.attempts_to,
      case when u.unlogged then u.body end, case when u.unlogged then u.trace end
    from (select entry.*, coalesce(entry."offset" <= t.pruned_to, true) as unlogged from unnest(${numbers(rows.map(({ tenant }) => tenant))}::int[],
      ${rows.map(({ stream }) => stream)}::text[], ${rows.map(({ eventId }) => eventId)}::text[],
      ${numbers(rows.map(({ offset }) => offset))}::bigint[],
      ${rows.map(({ type }) => type)}::text[], ${numbers(rows.map(({ time }) => time))}::bigint[],
      ${after.map((row) => row?.kind)}::text[], ${after.map((row) => row?.state)}::text[],
      ${numbers(after.map((row) => row?.attempt))}::int[],
      ${numbers(after.map((row) => row?.dueAt))}::bigint[],
      ${numbers(after.map((row) => row?.failedAt))}::bigint[],
      ${numbers(after.map((row) => row?.cycleAt))}::bigint[],
      ${after.map((row) => row?.errorCode ?? '')}::text[],
      ${rows.map(({ orderKey }) => orderKey)}::text[],
      ${numbers(rows.map(({ publishedAt }) => publishedAt))}::bigint[],
      ${numbers(rows.map(({ attemptDays }) => attemptDays.first))}::int[],
      ${numbers(rows.map(({ attemptDays }) => attemptDays.last))}::int[],
      ${rows.map(({ body }) => body)}::text[], ${rows.map(({ trace }) => trace)}::text[])
      as entry(tenant, stream, event_id, "offset", type, time, kind, state, attempt, due_at,
        failed_at, cycle_at, error_code, order_key, published_at, attempts_from, attempts_to, body, trace)
      join tenants t on t.id = entry.tenant) as u`;
}

/** As an insertion with a conflict, which finds each row by its key; a join might scan the table. */
export async function changeRows(tx: Queries, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const after = rows.map(rowIn);
  await tx.run`
    insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at,
      failed_at, cycle_at, error_code, attempts_from, attempts_to)
    select * from unnest(${numbers(rows.map(({ tenant }) => tenant))}::int[],
      ${rows.map(({ stream }) => stream)}::text[], ${rows.map(({ eventId }) => eventId)}::text[],
      ${rows.map(({ type }) => type)}::text[], ${numbers(rows.map(({ time }) => time))}::bigint[],
      ${after.map((row) => row?.kind)}::text[], ${after.map((row) => row?.state)}::text[],
      ${numbers(after.map((row) => row?.attempt))}::int[],
      ${numbers(after.map((row) => row?.dueAt))}::bigint[],
      ${numbers(after.map((row) => row?.failedAt))}::bigint[],
      ${numbers(after.map((row) => row?.cycleAt))}::bigint[],
      ${after.map((row) => row?.errorCode ?? '')}::text[],
      ${numbers(rows.map(({ attemptDays }) => attemptDays.first))}::int[],
      ${numbers(rows.map(({ attemptDays }) => attemptDays.last))}::int[])
    on conflict (tenant, stream, event_id) do update set state = excluded.state,
      attempt = excluded.attempt, due_at = excluded.due_at, failed_at = excluded.failed_at,
      cycle_at = excluded.cycle_at, error_code = excluded.error_code,
      attempts_from = excluded.attempts_from, attempts_to = excluded.attempts_to`;
}

/** Returns what is to be in the table. */
export function rowIn({ after }: Row): DeliveryRow | undefined {
  return after === 'removed' ? undefined : after;
}
