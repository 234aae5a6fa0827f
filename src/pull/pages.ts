import { checkOf } from '../core/offset.ts';
import { eventFrame } from '../core/sse.ts';
import type { Offset } from '../core/types.ts';
import type { LogPage, LogStore } from '../store/port/log.ts';
import type { FilterGroup } from './reader.ts';
import type { PullSettings } from './settings.ts';
import { type Page, PageCache } from './page-cache.ts';

/** No event is shorter as it is written: its envelope alone has more (core/envelope.ts). */
const frameBytesMin = 200;

export interface PagesDeps {
  readonly tenant: number;
  readonly log: Pick<LogStore, 'page' | 'firstSince'>;
  readonly settings: Pick<PullSettings, 'pageEvents' | 'pageBytes' | 'waitingBytesMax'>;
}

/** The log of one tenant as it is read for readers that are behind. */
export class Pages {
  readonly #deps: PagesDeps;
  readonly #cache = new PageCache();

  constructor(deps: PagesDeps) {
    this.#deps = deps;
  }

  /** The page after an offset; readers at one place share it. Throws `StoreUnavailable`. */
  page(group: FilterGroup, after: Offset): Promise<Page> {
    return this.#cache.page(group, after, () => this.#read(group, after));
  }

  /**
   * Bytes for an audience after an offset: at least so many, counted as far as it matters. The log
   * is known to reach `head`. Throws `StoreUnavailable`.
   */
  async waiting({ types }: FilterGroup, after: Offset, head: Offset): Promise<number> {
    const { tenant, log, settings } = this.#deps;
    const { waitingBytesMax: bytesMax } = settings;
    const least = types === undefined ? (head - after) * frameBytesMin : 0;
    if (least >= bytesMax) return least;
    const { events } = await log.page(tenant, { after, types, take: bytesMax, bytesMax });
    return events.reduce((sum, event) => sum + eventFrame(event).length, 0);
  }

  /** Forgets pages that were read. */
  clear(): void {
    this.#cache.clear();
  }

  async #read({ types }: FilterGroup, after: Offset): Promise<Page> {
    const { tenant, log, settings } = this.#deps;
    const { pageEvents: take, pageBytes: bytesMax } = settings;
    const read = await log.page(tenant, { after, types, take, bytesMax });
    return pageOf(read, await this.#isOvertaken(after, read));
  }

  /** Whether an event after `after` may have been pruned before the page was read. */
  async #isOvertaken(after: Offset, { events }: LogPage): Promise<boolean> {
    if (events[0]?.offset === after + 1) return false;
    return (await this.#deps.log.firstSince(this.#deps.tenant, 0)) > after + 1;
  }
}

/** What was read, as it is written. */
export function pageOf({ events, scannedTo }: LogPage, isOvertaken = false): Page {
  const bytes = Buffer.from(events.map(eventFrame).join(''));
  const last = events.at(-1);
  const position = last && { offset: last.offset, check: checkOf(last.id) };
  return { bytes, last: position, scannedTo, isOvertaken };
}
