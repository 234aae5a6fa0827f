/** Callers that wait for a condition. */
export class Waiters {
  #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];

  /** Resolves once the condition is met, at the latest at the next {@link check} after that. */
  until(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      if (isMet()) resolve();
      else this.#waiting.push({ isMet, resolve });
    });
  }

  /** Resolves for those whose condition is met by now. */
  check(): void {
    if (this.#waiting.length === 0) return;
    const met = this.#waiting.filter(({ isMet }) => isMet());
    this.#waiting = this.#waiting.filter((waiter) => !met.includes(waiter));
    for (const { resolve } of met) resolve();
  }
}
