import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AttemptShown } from '../../src/cli/deliveries.ts';
import { hasEnded, redeliveryState } from '../../src/cli/redelivery.ts';

const now = Date.parse('2026-03-01T10:00:00.000Z');

describe('a redelivery', () => {
  const at = '2026-03-01T09:59:59.000Z';
  const failed = (error: string, timestamp = at): AttemptShown => ({
    status: 'failed',
    timestamp,
    duration: 1,
    error_message: error,
  });
  const retrying: AttemptShown = { status: 'retrying', timestamp: at };
  const four = Array<AttemptShown>(4).fill(failed('503 - busy'));

  const cases: [string, AttemptShown[], boolean][] = [
    ['is running before its first attempt', [...four, retrying], false],
    ['is running before the server has started it', four, false],
    ['is running after the first of four attempts', [...four, retrying, failed('timeout')], false],
    ['has ended after the fourth', [...four, retrying, ...four], true],
    ['has ended after an error that is not retried', [...four, retrying, failed('404 - no')], true],
    ['has ended after such an error without a message', [...four, retrying, failed('301')], true],
    ['is running after 429, which is retried', [...four, retrying, failed('429')], false],
    [
      'has ended after a blocked address',
      [...four, retrying, failed('blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)')],
      true,
    ],
    [
      'has ended after as many attempts as the previous cycle, for any LEAT_RETRY_DELAYS_MS',
      [failed('timeout'), failed('timeout'), retrying, failed('timeout'), failed('timeout')],
      true,
    ],
    [
      'is running when the previous cycle ended early',
      [failed('404 - no'), retrying, failed('timeout')],
      false,
    ],
    [
      'has ended after a pause longer than any retry delay',
      [...four, retrying, failed('timeout', '2026-03-01T09:58:00.000Z')],
      true,
    ],
  ];
  for (const [title, attempts, ended] of cases) {
    test(`a redelivery ${title}`, () => assert.equal(hasEnded(attempts, now), ended));
  }

  test('redeliveryState: counts a failure without a record as delivered', () => {
    const record = (id: string, attempts: AttemptShown[]) => ({
      id,
      event_type: 'a.b',
      attempts,
      event: {},
    });
    const records = [
      record('b', [...four, retrying, ...four]),
      record('c', [...four, retrying]),
      record('not-requested', four),
    ];
    assert.deepEqual(redeliveryState(new Set(['a', 'b', 'c', 'd']), records, now), {
      requested: 4,
      delivered: 2,
      failed: 1,
      left: 1,
    });
  });
});
