import type { Offset } from '../core/types.ts';
import type { Page } from './page.ts';
import type { FilterGroup } from './reader.ts';

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
