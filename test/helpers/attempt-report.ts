import type { AttemptReport } from '../../src/delivery/report.ts';

/** Returns the report of an attempt that has ended: the first of a delivery, with a 204, unless changed. */
export function attemptReport(changes: Partial<AttemptReport> = {}): AttemptReport {
  return {
    kind: 'attempt',
    tenant: 1,
    stream: 'est_1',
    eventId: 'evt_1',
    eventType: 'order.paid',
    deliveryKind: 'first',
    attempt: 1,
    result: 'delivered',
    status: 204,
    error: undefined,
    durationMs: 5,
    sincePublishedMs: 20,
    ...changes,
  };
}
