import type { Millis } from '../../core/clock.ts';
import { errorCodeOf } from '../../core/attempt-error.ts';
import type { ErrorCode } from '../../core/error-code.ts';
import { nextHealth, reachedLimit } from '../../core/health.ts';
import type {
  Attempt,
  DeliveryKind,
  DeliveryState,
  Health,
  HealthLimits,
  Offset,
} from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type {
  DisabledBy,
  EndedOutcome,
  Outcome,
  SettledStream,
  Settlement,
} from '../port/settlement.ts';
import type { Run } from '../rows/runs.ts';
import { endsWithStream } from './pause.ts';

/** A row of `deliveries`, as far as outcomes depend on it or change it. */
export interface DeliveryRow {
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly dueAt: Millis | undefined;
  /** Set when it is an open failure record, also while that is redelivered. */
  readonly failedAt: Millis | undefined;
  /**
   * When its cycle began, less the pauses of the stream before; `undefined` in rows of programs that did
   * not record it.
   */
  readonly cycleAt: Millis | undefined;
  /** Of the last failed attempt, if it is known. */
  readonly errorCode?: ErrorCode | undefined;
}

/** What an outcome changes: the history, the row, and the counters of the stream. */
export interface Transition {
  /** The new entry of the history. */
  readonly history: Attempt | undefined;
  readonly row: 'unchanged' | 'removed' | DeliveryRow;
  /** How the delivery ended; `undefined` while it goes on. */
  readonly ended: 'delivered' | 'failed' | undefined;
  /** The delivery was an open failure record: a redelivery, or a late result. */
  readonly wasOpen: boolean;
  /** Its end counts in the progress of the stream's replay. */
  readonly isReplayed: boolean;
  /** It is ordered, and ended although the outcome is a retry. */
  readonly isCutShort?: boolean;
}

/**
 * Returns what every engine records for an outcome. `row` is the present one; it is not needed for
 * a success without a row. `isDisabled` is about the stream; `pausedMs` is how long it has been paused in
 * total, which its cycles do not count.
 */
export function applyOutcome(
  outcome: Outcome,
  row: Omit<DeliveryRow, 'dueAt'> | undefined,
  isDisabled: boolean,
  now: Millis,
  pausedMs = 0,
): Transition {
  const wasOpen = row?.failedAt !== undefined;
  // Each row of a replay counts once; one that is a failure has been counted.
  const isReplayed = row?.kind === 'replay' && row.state !== 'failed';
  if (outcome.result === 'delivered') {
    const { hasRow } = outcome;
    return {
      history: entryOf(outcome, now),
      row: hasRow ? 'removed' : 'unchanged',
      ended: 'delivered',
      wasOpen: hasRow && wasOpen,
      isReplayed,
    };
  }
  if (outcome.result === 'blocked') {
    const added = row === undefined ? blockedRow : 'unchanged';
    return { history: undefined, row: added, ended: undefined, wasOpen, isReplayed };
  }
  const history = outcome.result === 'parked' ? undefined : entryOf(outcome, now);
  // The lease of a row may end before its attempt does. The event is sent twice then; when the
  // other attempt has ended the delivery, this one is history only, and the failure has its code.
  const isOver = row === undefined ? outcome.hasRow : row.state === 'failed';
  if (isOver) {
    const late = row && history && { ...row, dueAt: undefined, errorCode: errorCodeOf(history) };
    return { history, row: late ?? 'unchanged', ended: undefined, wasOpen, isReplayed };
  }
  const { attempt } = outcome;
  const cycleAt = row?.cycleAt ?? now - pausedMs;
  const becomes = (state: DeliveryState, next: number, dueAt?: Millis): DeliveryRow => {
    // A late result of a redelivery may find the row of a replay that began since.
    const kind = row?.kind ?? outcome.kind;
    const isOpen = state === 'failed' || kind === 'redelivery';
    const failedAt = row?.failedAt ?? (isOpen ? now : undefined);
    const errorCode = history === undefined ? row?.errorCode : errorCodeOf(history);
    return { kind, state, attempt: next, dueAt, failedAt, cycleAt, errorCode };
  };
  if (outcome.result === 'parked') {
    // Of a disabled stream what has ended is a failure once that has no owner any more, as what is parked.
    const waits = outcome.hasEnded === true && !(isDisabled && endsWithStream(outcome.kind));
    const state = waits ? 'retrying' : 'parked';
    const parked = becomes(state, attempt, Math.ceil(now + outcome.leaseMs));
    return { history, row: parked, ended: undefined, wasOpen, isReplayed };
  }
  const { cycleMaxMs = Infinity } = outcome;
  const cycleEnd = cycleAt + pausedMs + cycleMaxMs;
  // A disabled stream is sent redeliveries only: other retries end as failures, or pause.
  const isEnding = now >= cycleEnd || (isDisabled && endsWithStream(outcome.kind));
  if (outcome.result === 'failed' || isEnding) {
    const isCutShort = outcome.result === 'retry' && outcome.orderKey !== undefined;
    const failed = becomes('failed', attempt);
    return { history, row: failed, ended: 'failed', wasOpen, isReplayed, isCutShort };
  }
  const dueAt = Math.min(now + outcome.delayMs, cycleEnd);
  const retrying = becomes('retrying', attempt + 1, Math.ceil(dueAt));
  return { history, row: retrying, ended: undefined, wasOpen, isReplayed };
}

/** The row of an event that waits behind its key. */
const blockedRow: DeliveryRow = {
  kind: 'first',
  state: 'blocked',
  attempt: 1,
  dueAt: undefined,
  failedAt: undefined,
  cycleAt: undefined,
};

/** Returns the entry of an attempt that has ended; its start is by the clock of the store. */
function entryOf(outcome: EndedOutcome, now: Millis): Attempt {
  const { agoMs, durationMs, status } = outcome;
  const at = Math.floor(now - agoMs);
  return outcome.result === 'delivered'
    ? { outcome: 'delivered', at, durationMs, status, error: undefined }
    : { outcome: 'failed', at, durationMs, status, error: outcome.error };
}

/** One stream while the outcomes of its settlement are recorded; in memory until they all are. */
export interface BatchState<R extends Run = Run> {
  /** Before the batch. */
  readonly run: R;
  health: Health;
  /** The last failed attempt. */
  lastFailed: Run['failed'];
  /** Of the last success of the batch. */
  deliveredAt: Millis | undefined;
  /** When the oldest attempt began that failed after the last success of the batch; not before that success. */
  failingFrom: Millis | undefined;
  /** Events of the last failed attempts of open failures, by their codes. */
  readonly lastEvents: Map<ErrorCode, string>;
  /** Deliveries that ended. */
  delivered: number;
  failed: number;
  /** Those of them that count in the progress of its replay. */
  readonly replayed: { sent: number; failed: number };
  /** Why these outcomes disabled the stream. */
  disabledBy: DisabledBy | undefined;
  /** See {@link SettledStream.keysChanged}. */
  keysChanged: boolean;
}

export function newBatchState<R extends Run>(run: R): BatchState<R> {
  const replayed = { sent: 0, failed: 0 };
  return {
    run,
    health: run.health,
    lastFailed: undefined,
    deliveredAt: undefined,
    failingFrom: undefined,
    lastEvents: new Map(),
    delivered: 0,
    failed: 0,
    replayed,
    disabledBy: undefined,
    keysChanged: false,
  };
}

/** Returns whether the stream is enabled after the outcomes so far. */
export function isEnabled({ run, disabledBy }: BatchState): boolean {
  return run.status === 'enabled' && disabledBy === undefined;
}

/** Notes how the attempt of an outcome ended. */
export function noteAttempt(
  state: BatchState,
  { event }: Outcome,
  { history, row }: Transition,
  now: Millis,
): void {
  if (history?.outcome === 'delivered') {
    state.failingFrom = undefined;
    state.deliveredAt = now;
  }
  if (history?.outcome !== 'failed') return;
  const code = errorCodeOf(history);
  state.lastFailed = { at: now, code };
  const began = Math.max(history.at, state.deliveredAt ?? 0);
  state.failingFrom = Math.min(state.failingFrom ?? began, began);
  if (typeof row === 'object' && row.failedAt !== undefined) state.lastEvents.set(code, event.id);
}

/** Counts the end of a delivery, if it is one; returns true when its outcome disables the stream. */
export function countEnd(
  state: BatchState,
  outcome: Outcome,
  { ended, wasOpen, isReplayed, isCutShort }: Transition,
  limits: HealthLimits,
): boolean {
  if (isCutShort === true) state.keysChanged = true;
  if (ended !== undefined) {
    state[ended] += 1;
    if (isReplayed) state.replayed[ended === 'delivered' ? 'sent' : 'failed'] += 1;
    state.health = nextHealth(state.health, ended, wasOpen);
  }
  if (!isEnabled(state)) return false;
  if (isGone(state.run, outcome)) state.disabledBy = 'gone';
  else if (ended !== undefined) state.disabledBy = reachedLimit(state.health, limits);
  return state.disabledBy !== undefined;
}

/** Returns whether the receiver of the stream as it is now is gone for good. */
function isGone({ version }: Run, outcome: Outcome): boolean {
  return 'goneVersion' in outcome && outcome.goneVersion === version;
}

/**
 * Returns the run after its outcomes, the same object when nothing changed. Results of an older run
 * count, but they do not raise the cursor of the present one.
 *
 * @param cursorMax how far a node that works with the settlement's version may raise the cursor
 */
export function runAfter<R extends Run>(
  { run, health, deliveredAt, lastFailed, failingFrom }: BatchState<R>,
  settlement: Settlement,
  cursorMax: Offset,
): R {
  const settledTo = Math.min(settlement.cursor, cursorMax);
  const cursor = settlement.run === run.run ? Math.max(run.cursor, settledTo) : run.cursor;
  const isSame = cursor === run.cursor && health === run.health && lastFailed === undefined;
  if (isSame) return run;
  const failing = { ends: deliveredAt !== undefined, from: failingFrom };
  return { ...run, cursor, health, deliveredAt, failed: lastFailed, failing };
}

/**
 * Returns the settled events above the cursor after a settlement, as JSON. Those of a former run count
 * as well: they are not sent again.
 */
export function settledAboveAfter(
  { settledAbove }: Settlement,
  { cursor }: Pick<Run, 'cursor'>,
): string | undefined {
  if (settledAbove === undefined) return undefined;
  return JSON.stringify(settledAbove.filter((offset) => offset > cursor));
}

/** The result for a stream that the node does not own any more. */
export const lost: SettledStream = {
  result: 'lost',
  version: 0,
  cursor: 0,
  health: { consecutive: 0, total: 0 },
  disabledBy: undefined,
};

/** Returns the result for a stream that was recorded; `run` is the one after the batch. */
export function recorded(
  { version, cursor, health }: Run,
  { disabledBy, keysChanged }: Pick<BatchState, 'disabledBy' | 'keysChanged'>,
): SettledStream {
  const changed = keysChanged ? { keysChanged } : {};
  const after = disabledBy === undefined ? version : version + 1;
  return { result: 'recorded', version: after, cursor, health, ...changed, disabledBy };
}

/**
 * Returns the result for a batch that was recorded before: its node did not receive it, and gets the
 * present state of the stream.
 */
export function recordedBefore(run: Run | undefined, { settledAbove }: Settlement): SettledStream {
  if (run === undefined) return lost;
  return recorded(run, { disabledBy: undefined, keysChanged: settledAbove !== undefined });
}

/** Emits a hint for each stream that a batch disabled. */
export function emitDisabled(
  settlements: readonly Settlement[],
  settled: readonly SettledStream[],
  emit: (hint: Hint) => void,
): void {
  settlements.forEach(({ tenant, stream }, index) => {
    if (settled[index]?.disabledBy) emit({ kind: 'stream', tenant, stream });
  });
}
