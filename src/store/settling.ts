import { nextHealth, type HealthEvent } from '../core/health.ts';
import type { Millis } from '../core/clock.ts';
import type { DeliveryState, Health, HealthLimits } from '../core/types.ts';
import type { Outcome } from './port.ts';

/** What an engine knows of a delivery's row before an outcome of it is recorded. */
export interface RowBefore {
  readonly state: DeliveryState;
  /** Set when it is an open failure record. */
  readonly failedAt: Millis | undefined;
}

/** What recording an outcome comes to. */
export interface Verdict {
  /** The entry that the history gets. */
  readonly history:
    { readonly outcome: 'delivered' | 'failed'; readonly error?: string } | undefined;
  readonly row: 'as it was' | 'gone' | RowAfter;
  /** What the counters of the stream hear. */
  readonly ended: HealthEvent | undefined;
}

/** What becomes of a row, or what a new one is. */
export interface RowAfter {
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly dueAt: Millis | undefined;
}

/**
 * The rule by which every engine records outcomes. `row` is needed unless the outcome is a success
 * without one; `stopped` says that the stream is disabled.
 */
export function judge(outcome: Outcome, row: RowBefore | undefined, stopped: boolean): Verdict {
  const wasOpen = row?.failedAt !== undefined;
  if (outcome.result === 'delivered') {
    const { hasRow } = outcome;
    return {
      history: { outcome: 'delivered' },
      row: hasRow ? 'gone' : 'as it was',
      ended: { ended: 'delivered', wasOpen: hasRow && wasOpen },
    };
  }
  const over = isOver(row, outcome);
  const { attempt } = outcome;
  if (outcome.result === 'parked') {
    const after = { state: 'parked', attempt, dueAt: outcome.dueAt } as const;
    return { history: undefined, row: over ? 'as it was' : after, ended: undefined };
  }
  const history = { outcome: 'failed', error: outcome.error } as const;
  if (over) return { history, row: 'as it was', ended: undefined };
  // A disabled stream is sent redeliveries only: what else would be retried is over.
  if (outcome.result === 'failed' || (stopped && outcome.kind !== 'redelivery')) {
    const after = { state: 'failed', attempt, dueAt: undefined } as const;
    return { history, row: after, ended: { ended: 'failed', wasOpen } };
  }
  const after = { state: 'retrying', attempt: attempt + 1, dueAt: outcome.dueAt } as const;
  return { history, row: after, ended: undefined };
}

/**
 * An event that was sent twice, because the lease of its row ended before its attempt did, may have
 * been delivered or become a failure by the other attempt: this one then is history only.
 */
function isOver(row: RowBefore | undefined, outcome: Outcome): boolean {
  return row === undefined ? outcome.hasRow : row.state === 'failed';
}

/** The counters of one stream while outcomes are recorded. */
export interface Score {
  health: Health;
  delivered: number;
  failed: number;
  /** The limit by which these outcomes disabled the stream. */
  disabledBy: 'consecutive' | 'total' | undefined;
}

export function newScore(health: Health): Score {
  return { health, delivered: 0, failed: 0, disabledBy: undefined };
}

/** Counts the end of a delivery; true when it disables a stream that is `enabled`. */
export function countEnd(
  score: Score,
  event: HealthEvent,
  limits: HealthLimits,
  enabled: boolean,
): boolean {
  score[event.ended] += 1;
  const { health, reached } = nextHealth(score.health, event, limits);
  score.health = health;
  if (reached === undefined || !enabled || score.disabledBy !== undefined) return false;
  score.disabledBy = reached;
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
