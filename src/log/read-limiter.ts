import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from './deque.ts';

/** Pages read from the store at once, of all that take turns together. */
const readsMax = 4;
/** Reading goes on for so long before others of the process have their turn. */
const turnMs = 5;

/**
 * Few pages at once, and never for long without a pause: an engine may be synchronous, and ten
 * thousand that are behind, or one whose events are rare, would hold the process up for seconds.
 */
export class ReadLimiter {
  readonly #clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly #waiting = new Deque<() => Promise<void>>();
  #underWay = 0;
  #turn: { readonly startedMs: number; readonly end: Timer } | undefined;
  #isClosed = false;

  constructor(clock: Pick<Clock, 'elapsedMs' | 'after'>) {
    this.#clock = clock;
  }

  /** What is being read, or will be. */
  get reads(): number {
    return this.#underWay + this.#waiting.length;
  }

  /** Does `read` when it has its turn. It must not reject. */
  want(read: () => Promise<void>): void {
    this.#waiting.push(read);
    this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting.clear();
    this.#turn?.end.cancel();
  }

  #start(): void {
    while (this.#underWay < readsMax && this.#mayRead()) {
      const read = this.#waiting.shift();
      if (read !== undefined) void this.#read(read);
    }
  }

  #mayRead(): boolean {
    if (this.#isClosed || this.#waiting.length === 0) return false;
    const clock = this.#clock;
    this.#turn ??= { startedMs: clock.elapsedMs(), end: clock.after(0, () => this.#nextTurn()) };
    return clock.elapsedMs() - this.#turn.startedMs <= turnMs;
  }

  #nextTurn(): void {
    this.#turn = undefined;
    this.#start();
  }

  async #read(read: () => Promise<void>): Promise<void> {
    this.#underWay += 1;
    try {
      await read();
    } finally {
      this.#underWay -= 1;
    }
    this.#start();
  }
}
