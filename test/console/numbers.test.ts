import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { brief, count, percent } from '../../src/console/parts/numbers.ts';

describe('numbers of the console', () => {
  for (const [value, expected] of [
    [0, '0'],
    [9_999_999, '9 999 999'],
    [10_000_000, '10.00 M'],
    [592_592_592, '592.6 M'],
    [9_876_543_210, '9.877 G'],
  ] as const) {
    test(`a figure: ${value}`, () => {
      assert.equal(brief(value).replaceAll('\u2009', ' '), expected);
    });
  }

  test('a count has thin spaces between thousands', () => {
    assert.equal(count(1_234_567), '1\u2009234\u2009567');
  });

  test('a share is never rounded to all or nothing', () => {
    assert.deepEqual([0, 0.0001, 0.5, 0.9999, 1].map(percent), [
      '0\u2009%',
      '< 0.1 %',
      '50.0\u2009%',
      '> 99.9 %',
      '100\u2009%',
    ]);
  });
});
