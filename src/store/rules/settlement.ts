import { nextHealth, type HealthEvent } from '../../core/health.ts';
import type { Millis } from '../../core/clock.ts';
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
  Outcome,
  SettleResult,
  SettleBatch,
  SettledStream,
  Settlement,
} from '../port/settlement.ts';
import type { Run } from '../rows/runs.ts';

/** What an engine knows of a delivery's row before an outcome of it is recorded. */
export interface RowBefore {
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  readonly failedAt: Millis | undefined;
}

/** What recording an outcome comes to. */
export interface Transition {
  /** The entry that the history gets. */
  readonly history: Attempt | undefined;
  readonly row: 'as it was' | 'gone' | RowAfter;
  /** What the counters of the stream hear. */
  readonly ended: HealthEvent | undefined;
  /** What the progress of the stream's replay hears. */
  readonly replayed?: keyof Replayed | undefined;
}

/** How many deliveries of a replay have ended. */
export interface Replayed {
  sent: number;
  failed: number;
}

/** What becomes of a row, or what a new one is. */
export interface RowAfter {
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly dueAt: Millis | undefined;
  /** Set when it is an open failure record, also while that is redelivered. */
  readonly failedAt: Millis | undefined;
}

/**
 * The rule by which every engine records outcomes. `row` is needed unless the outcome is a success
 * without one; `stopped` says that the stream is disabled.
 */
export function applyOutcome(
  outcome: Outcome,
  row: RowBefore | undefined,
  stopped: boolean,
  now: Millis,
): Transition {
  const wasOpen = row?.failedAt !== undefined;
  if (outcome.result === 'delivered') {
    const { hasRow, durationMs, status } = outcome;
    const at = begunAt(outcome, now);
    return {
      history: { outcome: 'delivered', at, durationMs, status, error: undefined },
      row: hasRow ? 'gone' : 'as it was',
      ended: { ended: 'delivered', wasOpen: hasRow && wasOpen },
      replayed: isReplayed(row) ? 'sent' : undefined,
    };
  }
  const over = isOver(row, outcome);
  const becomes = (state: DeliveryState, attempt: number, dueAt?: Millis): RowAfter => {
    const isOpen = state === 'failed' || outcome.kind === 'redelivery';
    return { state, attempt, dueAt, failedAt: row?.failedAt ?? (isOpen ? now : undefined) };
  };
  const { attempt } = outcome;
  if (outcome.result === 'parked') {
    const parked = becomes('parked', attempt, Math.ceil(now + outcome.leaseMs));
    return { history: undefined, row: over ? 'as it was' : parked, ended: undefined };
  }
  const { durationMs, status, error } = outcome;
  const history = {
    outcome: 'failed',
    at: begunAt(outcome, now),
    durationMs,
    status,
    error,
  } as const;
  if (over) return { history, row: 'as it was', ended: undefined };
  // A disabled stream is sent redeliveries only: what else would be retried is over, or pauses.
  if (outcome.result === 'failed' || (stopped && endsWithStream(outcome.kind))) {
    const replayed = isReplayed(row) ? 'failed' : undefined;
    const ended = { ended: 'failed', wasOpen } as const;
    return { history, row: becomes('failed', attempt), ended, replayed };
  }
  const dueAt = Math.ceil(now + outcome.delayMs);
  return { history, row: becomes('retrying', attempt + 1, dueAt), ended: undefined };
}

/** When an attempt began, by the clock of the store. */
function begunAt({ agoMs }: { readonly agoMs: number }, now: Millis): Millis {
  return Math.floor(now - agoMs);
}

/** Whether a delivery that waits becomes a failure when its stream is disabled. */
export function endsWithStream(kind: DeliveryKind): boolean {
  return kind === 'first' || kind === 'test';
}

/**
 * The progress of a replay goes by its rows, each of which ends once, whatever attempt ends it. One
 * that is a failure has been counted.
 */
function isReplayed(row: RowBefore | undefined): boolean {
  return row?.kind === 'replay' && row.state !== 'failed';
}

/**
 * An event that was sent twice, because the lease of its row ended before its attempt did, may have
 * been delivered or become a failure by the other attempt: this one then is history only.
 */
function isOver(row: RowBefore | undefined, outcome: Outcome): boolean {
  return row === undefined ? outcome.hasRow : row.state === 'failed';
}

/** The counters of one stream while outcomes are recorded. */
export interface Counters {
  health: Health;
  delivered: number;
  failed: number;
  readonly replayed: Replayed;
  /** The limit by which these outcomes disabled the stream. */
  disabledBy: 'consecutive' | 'total' | undefined;
}

export function newCounters(health: Health): Counters {
  const replayed = { sent: 0, failed: 0 };
  return { health, delivered: 0, failed: 0, replayed, disabledBy: undefined };
}

/** Counts the end of a delivery; true when it disables a stream that is `enabled`. */
export function countEnd(
  counters: Counters,
  event: HealthEvent,
  limits: HealthLimits,
  enabled: boolean,
): boolean {
  counters[event.ended] += 1;
  const { health, reached } = nextHealth(counters.health, event, limits);
  counters.health = health;
  if (reached === undefined || !enabled || counters.disabledBy !== undefined) return false;
  counters.disabledBy = reached;
  return true;
}

/** What the history says of a delivery that ended because its stream was disabled. */
export const disabledMessage = 'The event stream is disabled';

/** The counters after `failed` deliveries became failures because their stream is disabled. */
export function healthAfterDisabling(before: Health, failed: number): Health {
  let health = before;
  for (let count = 0; count < failed; count += 1) {
    health = nextHealth(health, { ended: 'failed', wasOpen: false }, noLimits).health;
  }
  return health;
}

/** The stream is disabled already: no limit is left to be reached. */
const noLimits = { consecutive: Infinity, total: Infinity };

/** What settling answers of a stream that is no longer the node's. */
export const lost: SettledStream = {
  result: 'lost',
  version: 0,
  cursor: 0,
  disabled: undefined,
};

/** What it answers of a stream that runs so now; `disabledBy` when this is the batch that did it. */
export function recorded(
  { version, cursor, health }: Run,
  disabledBy: Counters['disabledBy'],
): SettledStream {
  if (disabledBy === undefined) return { result: 'recorded', version, cursor, disabled: undefined };
  const disabled = { ...health, reason: disabledBy };
  return { result: 'recorded', version: version + 1, cursor, disabled };
}

/**
 * The run after its outcomes, the same object when that changes nothing. Results of an older run
 * count, but they say nothing about the present run's cursor.
 *
 * @param cursorMax how far a node that works by the settlement's version may raise the cursor
 */
export function runAfter<R extends Run>(
  run: R,
  settlement: Settlement,
  { health }: Counters,
  cursorMax: Offset,
): R {
  const wanted = Math.min(settlement.cursor, cursorMax);
  const cursor = settlement.run === run.run ? Math.max(run.cursor, wanted) : run.cursor;
  return cursor === run.cursor && health === run.health ? run : { ...run, cursor, health };
}

/** Tells of each stream that a batch disabled. */
export function emitDisabled(
  { settlements }: SettleBatch,
  { streams }: SettleResult,
  tell: (hint: Hint) => void,
): void {
  settlements.forEach(({ tenant, stream }, index) => {
    if (streams[index]?.disabled) tell({ kind: 'stream', tenant, stream });
  });
}
