/**
 * A queue with constant time for adding at the end and removing at the front; `Array.shift` moves
 * every item. A class, as ten thousand runners have several each.
 */
export class Deque<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Returns the item at `index` from the front. */
  at(index: number): T | undefined {
    return index < 0 ? undefined : this.#items[this.#head + index];
  }

  last(): T | undefined {
    return this.length === 0 ? undefined : this.#items.at(-1);
  }

  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (this.#head === this.#items.length) return undefined;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    this.#compact();
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }

  /** Moves the items to the start of the array once half of it is unused. */
  #compact(): void {
    if (this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head >= 64 && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
  }
}
