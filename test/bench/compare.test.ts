import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { chanceOf, compare } from '../../bench/compare.ts';

/** Returns so many values from a start on, 0.01 apart. */
function from(start: number, count = 5): number[] {
  return Array.from({ length: count }, (_, index) => start + index / 100);
}

describe('the chance of a difference', () => {
  test('two of all 252 ways to deal ten ranks separate five from five', () => {
    assert.equal(chanceOf([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252);
    assert.equal(chanceOf([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]), 2 / 252);
  });

  test('one exchange of neighbours doubles it', () => {
    assert.equal(chanceOf([1, 2, 3, 4, 6], [5, 7, 8, 9, 10]), 4 / 252);
  });

  test('it is that of the tables of Mann and Whitney for sides of unequal size', () => {
    // U = 3 of 3 and 7 values: 1 + 1 + 2 + 3 of 120 ways at each end.
    assert.equal(chanceOf([1, 3, 5], [2, 4, 6, 7, 8, 9, 10]), 14 / 120);
  });

  test('equal values share the mean of their ranks', () => {
    assert.equal(chanceOf([1, 1, 1], [1, 1, 1]), 1);
    // Ranks 1, 2.5 and 2.5, 4: four of the six pairs are as far from the mean as 1 + 2.5.
    assert.equal(chanceOf([1, 2], [2, 3]), 4 / 6);
  });

  test('the same values on both sides are no difference', () => {
    assert.equal(chanceOf(from(1), from(1)), 1);
  });
});

describe('a comparison with an earlier run', () => {
  test('calls higher values faster where higher is better', () => {
    const { change, ratio } = compare([1, 1.1, 1.2, 1.3, 1.4], [2, 2.1, 2.4, 2.5, 2.6], 'higher');
    assert.equal(change, 'faster');
    assert.equal(ratio, 2);
  });

  test('calls higher values slower where lower is better', () => {
    assert.equal(compare(from(1), from(2), 'lower').change, 'slower');
    assert.equal(compare(from(2), from(1), 'lower').change, 'faster');
    assert.equal(compare(from(2), from(1), 'higher').change, 'slower');
  });

  test('names the direction alone where no direction is better', () => {
    assert.equal(compare(from(1), from(2), undefined).change, 'higher');
    assert.equal(compare(from(2), from(1), undefined).change, 'lower');
  });

  test('five rounds that overlap are within the spread', () => {
    const before = [0.5, 0.51, 0.52, 0.53, 0.55];
    assert.equal(
      compare(before, [0.54, 0.56, 0.57, 0.58, 0.59], 'higher').change,
      'within the spread',
    );
  });

  test('more rounds show a difference although some overlap', () => {
    const before = from(0.5, 12);
    assert.equal(compare(before, from(0.58, 12), 'higher').change, 'faster');
  });

  test('four rounds cannot show a difference', () => {
    const comparison = compare(from(1, 4), from(9, 4), 'higher');
    assert.equal(comparison.change, 'too few rounds');
    assert.equal(comparison.chance, 2 / 70);
  });

  test('a figure without a value has too few rounds', () => {
    assert.equal(compare([], from(1), 'higher').change, 'too few rounds');
  });

  test('values of single requests are no rounds', () => {
    const comparison = compare(from(1, 1000), from(9, 1000), 'lower');
    assert.equal(comparison.change, 'no rounds');
    assert.equal(comparison.chance, undefined);
  });
});
