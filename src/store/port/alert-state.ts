import type { Millis } from '../../core/clock.ts';
import type { Health, StreamStatus } from '../../core/types.ts';

/** What operators were told, so that they are told of each thing once (docs/monitoring.md#what-is-promised). */
export interface AlertStateStore {
  /** What the last look at a tenant left behind; `undefined` before the first. */
  last(tenant: number): Promise<AlertState | undefined>;
  /**
   * Leaves behind what the next look has to know, unless another process did so since: `after` is
   * the instant of the look that was read. False then, and nothing is written. Without `mustLast` a
   * crash of the store or of its machine may undo it.
   */
  record(
    tenant: number,
    after: Millis | undefined,
    look: AlertState,
    mustLast: boolean,
  ): Promise<boolean>;
  /**
   * Streams that somebody may have to be told of, in order of id: with failures that are open or in
   * a row, or disabled by a limit within the window.
   */
  failingStreams(tenant: number, window: FailureWindow): Promise<readonly FailingStream[]>;
  /** Returns where each of several tenants stands, in the order asked for, with one query. */
  standings(tenants: readonly number[]): Promise<readonly AlertStanding[]>;
}

export interface AlertStanding {
  /** What {@link AlertStateStore.last} returns. */
  readonly last: AlertState | undefined;
  /** False when {@link AlertStateStore.failingStreams} returns nothing, whatever the window. */
  readonly mayBeFailing: boolean;
}

export interface AlertState {
  readonly at: Millis;
  /** A text of the caller's. */
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
  /** When a limit disabled it last, also when somebody has enabled it since. */
  readonly disabledAt: Millis | undefined;
  /** Whether open failures of it were recorded within the window: to count them could take long. */
  readonly failedWithin: boolean;
}
