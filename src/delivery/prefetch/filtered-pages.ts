import { spanAt } from '../../core/subscription.ts';
import type { LogPage } from '../../store/port/log.ts';
import { FairQueue, type Offer } from '../fair-queue.ts';
import type { Runner } from '../runner.ts';
import { type EventFilters, filteredPage } from './event-filters.ts';
import type { PageReader, PageReaderDeps } from './page-reader.ts';
import { SharedPages } from './shared-pages.ts';

/** Pages that are read and filtered at the same time. */
const pagesMax = 4;

export interface FilteredPagesDeps extends PageReaderDeps {
  readonly filters: Pick<EventFilters, 'select'>;
}

export interface FilteredPageReader extends PageReader {
  readonly shared: Pick<SharedPages, 'drop' | 'age'>;
}

/**
 * Creates the reader of pages for streams with a filter, from the tail or from the store. Tenants and
 * their streams take turns: filtering one page can take as long as sending its events.
 */
export function createFilteredPages(deps: FilteredPagesDeps): FilteredPageReader {
  return new FilteredPages(deps);
}

class FilteredPages implements FilteredPageReader {
  readonly shared: SharedPages;
  readonly #deps: FilteredPagesDeps;
  readonly #waiting = new FairQueue<Runner>();
  #underWay = 0;
  #isClosed = false;

  constructor(deps: FilteredPagesDeps) {
    this.#deps = deps;
    this.shared = new SharedPages(deps);
  }

  get reads(): number {
    return this.#underWay + this.#waiting.length;
  }

  request(runner: Runner): void {
    runner.reading = true;
    this.#waiting.push(runner.tenant, runner);
    this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting.clear();
  }

  #start(): void {
    while (!this.#isClosed && this.#underWay < pagesMax && this.#waiting.offerNext(this.#offer));
  }

  /** Never refuses: every call that finds a runner to read for makes progress. */
  readonly #offer = (runner: Runner): Offer => {
    // Its subscriptions may have changed since, or another node owns it.
    if (runner.state !== 'active') {
      runner.reading = false;
      return 'dropped';
    }
    void this.#serve(runner);
    return 'taken';
  };

  async #serve(runner: Runner): Promise<void> {
    this.#underWay += 1;
    await this.#read(runner);
    this.#underWay -= 1;
    this.#start();
  }

  async #read(runner: Runner): Promise<void> {
    const { changes, scannedTo } = runner;
    const span = spanAt(runner.stream.subscriptions, scannedTo + 1);
    const isCurrent = (): boolean => runner.changes === changes && runner.scannedTo === scannedTo;
    const page = await this.#page(runner, span);
    const filter = runner.filterOf(span.filter);
    const selecting = { eventsMax: Infinity, isOver: () => !isCurrent() };
    const selected = filter && (await this.#deps.filters.select({ ...selecting, filter }, page));
    if (this.#isClosed) return;
    runner.reading = false;
    this.#deps.read(runner, isCurrent() ? (selected ?? page) : undefined);
  }

  async #page(
    { tenant, tail, scannedTo: after }: Runner,
    { types, upTo }: ReturnType<typeof spanAt>,
  ): Promise<LogPage> {
    const { bytesMax } = filteredPage;
    if (tail.covers(after)) return tail.read(after, upTo, types, bytesMax);
    const take = Math.min(this.#deps.settings.pageEvents, filteredPage.take);
    return this.shared.page({ tenant, after, upTo, types, take, bytesMax });
  }
}
