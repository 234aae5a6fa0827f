import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runSync } from '../../src/core/slices.ts';
import { sorted, sortedAtOnce } from '../../src/core/sorting.ts';

interface Item {
  readonly value: number;
  readonly place: number;
}

const byValue = (one: Item, other: Item) => one.value - other.value;

/** Returns items whose values come again. */
function itemsOf(count: number): Item[] {
  return Array.from({ length: count }, (_, place) => ({ value: (place * 7919) % 1009, place }));
}

test('sorted: returns what toSorted returns, with equal items in their order', () => {
  const counts = [0, 1, 2, sortedAtOnce - 1, sortedAtOnce, sortedAtOnce + 1, 5 * sortedAtOnce + 3];
  for (const count of counts) {
    const items = itemsOf(count);
    assert.deepEqual(runSync(sorted(items, byValue)), items.toSorted(byValue), `${count} items`);
    const ascending = items.toSorted(byValue);
    assert.deepEqual(runSync(sorted(ascending, byValue)), ascending, `${count} items in order`);
  }
});

test('sorted: compares no more between two pauses than a slice of items takes', () => {
  let compared = 0;
  const steps = sorted(itemsOf(50_000), (one, other) => {
    compared += 1;
    return byValue(one, other);
  });
  const between: number[] = [];
  for (let isDone = false; !isDone;) {
    compared = 0;
    isDone = steps.next().done === true;
    between.push(compared);
  }
  assert.ok(Math.max(...between) <= sortedAtOnce * Math.log2(sortedAtOnce));
});
