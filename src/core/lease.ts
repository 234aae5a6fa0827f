import type { DeliveryOptions } from './types.ts';

/** Returns the lease of a row whose attempt is under way: longer than attempts of its stream last. */
export function leaseMsOf(
  {
    attemptTimeoutMs,
    leaseGraceMs,
  }: { readonly attemptTimeoutMs: number; readonly leaseGraceMs: number },
  delivery: DeliveryOptions | undefined,
): number {
  return (delivery?.timeoutMs ?? attemptTimeoutMs) + leaseGraceMs;
}
