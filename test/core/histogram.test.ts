import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Histogram, longestMs } from '../../src/core/histogram.ts';

const hour = 3_600_000;

function histogramOf(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.add(value);
  return histogram;
}

/** Spread evenly over the orders of magnitude from 1 ms to 72 h. */
const durations = fc
  .double({ min: 0, max: Math.log(72 * hour), noNaN: true })
  .map((exponent) => Math.min(Math.exp(exponent), 72 * hour));
const parts = fc.constantFrom(0.001, 0.5, 0.9, 0.95, 0.99, 1);

describe('Histogram', () => {
  test('percentiles of merged parts differ from the exact ones of the whole by at most 10 %', () => {
    const groups = fc.array(fc.array(durations, { maxLength: 60 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(groups, parts, (lists, part) => {
        const merged = new Histogram();
        for (const list of lists) merged.merge(histogramOf(list).encode());
        const sorted = lists.flat().toSorted((one, other) => one - other);
        assert.equal(merged.total, sorted.length);
        const exact = sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
        const found = merged.percentile(part);
        if (exact === undefined) return assert.equal(found, undefined);
        assert.ok(
          found !== undefined && Math.abs(found - exact) <= 0.1 * exact,
          `${found}, ${exact}`,
        );
      }),
      { numRuns: 2000 },
    );
  });

  test('a percentile is at most 10 % off at every bound of a bucket, and between, from 1 ms to 36 days', () => {
    const values: number[] = [];
    for (let bound = 1; bound < longestMs; bound *= 1.2) {
      for (const part of [1 - 1e-12, 1, 1 + 1e-12, 1.05, 1.0954, 1.1, 1.1999]) {
        values.push(Math.max(1, bound * part));
      }
    }
    for (let ms = 1; ms <= 10_000; ms += 1) values.push(ms);
    for (const value of values) {
      const found = histogramOf([value]).percentile(0.5) ?? 0;
      assert.ok(Math.abs(found - value) <= 0.1 * value, `${found} instead of ${value}`);
    }
  });

  test('merged parts are the histogram of the whole, in whatever order they are merged', () => {
    const groups = fc.array(fc.array(durations, { maxLength: 30 }), { maxLength: 5 });
    fc.assert(
      fc.property(groups, (lists) => {
        const texts = lists.map((list) => histogramOf(list).encode());
        const [forwards, backwards] = [new Histogram(), new Histogram()];
        for (const text of texts) forwards.merge(text);
        for (const text of texts.toReversed()) backwards.merge(text);
        assert.equal(forwards.encode(), histogramOf(lists.flat()).encode());
        assert.equal(backwards.encode(), forwards.encode());
      }),
    );
  });

  test('values outside of the range count at its ends', () => {
    const histogram = histogramOf([0, 0.2, 0.999, -5, NaN]);
    assert.deepEqual([histogram.total, histogram.percentile(0.5)], [5, 1]);
    const long = histogramOf([longestMs * 10, Infinity]);
    assert.deepEqual(
      [long.total, long.encode()],
      [2, histogramOf([longestMs, longestMs]).encode()],
    );
    assert.ok(longestMs > 30 * 24 * hour);
  });

  test('one value has itself as every percentile, within the error', () => {
    for (const value of [1, 12.5, 999, 60_000, 72 * hour]) {
      const histogram = histogramOf([value]);
      for (const part of [0.5, 0.95, 0.99]) {
        const found = histogram.percentile(part) ?? 0;
        assert.ok(Math.abs(found - value) <= 0.1 * value, `${found} instead of ${value}`);
      }
    }
  });

  test('an empty histogram has no percentiles, and an empty text adds nothing', () => {
    const histogram = new Histogram();
    histogram.merge('');
    assert.deepEqual(
      [histogram.total, histogram.percentile(0.5), histogram.encode()],
      [0, undefined, ''],
    );
  });
});
