import type { Mutant } from './mutant.ts';

/** Mutants of the rules of delivery, of the queues of a node, and of what SQLite records. */
export const deliveryMutants: readonly Mutant[] = [
  {
    name: 'a stream that begins at the head, whatever start_from says',
    file: 'api/streams.ts',
    before: `if (text === undefined || text === 'now') return undefined;`,
    after: `if (text !== undefined || text !== 'now') return undefined;`,
    killedBy: { file: 'test/api/replays.test.ts', title: 'is now, an offset or a date' },
  },
  {
    name: 'a start in the log that the store ignores',
    file: 'store/sqlite/streams.ts',
    before: '${Math.min(cursor ?? head, head)}, 1, 0, 0, 0)`;',
    after: '${cursor === undefined ? head : head}, 1, 0, 0, 0)`;',
  },
  {
    name: 'retries that do not wait',
    file: 'core/retry.ts',
    before: 'waitMs: Math.max(delayMs, verdict.retryAfterMs), message };',
    after: 'waitMs: verdict.retryAfterMs, message };',
  },
  {
    name: 'retries that wait as long as the first',
    file: 'core/retry.ts',
    before: 'waitMs: Math.max(delayMs, verdict.retryAfterMs), message };',
    after: 'waitMs: Math.max(delaysMs[0] ?? 0, verdict.retryAfterMs), message };',
  },
  {
    name: 'a Retry-After that shortens the wait',
    file: 'core/retry.ts',
    before: 'waitMs: Math.max(delayMs, verdict.retryAfterMs), message };',
    after: 'waitMs: verdict.retryAfterMs > 0 ? verdict.retryAfterMs : delayMs, message };',
    killedBy: {
      file: 'test/core/retry.test.ts',
      title: 'is lengthened by what the receiver asked for, never shortened',
    },
  },
  {
    name: 'one attempt more than the schedule has',
    file: 'core/retry.ts',
    before: 'const delayMs = delaysMs[attempt - 1];',
    after:
      'const delayMs = attempt > delaysMs.length + 1 ? undefined : (delaysMs[attempt - 1] ?? 0);',
  },
  {
    name: 'one attempt less than the schedule has',
    file: 'core/retry.ts',
    before: 'const delayMs = delaysMs[attempt - 1];',
    after: 'const delayMs = attempt < delaysMs.length ? delaysMs[attempt - 1] : undefined;',
  },
  {
    name: 'no quarter of the slots for fresh events',
    file: 'delivery/slots.ts',
    before: `return dueInFlight < slots - Math.ceil(slots / 4) ? 'due' : 'fresh';`,
    after: `return 'due';`,
    killedBy: {
      file: 'test/delivery/slots.test.ts',
      title: 'give each kind at least a quarter while both wait, whatever was there before',
    },
  },
  {
    name: 'statistics that count nothing',
    file: 'store/sqlite/settle.ts',
    before: 'addStats(db, run, score, now);',
    after: '',
  },
  {
    name: 'statistics that count twice',
    file: 'store/sqlite/stats.ts',
    before: 'delivered = delivered + excluded.delivered, failed = failed + excluded.failed',
    after: 'delivered = delivered + 2 * excluded.delivered, failed = failed + excluded.failed',
  },
  {
    name: 'a history without successes',
    file: 'store/sqlite/outcome.ts',
    before: 'if (history !== undefined) addAttempt',
    after: `if (history !== undefined && history.outcome !== 'delivered') addAttempt`,
  },
  {
    name: 'a delivered event that is answered as unknown',
    file: 'store/sqlite/redelivery.ts',
    before: `return wasDelivered(db, run, eventId) ? 'delivered' : 'unknown';`,
    after: `return 'unknown';`,
  },
  {
    name: 'held that resumes at the head',
    file: 'store/sqlite/streams.ts',
    before: `if (resume !== 'held') {`,
    after: `if (resume !== undefined || resume !== 'held') {`,
  },
];
