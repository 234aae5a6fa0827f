/** Options of an `LRUCache` that holds so many entries. */
export interface EntriesMax {
  readonly maxSize: number;
  readonly sizeCalculation: () => number;
}

/**
 * Returns options that bound the entries of an `LRUCache`. Its own `max` does the same, and allocates and
 * fills memory for all of them at once.
 */
export function entriesAtMost(maxSize: number): EntriesMax {
  return { maxSize, sizeCalculation: () => 1 };
}
