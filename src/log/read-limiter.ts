import type { Clock, Timer } from '../core/clock.ts';
import { Deque } from './deque.ts';

/** Reads from the store at the same time. */
const readsMax = 4;
/** How long reads are started before the event loop runs. */
const turnMs = 5;

/**
 * Limits reads of pages to few at a time, with pauses: an engine may be synchronous, and ten
 * thousand readers that are behind, or one whose events are rare, would block the process for
 * seconds.
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

  /** Reads that are under way or wait. */
  get reads(): number {
    return this.#underWay + this.#waiting.length;
  }

  /** Runs `read` when it is its turn. It must not reject. */
  enqueue(read: () => Promise<void>): void {
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
