import type { Health, HealthLimits } from './types.ts';

/**
 * Returns the counters after a delivery has ended (docs/http-api.md#failure-counters). `wasOpen`:
 * it was an open failure record before. A success closes that record and resets the consecutive
 * failures; a failure opens a record unless one is open, so none is counted twice.
 */
export function nextHealth(
  { consecutive, total }: Health,
  ended: 'delivered' | 'failed',
  wasOpen: boolean,
): Health {
  if (ended === 'delivered') return { consecutive: 0, total: wasOpen ? total - 1 : total };
  return { consecutive: consecutive + 1, total: wasOpen ? total : total + 1 };
}

/**
 * Returns the counters after so many first or test deliveries failed because the stream was
 * disabled.
 */
export function healthAfterDisabling(health: Health, failed: number): Health {
  const { consecutive, total } = health;
  return failed === 0 ? health : { consecutive: consecutive + failed, total: total + failed };
}

/** Returns the counters after so many open failures were closed without being sent. */
export function healthAfterDismissing({ consecutive, total }: Health, dismissed: number): Health {
  return { consecutive, total: total - dismissed };
}

/** Returns the limit at which the last failure disables the stream; none after a success. */
export function reachedLimit(
  { consecutive, total }: Health,
  limits: HealthLimits,
): 'consecutive' | 'total' | undefined {
  if (consecutive === 0) return undefined;
  if (consecutive >= limits.consecutive) return 'consecutive';
  return total >= limits.total ? 'total' : undefined;
}

/** The error message of a delivery that failed because its stream was disabled. */
export const disabledMessage = 'The event stream is disabled';
