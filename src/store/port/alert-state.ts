import type { Millis } from '../../core/clock.ts';
import type { Health, StreamStatus } from '../../core/types.ts';
import type { DisabledReason } from './streams.ts';

/**
 * Stores which alerts were reported, so that each is reported once
 * (docs/monitoring.md#what-is-promised).
 */
export interface AlertStateStore {
  /** Returns the state that the last check of a tenant recorded; `undefined` before the first. */
  last(tenant: number): Promise<AlertState | undefined>;
  /**
   * Records the state for the next check, unless another process has recorded one in the meantime:
   * `after` is the instant of the state that was read. Returns false then, and writes nothing.
   * Without `mustLast` a crash of the store or of its machine may undo it.
   */
  record(
    tenant: number,
    after: Millis | undefined,
    state: AlertState,
    mustLast: boolean,
  ): Promise<boolean>;
  /**
   * Returns the streams that an alert may be about, in order of id: those with open or consecutive
   * failures, and those that results disabled within the window.
   */
  failingStreams(tenant: number, window: FailureWindow): Promise<readonly FailingStream[]>;
  /** Returns the standing of several tenants, in the order of `tenants`, with one query. */
  standings(tenants: readonly number[]): Promise<readonly AlertStanding[]>;
}

/** What a monitor has to know of a tenant before it checks it: when that was last done, and whether it is needed. */
export interface AlertStanding {
  /** The result of {@link AlertStateStore.last}. */
  readonly last: AlertState | undefined;
  /** False when {@link AlertStateStore.failingStreams} returns nothing for any window. */
  readonly mayBeFailing: boolean;
}

export interface AlertState {
  readonly at: Millis;
  /** A text that only the caller reads. */
  readonly state: string;
}

/** After `since`, up to `upTo`. */
export interface FailureWindow {
  readonly since: Millis;
  readonly upTo: Millis;
}

export interface FailingStream {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly health: Health;
  /** When results disabled it last, even if it was enabled since. */
  readonly disabledAt: Millis | undefined;
  /** Why it is disabled; `undefined` while it is enabled. */
  readonly disabledReason: DisabledReason | undefined;
  /**
   * Whether open failures of it were recorded within the window. Not their number, because counting
   * them could take long.
   */
  readonly failedWithin: boolean;
}
