import type { Millis } from './clock.ts';
import type { StreamStatus } from './types.ts';

/** How a stream is doing, in one word. */
export type StreamState = (typeof streamStates)[number];

/** All states; the first that holds is that of a stream. */
export const streamStates = ['disabled', 'paused', 'failing', 'lagging', 'ok'] as const;

/** The lag from which on a stream lags. */
export const laggingMs = 300_000;

/** The age of the oldest failed or overdue attempt since the last success from which on a stream fails. */
export const failingMs = 60_000;

/** What makes a stream fail. */
export interface FailingSources {
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  /** Whether the store refuses to record its results. */
  readonly isRefused: boolean;
  /** When the oldest attempt began that failed since the last success, or that success if it was later. */
  readonly failingSince: Millis | undefined;
  /** Since when the oldest attempt is overdue, or since the last success if that was later. */
  readonly overdueSince: Millis | undefined;
}

/** What the state of a stream depends on. */
export interface StateSources extends FailingSources {
  readonly status: StreamStatus;
  readonly isPaused: boolean;
  /** Age of the oldest event that waits. */
  readonly lagMs: number;
}

/** Returns the state of a stream. */
export function streamStateOf(sources: StateSources, now: Millis): StreamState {
  const { status, isPaused, lagMs } = sources;
  if (status === 'disabled') return 'disabled';
  if (isPaused) return 'paused';
  if (isFailing(sources, now)) return 'failing';
  return lagMs >= laggingMs ? 'lagging' : 'ok';
}

/** Returns whether an enabled stream that is not paused fails. */
export function isFailing(sources: FailingSources, now: Millis): boolean {
  const { consecutive, isRefused, failingSince = Infinity, overdueSince = Infinity } = sources;
  return consecutive > 0 || isRefused || now - Math.min(failingSince, overdueSince) >= failingMs;
}

/** Returns the state of a stream to which two states apply. */
export function firstOf(one: StreamState, other: StreamState): StreamState {
  return streamStates.indexOf(one) < streamStates.indexOf(other) ? one : other;
}
