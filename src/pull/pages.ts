import { eventFrame } from '../core/sse.ts';
import type { Offset } from '../core/types.ts';
import type { LogPage, LogStore } from '../store/port/log.ts';
import type { FilterGroup } from './reader.ts';
import type { PullSettings } from './settings.ts';
import { type Page, pageOf } from './page.ts';

/** No frame is shorter: the envelope alone has more bytes (core/envelope.ts). */
const frameBytesMin = 200;

export interface PagesDeps {
  readonly tenant: number;
  readonly log: Pick<LogStore, 'page' | 'firstSince'>;
  readonly settings: Pick<PullSettings, 'pageEvents' | 'pageBytes' | 'waitingBytesMax'>;
}

/** Reads pages of one tenant's log for readers that are behind. */
export class Pages {
  readonly #deps: PagesDeps;
  readonly #cache = new PageCache();

  constructor(deps: PagesDeps) {
    this.#deps = deps;
  }

  /** Returns the page after an offset; readers at the same offset share it. Throws `StoreUnavailable`. */
  page(group: FilterGroup, after: Offset): Promise<Page> {
    return this.#cache.page(group, after, () => this.#read(group, after));
  }

  /**
   * Returns how many bytes wait for a filter group after an offset, or a lower bound of at least
   * `waitingBytesMax`. The log has `head`. Throws `StoreUnavailable`.
   */
  async waiting({ types }: FilterGroup, after: Offset, head: Offset): Promise<number> {
    const { tenant, log, settings } = this.#deps;
    const { waitingBytesMax: bytesMax } = settings;
    const least = types === undefined ? (head - after) * frameBytesMin : 0;
    if (least >= bytesMax) return least;
    const { events } = await log.page(tenant, { after, types, take: bytesMax, bytesMax });
    return events.reduce((sum, event) => sum + eventFrame(event).length, 0);
  }

  /** Clears the cache. */
  clear(): void {
    this.#cache.clear();
  }

  async #read({ types }: FilterGroup, after: Offset): Promise<Page> {
    const { tenant, log, settings } = this.#deps;
    const { pageEvents: take, pageBytes: bytesMax } = settings;
    const read = await log.page(tenant, { after, types, take, bytesMax });
    return pageOf(read, await this.#isOvertaken(after, read));
  }

  /** Returns whether an event after `after` may have been pruned before the page was read. */
  async #isOvertaken(after: Offset, { events }: LogPage): Promise<boolean> {
    if (events[0]?.offset === after + 1) return false;
    return (await this.#deps.log.firstSince(this.#deps.tenant, 0)) > after + 1;
  }
}

/** Pages in the cache, each of about `pageBytes`: together as much as the tail of a log. */
const pagesMax = 32;

/**
 * Caches the pages that were used last. Readers often have the same offset: after a node has ended, all
 * that were at the end of its log reconnect to another node with the same last id. Their clients read at
 * different speeds, so a page must outlast those that the fastest of them read next.
 */
export class PageCache {
  /** By filter and offset; the one that was not used for longest is first. */
  readonly #pages = new Map<string, Promise<Page>>();

  /** Returns the page after an offset, from the cache or from `read`. */
  async page(
    { key: filter }: FilterGroup,
    after: Offset,
    read: () => Promise<Page>,
  ): Promise<Page> {
    const key = `${after} ${filter}`;
    const present = this.#pages.get(key);
    if (present !== undefined) {
      this.#pages.delete(key);
      this.#pages.set(key, present);
      return present;
    }
    const [oldest] = this.#pages.keys();
    if (this.#pages.size >= pagesMax && oldest !== undefined) this.#pages.delete(oldest);
    const reading = read();
    this.#pages.set(key, reading);
    const drop = (): void => {
      if (this.#pages.get(key) === reading) this.#pages.delete(key);
    };
    try {
      const page = await reading;
      // The next read may return more.
      if (page.scannedTo <= after) drop();
      return page;
    } catch (error) {
      drop();
      throw error;
    }
  }

  /** Removes all pages; reads in progress still return. */
  clear(): void {
    this.#pages.clear();
  }
}
