import type { Offset, Stream, Subscription } from '../../core/types.ts';
import type { Run } from '../rows/runs.ts';

/** The rules for changing a stream, and above all for enabling it again. */

/** A stream after a change, before the events that enabling passed over are counted. */
export interface Changed extends Enabling {
  readonly updated: Stream;
  /** False when the change requested nothing new. */
  readonly changed: boolean;
}

/** The effects of enabling in addition to the run itself. */
export interface Enabling {
  readonly held: 'complete' | 'pruned' | undefined;
  readonly passedOver: PassedOver | undefined;
}

export const noSwitch: Enabling = { held: undefined, passedOver: undefined };

/** Returns a new run, which starts after `cursor`; results of the former run no longer move it. */
export function enabledAfter(run: Run, cursor: Offset): Run {
  const health = { ...run.health, consecutive: 0 };
  return { ...run, run: run.run + 1, cursor, health, failing: { ends: true, from: undefined } };
}

/** The range of the log that a stream skips (passes over) when it is enabled. */
export interface PassedOver {
  readonly tenant: number;
  /** Its first retained offset. */
  readonly from: Offset;
  readonly upTo: Offset;
  readonly subscriptions: readonly Subscription[];
  /** Offsets with a row, which were or will be sent. */
  readonly withRow: readonly Offset[];
}
