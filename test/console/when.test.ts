import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bytes, count, duration, percent, plural } from '../../src/console/parts/numbers.ts';
import { relative, utc } from '../../src/console/parts/when.ts';

const present = Date.parse('2026-03-01T10:00:00.000Z');

describe('relative', () => {
  const cases: readonly (readonly [at: string, text: string])[] = [
    ['2026-03-01T09:59:58.000Z', 'just now'],
    ['2026-03-01T09:59:30.000Z', '30\u2009s ago'],
    ['2026-03-01T09:00:00.000Z', '1\u2009h ago'],
    ['2026-03-01T10:05:00.000Z', 'in 5\u2009min'],
  ];
  for (const [at, text] of cases) {
    test(`${at} is ${text}`, () => assert.equal(relative(Date.parse(at), present), text));
  }

  test('an instant a day ago or more is absolute', () => {
    assert.match(relative(Date.parse('2026-02-28T09:00:00.000Z'), present), /28 Feb 2026/);
  });
});

test('utc shows an instant to the second', () => {
  assert.equal(utc('2026-03-01T09:59:58.123Z'), '2026-03-01 09:59:58 UTC');
});

test('percent is 100 or 0 only where nothing is missing', () => {
  assert.deepEqual([1, 0.99999, 0.5, 0.00001, 0].map(percent), [
    '100\u2009%',
    '> 99.9 %',
    '50.0\u2009%',
    '< 0.1 %',
    '0\u2009%',
  ]);
});

test('counts, durations and sizes have the unit that fits', () => {
  assert.deepEqual([0, 999, 1204, 1_000_000].map(count), [
    '0',
    '999',
    '1\u2009204',
    '1\u2009000\u2009000',
  ]);
  assert.deepEqual([0.2, 12, 1500, 90_000, 7_200_000, 259_200_000].map(duration), [
    '< 1\u2009ms',
    '12\u2009ms',
    '1.5\u2009s',
    '2\u2009min',
    '2\u2009h',
    '3\u2009days',
  ]);
  assert.deepEqual([10, 2048, 3_145_728].map(bytes), ['10\u2009B', '2.0\u2009KiB', '3.0\u2009MiB']);
  assert.deepEqual(
    [plural(1, 'event'), plural(2, 'delivery', 'deliveries')],
    ['1 event', '2 deliveries'],
  );
});
