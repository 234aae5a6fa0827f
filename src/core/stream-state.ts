import type { StreamStatus } from './types.ts';

/** How a stream is doing, in one word. */
export type StreamState = (typeof streamStates)[number];

/** All states; the first that holds is that of a stream. */
export const streamStates = ['disabled', 'paused', 'failing', 'lagging', 'ok'] as const;

/** The lag from which on a stream lags. */
export const laggingMs = 300_000;

/** What the state of a stream depends on. */
export interface StateSources {
  readonly status: StreamStatus;
  readonly isPaused: boolean;
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  /** Whether the store refuses to record its results. */
  readonly isRefused: boolean;
  /** Age of the oldest event that waits. */
  readonly lagMs: number;
}

/** Returns the state of a stream. */
export function streamStateOf(sources: StateSources): StreamState {
  const { status, isPaused, consecutive, isRefused, lagMs } = sources;
  if (status === 'disabled') return 'disabled';
  if (isPaused) return 'paused';
  if (consecutive > 0 || isRefused) return 'failing';
  return lagMs >= laggingMs ? 'lagging' : 'ok';
}

/** Returns the state of a stream to which two states apply. */
export function firstOf(one: StreamState, other: StreamState): StreamState {
  return streamStates.indexOf(one) < streamStates.indexOf(other) ? one : other;
}
