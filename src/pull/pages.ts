import { eventFrame } from '../core/sse.ts';
import type { Offset } from '../core/types.ts';
import type { LogPage, LogStore } from '../store/port/log.ts';
import type { FilterGroup } from './reader.ts';
import type { PullSettings } from './settings.ts';
import { type Page, pageOf } from './page.ts';
import { PageCache } from './page-cache.ts';

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
