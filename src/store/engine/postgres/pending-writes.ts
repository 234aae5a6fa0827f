import type { Millis } from '../../../core/clock.ts';
import { healthAfterDisabling } from '../../../core/health.ts';
import type { HealthLimits } from '../../../core/types.ts';
import { dayOf } from '../../../core/units.ts';
import type { Outcome, Settlement } from '../../port/settlement.ts';
import {
  applyOutcome,
  type BatchState,
  countEnd,
  isEnabled,
  newBatchState,
  noteAttempt,
} from '../../rules/settlement.ts';
import { endsWithStream } from '../../rules/pause.ts';
import { pausedFor } from '../../rules/pause.ts';
import { disabledAt } from '../../commands/disabling.ts';
import type { Entry } from './attempts.ts';
import type { Queries } from './database.ts';
import { type Days, everyDay, widened } from './day-ranges.ts';
import { readWaiting, type Row, rowIn } from './rows.ts';
import type { Run } from './runs.ts';

/** What the outcomes of one stream write; held in memory until all streams are done. */
export interface PendingWrites extends BatchState<Run> {
  /** New entries of the history, in order. */
  readonly entries: Entry[];
  /** Rows that are written or removed, by event id. */
  readonly changed: Map<string, Row>;
  /**
   * Rows that became failures before they were removed: they are written first, since the triggers that
   * count the ends of redeliveries would not see the first end otherwise.
   */
  readonly failedFirst: Map<string, Row>;
}

/** Applies the outcomes of one stream; `rows` are those that its events had before. */
export async function recordOutcomes(
  tx: Queries,
  run: Run,
  settlement: Settlement,
  rows: ReadonlyMap<string, Row> | undefined,
  { limits, now }: { readonly limits: HealthLimits; readonly now: Millis },
): Promise<PendingWrites> {
  const writes: PendingWrites = {
    ...newBatchState(run),
    entries: [],
    changed: new Map(),
    failedFirst: new Map(),
  };
  const { changed, entries, failedFirst } = writes;
  const pausedMs = pausedFor(run, now);
  for (const outcome of settlement.outcomes) {
    const known = changed.get(outcome.event.id) ?? rows?.get(outcome.event.id);
    const before = known?.after === 'removed' ? undefined : known;
    const present = before && rowIn(before);
    const transition = applyOutcome(outcome, present, !isEnabled(writes), now, pausedMs);
    noteAttempt(writes, outcome, transition, now);
    const { history, row } = transition;
    if (history !== undefined) entries.push({ run, event: outcome.event, attempt: history });
    // A late entry of a delivery that has ended widens the days of its history as well.
    const after = row === 'unchanged' ? before?.after : row;
    if (after !== undefined) {
      const isFailed = present?.state === 'failed' && before?.isNew === false;
      if (after === 'removed' && isFailed && changed.has(before.eventId))
        failedFirst.set(before.eventId, before);
      const isNew = known?.isNew ?? true;
      const changedRow = { ...(before ?? newRow(run, outcome)), isNew, after };
      changed.set(outcome.event.id, withEntry(changedRow, history?.at));
    }
    if (countEnd(writes, outcome, transition, limits)) await failWaitingOf(tx, writes, now);
  }
  return writes;
}

function newRow(
  { tenant, stream }: Run,
  { event, orderKey }: Outcome,
): Omit<Row, 'after' | 'isNew'> {
  const { id: eventId, offset, type, time, body, publishedAt, trace } = event;
  const attemptDays = firstDays(publishedAt);
  return {
    tenant,
    stream,
    eventId,
    offset,
    type,
    time,
    body,
    publishedAt,
    trace,
    orderKey,
    attemptDays,
  };
}

/**
 * Returns the days that the history of a new row can have entries of. It can have one from before
 * when the event is sent again because its sender ended before the cursor was written; not from
 * before it was published, unless the clock was set in between.
 */
function firstDays(publishedAt: Millis | undefined): Days {
  if (publishedAt === undefined) return everyDay;
  return { first: dayOf(publishedAt), last: dayOf(publishedAt) };
}

/** Returns the row with one more entry in its history. */
function withEntry(row: Row, at: Millis | undefined): Row {
  return at === undefined ? row : { ...row, attemptDays: widened(row.attemptDays, dayOf(at)) };
}

/**
 * Fails the deliveries that wait for a retry, from before this batch and of it: the stream was
 * disabled.
 */
async function failWaitingOf(tx: Queries, writes: PendingWrites, now: Millis): Promise<void> {
  const { run, changed, entries } = writes;
  const stored = await readWaiting(tx, run);
  const rows = new Map(stored.map((row) => [row.eventId, row]));
  for (const [eventId, row] of changed) rows.set(eventId, row);
  const waiting = [...rows.values()].filter(waits).toSorted(byDueAt);
  for (const row of waiting) {
    const before = rowIn(row);
    if (before === undefined) continue;
    const event = { id: row.eventId, offset: row.offset };
    entries.push({ run, event, attempt: disabledAt(now) });
    const failedAt = before.failedAt ?? now;
    const ended = { state: 'failed', dueAt: undefined, errorCode: 'stream_disabled' } as const;
    const after = { ...before, ...ended, failedAt };
    changed.set(row.eventId, withEntry({ ...row, after }, now));
  }
  writes.failed += waiting.length;
  writes.health = healthAfterDisabling(writes.health, waiting.length);
}

function waits(row: Row): boolean {
  const waiting = rowIn(row);
  return waiting?.state === 'retrying' && endsWithStream(waiting.kind);
}

function byDueAt(one: Row, other: Row): number {
  return dueAtOf(one) - dueAtOf(other) || (one.eventId < other.eventId ? -1 : 1);
}

const dueAtOf = (row: Row): Millis => rowIn(row)?.dueAt ?? 0;
