import type { Millis } from '../../core/clock.ts';
import type { HealthLimits } from '../../core/types.ts';
import type { Outcome, Settlement } from '../port/settlement.ts';
import {
  countEnd,
  endsWithStream,
  healthAfterDisabling,
  applyOutcome,
  newCounters,
  type RowBefore,
  type Counters,
} from '../rules/settlement.ts';
import type { Entry } from './attempts.ts';
import type { Queries } from './database.ts';
import { type Days, everyDay, widened } from './day-ranges.ts';
import { dayOf } from './partitions.ts';
import { disabledEntry } from './disabling.ts';
import { readWaiting, type Row } from './rows.ts';
import type { Run } from './runs.ts';

/** One stream after its outcomes, in memory until all of them are recorded. */
export interface BatchState {
  readonly run: Run;
  readonly counters: Counters;
  /** What the history gets, in order. */
  readonly entries: Entry[];
  /** Rows that are to be written or removed, by event id. */
  readonly changed: Map<string, Row>;
}

/** What holds for every stream of a batch. */
export interface BatchRules {
  readonly limits: HealthLimits;
  readonly now: Millis;
}

/** Goes through the outcomes of one stream; `rows` are those that they had before. */
export async function recordOutcomes(
  tx: Queries,
  run: Run,
  settlement: Settlement,
  rows: ReadonlyMap<string, Row> | undefined,
  { limits, now }: BatchRules,
): Promise<BatchState> {
  const batchState: BatchState = {
    run,
    counters: newCounters(run.health),
    entries: [],
    changed: new Map(),
  };
  for (const outcome of settlement.outcomes) {
    const { counters, changed, entries } = batchState;
    const enabled = run.status === 'enabled' && counters.disabledBy === undefined;
    const known = changed.get(outcome.event.id) ?? rows?.get(outcome.event.id);
    const before = known?.after === 'gone' ? undefined : known;
    const verdict = applyOutcome(outcome, before && rowBefore(before), !enabled, now);
    const { history, row, ended, replayed } = verdict;
    if (replayed !== undefined) counters.replayed[replayed] += 1;
    if (history !== undefined) entries.push({ run, event: outcome.event, attempt: history });
    // What comes late to a row that is over widens the days of its history all the same.
    const after = row === 'as it was' ? before?.after : row;
    if (after !== undefined) {
      const changedRow = { ...(before ?? newRow(run, outcome)), after };
      changed.set(outcome.event.id, withEntry(changedRow, history?.at));
    }
    if (ended !== undefined && countEnd(counters, ended, limits, enabled)) {
      await failWaitingOf(tx, batchState, now);
    }
  }
  return batchState;
}

function rowBefore({ kind, after }: Row): RowBefore | undefined {
  return after === 'gone' ? undefined : { ...after, kind };
}

function newRow({ tenant, stream }: Run, { event, kind }: Outcome): Omit<Row, 'after'> {
  const { id: eventId, offset, type, time, body, publishedAt, trace } = event;
  const attemptDays = firstDays(publishedAt);
  return {
    tenant,
    stream,
    eventId,
    offset,
    type,
    time,
    kind,
    body,
    publishedAt,
    trace,
    attemptDays,
  };
}

/**
 * Of a new row. An event that is sent twice, as its sender ended before its cursor was written, may
 * have an entry from before: not from before it was published, unless the clock was set in between.
 */
function firstDays(publishedAt: Millis | undefined): Days {
  if (publishedAt === undefined) return everyDay;
  return { first: dayOf(publishedAt), last: dayOf(publishedAt) };
}

/** The row once its history has one more entry. */
function withEntry(row: Row, at: Millis | undefined): Row {
  return at === undefined ? row : { ...row, attemptDays: widened(row.attemptDays, dayOf(at)) };
}

/** The stream was disabled: what waits for a retry, before this batch or by it, is over. */
async function failWaitingOf(tx: Queries, batchState: BatchState, now: Millis): Promise<void> {
  const { run, counters, changed, entries } = batchState;
  const stored = await readWaiting(tx, run);
  const rows = new Map(stored.map((row) => [row.eventId, row]));
  for (const [eventId, row] of changed) rows.set(eventId, row);
  const waiting = [...rows.values()].filter(waits).toSorted(byDueAt);
  for (const row of waiting) {
    entries.push(disabledEntry(run, { id: row.eventId, offset: row.offset }, now));
    const failedAt = rowBefore(row)?.failedAt ?? now;
    const after = { state: 'failed', attempt: attemptOf(row), dueAt: undefined, failedAt } as const;
    changed.set(row.eventId, withEntry({ ...row, after }, now));
  }
  counters.failed += waiting.length;
  counters.health = healthAfterDisabling(counters.health, waiting.length);
}

function waits({ after, kind }: Row): boolean {
  return after !== 'gone' && after.state === 'retrying' && endsWithStream(kind);
}

const attemptOf = ({ after }: Row): number => (after === 'gone' ? 0 : after.attempt);
const dueAtOf = ({ after }: Row): Millis => (after === 'gone' ? 0 : (after.dueAt ?? 0));

function byDueAt(one: Row, other: Row): number {
  return dueAtOf(one) - dueAtOf(other) || (one.eventId < other.eventId ? -1 : 1);
}
