import type { Offset } from '../core/types.ts';
import type { Page } from './page.ts';
import type { FilterGroup } from './reader.ts';

/** Pages in the cache; each has about `pageBytes`. */
const pagesMax = 8;

/**
 * Caches the newest pages. Readers often have the same offset: after a node has ended, all that were
 * at the end of its log reconnect to another node with the same last id.
 */
export class PageCache {
  readonly #pages = new Map<FilterGroup, Map<Offset, Promise<Page>>>();
  #count = 0;

  /** Returns the page after an offset, from the cache or from `read`. */
  async page(group: FilterGroup, after: Offset, read: () => Promise<Page>): Promise<Page> {
    const present = this.#pages.get(group)?.get(after);
    if (present !== undefined) return present;
    if (this.#count >= pagesMax) this.clear();
    const pages = this.#pages.get(group) ?? new Map<Offset, Promise<Page>>();
    this.#pages.set(group, pages);
    const reading = read();
    pages.set(after, reading);
    this.#count += 1;
    try {
      const page = await reading;
      // The next read may return more.
      if (page.scannedTo <= after) pages.delete(after);
      return page;
    } catch (error) {
      pages.delete(after);
      throw error;
    }
  }

  /** Removes all pages; reads in progress still return. */
  clear(): void {
    this.#pages.clear();
    this.#count = 0;
  }
}
