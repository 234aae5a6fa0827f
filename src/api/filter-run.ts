import { Fields } from '../core/filter-fields.ts';
import { type Filter, matching, type Position } from '../core/filter-program.ts';
import type { Json } from '../core/filter-values.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Call } from './operation.ts';

/** Work of one slice, some milliseconds, and of one request, some seconds. */
const workOfSlice = 200_000;
const workOfRequest = 200_000_000;

/** Filters events for one request, in slices between which other work has a turn. */
export class FilterRun {
  readonly #filter: Filter;
  readonly #isGone: Call['isGone'];
  readonly #slice = { left: workOfSlice };
  #left = workOfRequest;

  constructor(filter: Filter, isGone: Call['isGone']) {
    this.#filter = filter;
    this.#isGone = isGone;
  }

  /** Whether nothing more is to be filtered: enough work was done, or the client has gone. */
  get isOver(): boolean {
    return this.#left <= 0 || this.#isGone();
  }

  /** Parses the body of an event and returns whether it matches. */
  async matchesBody(body: string): Promise<boolean> {
    this.#slice.left -= body.length / 2;
    const fields = new Fields(JSON.parse(body) as Json);
    let at: Position = this.#filter.start;
    for (;;) {
      at = this.#filter.evaluate(fields, at, this.#slice);
      if (this.#slice.left <= 0) await this.#nextSlice();
      if (at < 0) return at === matching;
    }
  }

  async #nextSlice(): Promise<void> {
    this.#left -= workOfSlice - this.#slice.left;
    this.#slice.left = workOfSlice;
    await yieldToEventLoop();
  }
}
