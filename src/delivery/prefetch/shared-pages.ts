import type { LogPage, LogQuery, LogStore } from '../../store/port/log.ts';
import type { StoreRetry } from '../store-retry.ts';

/** Characters of the bodies in the pages that are kept. */
const keptCharacters = 4 * 1024 * 1024;

/** What a page counts at least, so that few are kept of a type that hardly occurs. */
const leastCharacters = 16 * 1024;

export interface SharedPagesDeps {
  readonly log: Pick<LogStore, 'page'>;
  readonly storeRetry: Pick<StoreRetry, 'run'>;
}

/** What to read of the log of a tenant. */
export interface SharedQuery extends LogQuery {
  readonly tenant: number;
  readonly types: readonly string[];
}

interface KeptPage extends LogPage, Pick<SharedQuery, 'tenant' | 'after' | 'types'> {
  readonly characters: number;
  isOld: boolean;
}

interface Reading {
  readonly query: SharedQuery;
  readonly done: Promise<unknown>;
  /** Whether its page is not to be kept. */
  isDropped: boolean;
}

/**
 * Pages of the log for streams that read the same events at about the same time: the first one reads
 * a page from the store, and the others take it from memory, where they also find its events parsed.
 * A stream that begins within a page goes on at its end, so that streams of the same types come to
 * read the same pages wherever they began.
 */
export class SharedPages {
  readonly #deps: SharedPagesDeps;
  /** The page that was used last is the last one. */
  readonly #kept = new Set<KeptPage>();
  #characters = 0;
  readonly #readings = new Set<Reading>();

  constructor(deps: SharedPagesDeps) {
    this.#deps = deps;
  }

  /** What the pages count that are kept. */
  get characters(): number {
    return this.#characters;
  }

  /** Returns a page of events after `after`: the answer of the store, or a part of what it would be. */
  async page(query: SharedQuery): Promise<LogPage> {
    for (;;) {
      const kept = this.#find(query);
      if (kept !== undefined) return partOf(kept, query);
      const reading = [...this.#readings].find((one) => isSame(one.query, query));
      // A page without progress, or one that was dropped, is no answer: the log may have grown.
      if (reading === undefined) return this.#read(query);
      await reading.done;
    }
  }

  /**
   * Drops the pages of a tenant: one of its streams may be about to read events that were not kept
   * for it, and were pruned after these pages were read.
   */
  drop(tenant: number): void {
    for (const page of this.#kept) if (page.tenant === tenant) this.#remove(page);
    for (const reading of this.#readings) {
      if (reading.query.tenant === tenant) reading.isDropped = true;
    }
  }

  /** Drops the pages that were here at the last call, so that none takes memory for long. */
  age(): void {
    for (const page of this.#kept) {
      if (page.isOld) this.#remove(page);
      page.isOld = true;
    }
  }

  #find({ tenant, after, types }: SharedQuery): KeptPage | undefined {
    for (const page of this.#kept) {
      const isWithin = page.tenant === tenant && page.after <= after && after < page.scannedTo;
      if (!isWithin || !areSame(page.types, types)) continue;
      this.#kept.delete(page);
      this.#kept.add(page);
      return page;
    }
    return undefined;
  }

  async #read(query: SharedQuery): Promise<LogPage> {
    const { tenant, ...asked } = query;
    const { log, storeRetry } = this.#deps;
    const read = storeRetry.run(() => log.page(tenant, asked));
    const reading: Reading = { query, done: read, isDropped: false };
    this.#readings.add(reading);
    try {
      const page = await read;
      if (!reading.isDropped && page.scannedTo > query.after) this.#keep(query, page);
      return page;
    } finally {
      this.#readings.delete(reading);
    }
  }

  #keep({ tenant, after, types }: SharedQuery, { events, scannedTo }: LogPage): void {
    const bodies = events.reduce((sum, { body }) => sum + body.length, 0);
    const characters = Math.max(leastCharacters, bodies);
    this.#kept.add({ tenant, after, types, events, scannedTo, characters, isOld: false });
    this.#characters += characters;
    for (const page of this.#kept) {
      if (this.#characters <= keptCharacters) break;
      this.#remove(page);
    }
  }

  #remove(page: KeptPage): void {
    if (this.#kept.delete(page)) this.#characters -= page.characters;
  }
}

/** Returns what a query asks for of a page that begins before it, or ends after it. */
function partOf(page: KeptPage, { after, upTo = Infinity }: SharedQuery): LogPage {
  if (page.after === after && page.scannedTo <= upTo) return page;
  return {
    events: page.events.filter(({ offset }) => offset > after && offset <= upTo),
    scannedTo: Math.min(page.scannedTo, upTo),
  };
}

function isSame(one: SharedQuery, other: SharedQuery): boolean {
  return (
    one.tenant === other.tenant && one.after === other.after && areSame(one.types, other.types)
  );
}

function areSame(types: readonly string[], others: readonly string[]): boolean {
  return (
    types === others ||
    (types.length === others.length && types.every((type, index) => type === others[index]))
  );
}
