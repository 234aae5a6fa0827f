import type { Clock, RandomBytes } from '../core/clock.ts';
import type { PullSettings } from './settings.ts';

/** Instants of an open connection in elapsed milliseconds. */
export interface ConnectionTimes {
  readonly beatAtMs: number;
  readonly endsAtMs: number;
}

/** Settings of {@link connectionTimes}. */
export type ConnectionTimesSettings = Pick<
  PullSettings,
  'heartbeatMs' | 'lifetimeMs' | 'spreadMs' | 'tickMs'
>;

/** Spreads lifetimes: clients that connected together do not all reconnect together. */
export function connectionTimes(
  { clock, random }: { readonly clock: Pick<Clock, 'elapsedMs'>; readonly random: RandomBytes },
  { heartbeatMs, lifetimeMs, spreadMs, tickMs }: ConnectionTimesSettings,
): ConnectionTimes {
  const [high = 0, low = 0] = random(2);
  const share = (high * 256 + low) / 65_536;
  const nowMs = clock.elapsedMs();
  return {
    beatAtMs: nowMs + heartbeatMs,
    endsAtMs: nowMs + lifetimeMs - tickMs - share * spreadMs,
  };
}
