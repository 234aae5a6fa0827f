import type { Clock } from '../../core/clock.ts';
import { RecentTexts } from './recent-texts.ts';

/** Receives an origin that was noted. */
export type UnaskedListener = (
  origin: string,
  /** `isNew`: it was not known. `isLearned`: another thread has found it. */
  facts: { readonly isNew: boolean; readonly isLearned: boolean },
) => void;

/**
 * The origins that have sent a response without a request in the last ten minutes. On a connection that
 * carries a second request, such a response would be taken for the one to that request. One list serves
 * all connections of a thread, and the listeners carry it to the other threads.
 */
export class UnaskedOrigins {
  readonly #origins: RecentTexts;
  readonly #listeners: UnaskedListener[] = [];

  constructor(clock: Pick<Clock, 'elapsedMs'>) {
    this.#origins = new RecentTexts(clock);
  }

  has(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** Returns all of them. */
  all(): readonly string[] {
    return this.#origins.all();
  }

  /** Notes an origin that has sent such a response; each time, so that all threads remember it as long. */
  note(origin: string, isLearned = false): void {
    const isNew = !this.has(origin);
    this.#origins.note(origin);
    for (const listener of this.#listeners) listener(origin, { isNew, isLearned });
  }

  listen(listener: UnaskedListener): void {
    this.#listeners.push(listener);
  }
}
