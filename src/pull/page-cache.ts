import type { Position } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import type { FilterGroup } from './reader.ts';

/** A page of the log as it is written to every reader that wants the same from the same place. */
export interface Page {
  /** Its frames; empty when no event matched. */
  readonly bytes: Uint8Array;
  /** The last event in it; absent when there is none. */
  readonly last: Position | undefined;
  readonly scannedTo: Offset;
  /** Something after the place may have been pruned before the page was read. */
  readonly isOvertaken: boolean;
}

/** Pages on the shelf; each has about `pageBytes`. */
const pagesMax = 8;

/**
 * The pages that were read last. Readers often stand at one place: after a node has ended, all that
 * were at the end of the log come to another one with the same last id.
 */
export class PageCache {
  readonly #pages = new Map<FilterGroup, Map<Offset, Promise<Page>>>();
  #count = 0;

  /** The page after an offset, from the shelf or as `read` answers it. */
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
      // It may bring more the next time.
      if (page.scannedTo <= after) pages.delete(after);
      return page;
    } catch (error) {
      pages.delete(after);
      throw error;
    }
  }

  /** Takes everything off; pages that are being read are answered all the same. */
  clear(): void {
    this.#pages.clear();
    this.#count = 0;
  }
}
