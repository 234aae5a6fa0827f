/** What the benchmark `outage` and its dispatcher say to each other. */
import type { DeliveryOptions } from '../src/core/types.ts';

export const sides = ['poisoned', 'twin', 'other'] as const;
export type Side = (typeof sides)[number];

/** The argument of the process, as JSON. */
export interface NodeOptions {
  readonly file: string;
  readonly ports: Readonly<Record<Side, number>>;
  /** Events of each stream. */
  readonly events: Readonly<Record<Side, number>>;
  readonly seconds: number;
  readonly delivery: DeliveryOptions;
  readonly trialMs: number;
}

export interface NodeReport {
  /** When each event was published, by the monotonic clock of the machine. */
  readonly sentAtMs: Readonly<Record<Side, readonly number[]>>;
  /** Streams that are not enabled at the end. */
  readonly disabled: number;
  /** Open failures of each stream. */
  readonly failed: Readonly<Record<Side, number>>;
  readonly replays: number;
  /** Events of replays that were not sent. */
  readonly replayLost: number;
}
