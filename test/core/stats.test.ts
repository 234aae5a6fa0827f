import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { bucketSums, statsWindow } from '../../src/core/stats.ts';

const hour = 3_600_000;
const day = 24 * hour;
const at = Date.parse;

describe('statsWindow', () => {
  test('statsWindow defaults to the last 14 days in 15 buckets', () => {
    for (const now of [
      '2026-03-15T12:34:56.789Z',
      '2026-03-15T00:00:00Z',
      '2026-03-15T23:59:59Z',
    ]) {
      const window = statsWindow({}, at(now));
      assert.equal(window.buckets.length, 15, now);
      assert.equal(window.buckets[0], at('2026-03-01T00:00:00Z'));
      assert.equal(window.bucketMs, day);
    }
    const { from, to } = statsWindow({}, at('2026-03-15T12:34:56.789Z'));
    assert.equal(from, at('2026-03-01T12:00:00Z'));
    assert.equal(to, at('2026-03-15T13:00:00Z'));
  });

  test('statsWindow uses hourly buckets up to 48 hours, then daily ones', () => {
    const from = at('2026-03-01T09:10:00Z');
    const hours = statsWindow({ from, to: from + 48 * hour }, from);
    assert.equal(hours.bucketMs, hour);
    assert.equal(hours.buckets.length, 49, 'the window overlaps parts of the first and the last');
    const days = statsWindow({ from, to: from + 49 * hour }, from);
    assert.equal(days.bucketMs, day);
    assert.equal(days.buckets.length, 3);
  });

  test('statsWindow completes a missing start or end', () => {
    const now = at('2026-03-15T12:34:56Z');
    assert.equal(statsWindow({ from: now - hour }, now).to, at('2026-03-15T13:00:00Z'));
    assert.equal(statsWindow({ to: now }, now).from, at('2026-03-01T12:00:00Z'));
  });

  test('an empty window has no buckets', () => {
    const now = at('2026-03-15T12:00:00Z');
    assert.deepEqual(statsWindow({ from: now, to: now }, now).buckets, []);
  });

  test('statsWindow lists exactly the buckets that overlap the window', () => {
    const moment = fc.integer({ min: at('2026-01-01T00:00:00Z'), max: at('2026-03-01T00:00:00Z') });
    fc.assert(
      fc.property(moment, moment, (one, other) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)];
        const { buckets, bucketMs } = statsWindow({ from, to }, 0);
        for (const start of buckets) assert.ok(start < to && start + bucketMs > from);
        const [first = from] = buckets;
        assert.ok(from === to || (first <= from && first + buckets.length * bucketMs >= to));
      }),
    );
  });
});

describe('bucketSums', () => {
  test('bucketSums adds up the hours of each bucket and drops hours outside', () => {
    const buckets = [0, day];
    const hours = [-hour, 0, 23 * hour, 24 * hour, 47 * hour, 48 * hour];
    const counts = hours.map((start) => ({ hour: start, count: 1 }));
    assert.deepEqual(bucketSums({ buckets, bucketMs: day }, counts), [2, 2]);
    assert.deepEqual(bucketSums({ buckets: [], bucketMs: day }, counts), []);
  });
});
