/** Counts by key; a key whose count is zero takes no memory. */
export class Counts<K> {
  readonly #counts = new Map<K, number>();
  #total = 0;

  /** The sum over all keys. */
  get total(): number {
    return this.#total;
  }

  /** Keys whose count is not zero. */
  get size(): number {
    return this.#counts.size;
  }

  /** Returns the count of a key. */
  of(key: K): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Adds to the count of a key; returns the new count. */
  add(key: K, change: number): number {
    const count = this.of(key) + change;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
    this.#total += change;
    return count;
  }
}
