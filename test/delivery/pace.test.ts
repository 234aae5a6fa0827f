import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Pace } from '../../src/delivery/pace.ts';

const limits = { streamConcurrency: 64, slowSlots: 4, parkAfterMs: 1000 };

function paceAfter(...durationsMs: readonly number[]): Pace {
  const pace = new Pace();
  for (const durationMs of durationsMs) pace.ended(durationMs, false, 'answered');
  return pace;
}

const times = (count: number, durationMs: number): number[] =>
  Array.from({ length: count }, () => durationMs);

describe('the slots of a stream by its pace', () => {
  test('a stream without a result begins with few slots', () => {
    const pace = new Pace();
    assert.equal(pace.slots(limits), 4);
    assert.equal(pace.isQuick(limits), false);
    assert.equal(pace.isUnknown, true);
  });

  test('a stream has all slots after its first quick attempt', () => {
    const pace = paceAfter(20);
    assert.equal(pace.slots(limits), 64);
    assert.equal(pace.isQuick(limits), true);
    assert.equal(pace.isUnknown, false);
  });

  test('a receiver that responds after 9.5 s has few slots although it never fails', () => {
    assert.equal(paceAfter(...times(10, 9500)).slots(limits), 6);
  });

  test('slots fall in proportion to the latency, not in classes', () => {
    const slots = [999, 1000, 1500, 2000, 4000, 8000].map((ms) => paceAfter(ms).slots(limits));
    assert.deepEqual(slots, [64, 64, 42, 32, 16, 8]);
  });

  test('slots are few at the least, and never more than the stream may have', () => {
    assert.equal(paceAfter(600_000).slots(limits), 4);
    assert.equal(paceAfter(600_000).slots({ ...limits, streamConcurrency: 2 }), 2);
  });

  test('a stream that has become quick has all slots after some 20 attempts', () => {
    assert.equal(paceAfter(...times(100, 10_000), ...times(16, 10)).isQuick(limits), false);
    assert.equal(paceAfter(...times(100, 10_000), ...times(20, 10)).isQuick(limits), true);
  });

  test('one timeout in a hundred leaves a stream at least half of its slots', () => {
    const pace = new Pace();
    let fewest = Infinity;
    for (let round = 0; round < 10; round += 1) {
      for (const durationMs of [...times(99, 10), 10_000]) {
        pace.ended(durationMs, false, 'answered');
        fewest = Math.min(fewest, pace.slots(limits));
      }
    }
    assert.ok(fewest >= 32, `${fewest} slots`);
  });

  test('attempts that hang count before they end, as long as they may take', () => {
    const pace = paceAfter(10);
    for (let count = 0; count < 8; count += 1) pace.becameSlow(10_000);
    assert.ok(pace.slots(limits) <= 10, `${pace.slots(limits)} slots`);
  });

  test('attempts that are slow but do not hang count as long as the last one took', () => {
    const pace = new Pace();
    for (let count = 0; count < 100; count += 1) {
      pace.becameSlow(10_000);
      pace.ended(1500, true, 'answered');
    }
    assert.equal(pace.slots(limits), 42);
  });

  test('a stream has few slots after four failures in a row without a response, until the next one', () => {
    const pace = paceAfter(10);
    for (let count = 0; count < 3; count += 1) pace.ended(0, false, 'unanswered');
    pace.ended(10_000, true, 'cut off');
    assert.equal(pace.slots(limits), 64);
    assert.equal(pace.isQuick(limits), true);
    pace.ended(0, false, 'unanswered');
    assert.equal(pace.slots(limits), 4);
    assert.equal(pace.isQuick(limits), false);
    pace.ended(10, false, 'answered');
    assert.equal(pace.slots(limits), 64);
    assert.equal(pace.isQuick(limits), true);
  });

  test('a stream must back off after every fourth failure in a row without a response', () => {
    const pace = new Pace();
    const mustBackOff: number[] = [];
    for (let count = 1; count <= 12; count += 1) {
      pace.ended(0, false, 'unanswered');
      if (pace.mustBackOff(limits)) mustBackOff.push(count);
    }
    assert.deepEqual(mustBackOff, [4, 8, 12]);
    pace.ended(10, false, 'answered');
    for (let count = 0; count < 3; count += 1) pace.ended(0, false, 'unanswered');
    assert.equal(pace.mustBackOff(limits), false);
  });

  test('failures without a response do not count as latency', () => {
    const pace = new Pace();
    pace.ended(0, false, 'unanswered');
    assert.equal(pace.isUnknown, false);
    assert.equal(pace.isQuick(limits), false);
    assert.equal(pace.slots(limits), 4);
  });

  test('any history of attempts leaves a stream between the slow slots and all', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.integer({ min: 0, max: 600_000 }),
            fc.boolean(),
            fc.constantFrom('answered', 'unanswered', 'cut off'),
          ),
          { maxLength: 50 },
        ),
        fc.integer({ min: 1, max: 200 }),
        (attempts, streamConcurrency) => {
          const pace = new Pace();
          for (const [durationMs, wasSlow, answer] of attempts) {
            if (wasSlow) pace.becameSlow(600_000);
            pace.ended(durationMs, wasSlow, answer);
          }
          const slots = pace.slots({ ...limits, streamConcurrency });
          assert.ok(slots >= Math.min(4, streamConcurrency) && slots <= streamConcurrency);
        },
      ),
    );
  });
});
