import type { LogEvent, Offset } from '../../core/types.ts';
import type { LogStore } from '../../store/port/log.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';
import type { Tail } from '../../log/tail.ts';

/** Pages read in a row; of a log that grows faster, each runner reads its own pages. */
const pagesMax = 4;

/** Reads the events that other processes appended, once for all runners at the head of a log. */
export interface CatchUp {
  /** Tails that are being caught up. */
  readonly reads: number;
  /** Reads on up to `head`, the present end of the log. */
  reached(tenant: number, tail: Tail<Runner>, head: Offset): void;
  close(): void;
}

export interface CatchUpDeps {
  readonly log: Pick<LogStore, 'page'>;
  readonly storeRetry: StoreRetry;
  readonly settings: Pick<DeliverySettings, 'pageEvents' | 'pageBytes'>;
  /** Receives the events that follow the head of the tail. */
  readonly push: (tail: Tail<Runner>, events: readonly LogEvent[]) => void;
  /** Called when events up to `head` are not read here. */
  readonly skip: (tail: Tail<Runner>, head: Offset) => void;
  /** Called after each read. */
  readonly done: () => void;
}

/** See {@link CatchUp}. */
export function createCatchUp(deps: CatchUpDeps): CatchUp {
  /** Tails that are being read, with the known heads of their logs. */
  const heads = new Map<Tail<Runner>, Offset>();
  let closed = false;

  const readPage = async (tenant: number, tail: Tail<Runner>): Promise<void> => {
    const { log, storeRetry, settings } = deps;
    const { pageEvents: take, pageBytes: bytesMax } = settings;
    const query = { after: tail.head, upTo: heads.get(tail), take, bytesMax };
    const page = await storeRetry.run(() => log.page(tenant, query));
    if (closed) return;
    deps.push(tail, page.events);
    // The oldest may have been pruned.
    if (page.scannedTo > tail.head) deps.skip(tail, page.scannedTo);
  };
  const isBehind = (tail: Tail<Runner>): boolean => !closed && tail.head < (heads.get(tail) ?? 0);
  const read = async (tenant: number, tail: Tail<Runner>): Promise<void> => {
    for (let pages = 0; pages < pagesMax && isBehind(tail) && tail.hasFollowers; pages += 1) {
      await readPage(tenant, tail);
    }
    if (isBehind(tail)) deps.skip(tail, heads.get(tail) ?? 0);
    heads.delete(tail);
    if (!closed) deps.done();
  };

  return {
    get reads() {
      return heads.size;
    },
    reached: (tenant, tail, head) => {
      const known = heads.get(tail);
      if (closed || head <= Math.max(tail.head, known ?? 0)) return;
      if (known === undefined && !tail.hasFollowers) return deps.skip(tail, head);
      heads.set(tail, head);
      if (known === undefined) void read(tenant, tail);
    },
    close: () => {
      closed = true;
    },
  };
}
