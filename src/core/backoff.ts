/** The bounds of an exponential back-off. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/**
 * Returns the wait before the next try: `firstMs` after the first failure, then twice as long after
 * each further one, `maxMs` at most. `failures` counts from 1.
 */
export function backoffMs(failures: number, { firstMs, maxMs }: Backoff): number {
  return Math.min(firstMs * 2 ** (failures - 1), maxMs);
}
