import type { Clock, Timer } from '../../core/clock.ts';
import { Fields } from '../../core/filter-fields.ts';
import { type Filter, matching, type Position } from '../../core/filter-program.ts';
import type { Json, Work } from '../../core/filter-values.ts';
import type { LogEvent } from '../../core/types.ts';
import type { LogPage } from '../../store/port/log.ts';

/** Units of work in one turn of the event loop: some milliseconds. */
const workOfTurn = 200_000;

/** Characters of the bodies of parsed events that are kept; at least one event is. */
const keptCharacters = 2 * 1024 * 1024;

/**
 * Evaluates filters, in few milliseconds of each turn of the event loop: a tenant can have a thousand
 * filters that take some 50 ms each for one event.
 */
export class EventFilters {
  readonly #parsed = new ParsedEvents();
  readonly #atHead: TurnWork;
  readonly #ofPages: TurnWork;

  constructor(clock: Pick<Clock, 'after'>) {
    this.#atHead = new TurnWork(clock);
    this.#ofPages = new TurnWork(clock);
  }

  /**
   * Returns whether an event at the head of the log matches; `undefined` when the work of this turn
   * is used up.
   */
  test(filter: Filter, event: LogEvent): boolean | undefined {
    const work = this.#atHead;
    if (!work.begin()) return undefined;
    const at = filter.evaluate(this.#parsed.of(event, work), filter.start, work);
    return at < 0 ? at === matching : undefined;
  }

  /** Returns the events of a page that match, up to where it stopped. */
  async select(
    { filter, eventsMax, isOver }: Selecting,
    { events, scannedTo }: LogPage,
  ): Promise<LogPage> {
    const work = this.#ofPages;
    const selected: LogEvent[] = [];
    let turns = 0;
    for (const event of events) {
      if (turns > turnsOfPage || selected.length >= eventsMax || isOver()) {
        return { events: selected, scannedTo: event.offset - 1 };
      }
      let at: Position = filter.start;
      while (at >= 0) {
        if (!work.begin()) {
          turns += 1;
          await work.nextTurn();
        }
        at = filter.evaluate(this.#parsed.of(event, work), at, work);
      }
      if (at === matching) selected.push(event);
    }
    return { events: selected, scannedTo };
  }

  close(): void {
    this.#atHead.close();
    this.#ofPages.close();
  }
}

/** How a page is filtered. */
export interface Selecting {
  readonly filter: Filter;
  /** Maximum events to return. */
  readonly eventsMax: number;
  /** Returns whether the result is not wanted any more. */
  isOver(): boolean;
}

/** The page that is read to be filtered: small, as streams filter different pages meanwhile. */
export const filteredPage = { take: 256, bytesMax: 256 * 1024 } as const;

/** Turns of the event loop after which a stream lets others have theirs. */
const turnsOfPage = 8;

/** The work that is left in this turn of the event loop. */
class TurnWork implements Work {
  left = workOfTurn;
  readonly #clock: Pick<Clock, 'after'>;
  #renewal: Timer | undefined;
  #waiting: (() => void)[] = [];

  constructor(clock: Pick<Clock, 'after'>) {
    this.#clock = clock;
  }

  /** Returns whether work is left. */
  begin(): boolean {
    this.#renewal ??= this.#clock.after(0, () => this.#renew());
    return this.left > 0;
  }

  /** Resolves in the next turn; never after {@link close}. */
  nextTurn(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  close(): void {
    this.#renewal?.cancel();
  }

  #renew(): void {
    this.#renewal = undefined;
    this.left = workOfTurn;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** Parsed events: each is parsed once for all streams that read it at about the same time. */
class ParsedEvents {
  /** Oldest first. */
  readonly #kept = new Map<LogEvent, Fields>();
  #characters = 0;
  #last: { readonly event: LogEvent; readonly fields: Fields } | undefined;

  of(event: LogEvent, work: Work): Fields {
    if (this.#last?.event === event) return this.#last.fields;
    const fields = this.#kept.get(event) ?? this.#parse(event, work);
    this.#last = { event, fields };
    return fields;
  }

  #parse(event: LogEvent, work: Work): Fields {
    const { body } = event;
    // Up to 30 ns a character, for many names or levels.
    work.left -= body.length;
    const fields = new Fields(JSON.parse(body) as Json);
    this.#kept.set(event, fields);
    this.#characters += body.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#characters <= keptCharacters || oldest === event) break;
      this.#kept.delete(oldest);
      this.#characters -= oldest.body.length;
    }
    return fields;
  }
}
