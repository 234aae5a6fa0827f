import type { Health, HealthLimits } from './types.ts';

/** The end of a delivery, as far as the counters of a stream care. */
export interface HealthEvent {
  readonly ended: 'delivered' | 'failed';
  /** Whether the delivery was an open failure record before: a redelivery, or a late result. */
  readonly wasOpen: boolean;
}

/** What a delivery's end makes of the counters, and which limit they reach by it. */
export interface HealthChange {
  readonly health: Health;
  readonly reached: 'consecutive' | 'total' | undefined;
}

/**
 * The rule of docs/http-api.md#failure-counters. A success ends the row of failures and closes the record that was
 * open; a failure opens a record unless one is open already, so none is counted twice.
 */
export function nextHealth(health: Health, event: HealthEvent, limits: HealthLimits): HealthChange {
  if (event.ended === 'delivered') {
    const total = event.wasOpen ? health.total - 1 : health.total;
    return { health: { consecutive: 0, total }, reached: undefined };
  }
  const consecutive = health.consecutive + 1;
  const total = event.wasOpen ? health.total : health.total + 1;
  return { health: { consecutive, total }, reached: reached(consecutive, total, limits) };
}

function reached(
  consecutive: number,
  total: number,
  limits: HealthLimits,
): HealthChange['reached'] {
  if (consecutive >= limits.consecutive) return 'consecutive';
  return total >= limits.total ? 'total' : undefined;
}
