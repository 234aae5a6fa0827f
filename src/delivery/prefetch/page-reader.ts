import type { Clock } from '../../core/clock.ts';
import { spanAt } from '../../core/subscription.ts';
import type { LogPage, LogStore } from '../../store/port/log.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';
import { ReadLimiter } from '../../log/read-limiter.ts';

/** Reads pages of the log for runners that are not at its head. */
export interface PageReader {
  /** Pages that are being read, or will be. */
  readonly reads: number;
  /** Reads the runner's next page. */
  request(runner: Runner): void;
  close(): void;
}

export interface PageReaderDeps {
  readonly log: Pick<LogStore, 'page'>;
  readonly clock: Clock;
  readonly storeRetry: StoreRetry;
  readonly settings: Pick<DeliverySettings, 'pageEvents'>;
  /** Returns how many characters of bodies the next page may have. */
  readonly pageBytes: (runner: Runner) => number;
  /** Receives the page; `undefined` when the runner or its subscriptions changed meanwhile. */
  readonly read: (runner: Runner, page: LogPage | undefined) => void;
}

/** Creates the reader; few pages are read at once, see {@link ReadLimiter}. */
export function createPageReader(deps: PageReaderDeps): PageReader {
  const limiter = new ReadLimiter(deps.clock);
  let isClosed = false;

  const read = async (runner: Runner): Promise<void> => {
    const { log, storeRetry, settings } = deps;
    const { tenant, changes, scannedTo } = runner;
    const { types, upTo } = spanAt(runner.stream.subscriptions, scannedTo + 1);
    const bytesMax = deps.pageBytes(runner);
    const query = { after: scannedTo, upTo, types, take: settings.pageEvents, bytesMax };
    const page = await storeRetry.run(() => log.page(tenant, query));
    runner.reading = false;
    const isCurrent = runner.changes === changes && runner.scannedTo === scannedTo;
    if (!isClosed) deps.read(runner, isCurrent ? page : undefined);
  };

  return {
    get reads() {
      return limiter.reads;
    },
    request: (runner) => {
      runner.reading = true;
      limiter.enqueue(async () => {
        // Its subscriptions may have changed since, or another node owns it.
        if (runner.state === 'active') await read(runner);
        else runner.reading = false;
      });
    },
    close: () => {
      isClosed = true;
      limiter.close();
    },
  };
}
