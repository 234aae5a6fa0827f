import type { Millis } from '../core/clock.ts';
import { type NotifiedState, initialState } from './rules.ts';
import type { Outbox } from './outbox.ts';
import type { ReportedFailures } from './reported-failures.ts';
import type { Reported } from './system-alerts.ts';

/**
 * State of a tenant from one check to the next, stored as JSON: the field names are a stored format.
 * An alert is in `outbox` before it is sent and is removed afterwards, so a crash repeats the alerts
 * of the last seconds and loses none.
 */
export interface SavedState {
  readonly version: 1;
  /** When the last complete check began. */
  readonly lookedAt?: Millis;
  /** When the lease of the node that is checking the tenant expires. */
  readonly busyUntil?: Millis;
  /** Limits and disablings that were reported. */
  readonly alarm: NotifiedState;
  /** Failures that were reported recently, by stream. */
  readonly recent: Readonly<Record<string, ReportedFailures>>;
  readonly outbox: Outbox;
  /** Conditions that were reported recently. */
  readonly reported?: Reported;
}

const initialSavedState: SavedState = { version: 1, alarm: initialState, recent: {}, outbox: {} };

/** Parses a stored state. One of a later version cannot be read: the check then starts from scratch. */
export function parseSavedState(text: string | undefined): SavedState {
  if (text === undefined) return initialSavedState;
  const state = JSON.parse(text) as SavedState;
  return (state.version as number) === 1 ? state : initialSavedState;
}

/** Returns whether two states differ in their times at most. */
export function haveSameContent(one: SavedState, other: SavedState): boolean {
  return contentOf(one) === contentOf(other);
}

/** Returns whether no check is running and nothing but times is saved. */
export function isIdle(state: SavedState): boolean {
  return state.busyUntil === undefined && haveSameContent(state, initialSavedState);
}

function contentOf({ alarm, recent, outbox, reported = {} }: SavedState): string {
  return JSON.stringify([alarm, recent, outbox, reported]);
}
