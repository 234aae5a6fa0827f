/** Numbers for objects that are sent to a thread once and named by number from then on. */
export class References {
  readonly #max: number;
  /** Oldest first. */
  readonly #numbers = new Map<object, number>();
  #last = 0;

  /** @param max objects that have a number; the oldest one loses it when there are more */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Returns the number of an object; passes a new one to `added`, and the number that is free then to
   * `removed`.
   */
  of(
    value: object,
    added: (reference: number) => void,
    removed: (reference: number) => void,
  ): number {
    const known = this.#numbers.get(value);
    if (known !== undefined) return known;
    this.#last += 1;
    this.#numbers.set(value, this.#last);
    added(this.#last);
    const [oldest] = this.#numbers.size > this.#max ? this.#numbers : [];
    if (oldest !== undefined) {
      this.#numbers.delete(oldest[0]);
      removed(oldest[1]);
    }
    return this.#last;
  }
}
