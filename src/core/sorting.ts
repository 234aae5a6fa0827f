import type { Slices } from './slices.ts';

/** Items of one slice: to sort so many by their names takes one or two milliseconds. */
export const sortedAtOnce = 2048;

/** Returns the items in the order that `toSorted` returns, and pauses after each slice. */
export function* sorted<T>(
  items: readonly T[],
  compare: (one: T, other: T) => number,
): Slices<T[]> {
  let lists: T[][] = [];
  for (let from = 0; from < items.length; from += sortedAtOnce) {
    lists.push(items.slice(from, from + sortedAtOnce).toSorted(compare));
    yield;
  }
  while (lists.length > 1) {
    const merged: T[][] = [];
    for (let index = 0; index < lists.length; index += 2) {
      const [one = [], other = []] = lists.slice(index, index + 2);
      merged.push(yield* merge(one, other, compare));
    }
    lists = merged;
  }
  return lists[0] ?? [];
}

/** Merges two sorted lists; equal items of the first one come first. */
function* merge<T>(
  one: readonly T[],
  other: readonly T[],
  compare: (one: T, other: T) => number,
): Slices<T[]> {
  const merged: T[] = [];
  let [left, right] = [0, 0];
  while (left < one.length && right < other.length) {
    const [first, second] = [one[left] as T, other[right] as T];
    const isFirst = compare(first, second) <= 0;
    merged.push(isFirst ? first : second);
    if (isFirst) left += 1;
    else right += 1;
    if (merged.length % sortedAtOnce === 0) yield;
  }
  return [...merged, ...one.slice(left), ...other.slice(right)];
}
