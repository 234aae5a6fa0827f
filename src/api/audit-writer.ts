import type { AuditEntry } from '../core/audit-log.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Store } from '../store/port/store.ts';

/** Entries, and what has come to the counts of entries, that are not in the store yet. */
export type WaitingEntries = Map<string, Waiting>;

interface Waiting {
  readonly entry: AuditEntry;
  /** When the first one happened, by the monotonic clock. */
  readonly sinceMs: number;
  count: number;
}

export interface AuditWriterDeps {
  readonly store: { readonly auditLog: Pick<Store['auditLog'], 'add'> };
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly log: Pick<Log, 'error'>;
}

export interface AuditWriter {
  /** Begins to write in a moment, unless it is about to. */
  start(): void;
  /** Writes everything once; what the store does not take is lost. */
  close(): Promise<void>;
}

const flushMs = 1000;
/** From one write of the count of an entry to the next. */
const countMs = 5000;
/** Entries of one transaction: some milliseconds on SQLite. */
const batchMax = 50;

/** Writes what waits in batches, again and again until nothing does. */
export function createAuditWriter(
  deps: AuditWriterDeps,
  lists: readonly WaitingEntries[],
): AuditWriter {
  const { clock } = deps;
  let timer: Timer | undefined;
  let writing: Promise<void> = Promise.resolve();
  let isClosed = false;
  /** When those were written that may wait again. */
  const written = new Map<string, number>();

  const flush = async (): Promise<void> => {
    const nowMs = clock.elapsedMs();
    for (const [key, atMs] of written) if (nowMs - atMs >= countMs) written.delete(key);
    const isDue = (key: string): boolean => isClosed || !written.has(key);
    for (const list of lists) {
      for (let batch = take(list, isDue); batch.length > 0; batch = take(list, isDue)) {
        if (!(await write(deps, list, batch))) return;
        for (const [key] of batch) written.set(key, clock.elapsedMs());
        await yieldToEventLoop();
      }
    }
  };

  const start = (): void => {
    if (isClosed || timer !== undefined) return;
    timer = clock.after(flushMs, () => {
      writing = flush().finally(() => {
        timer = undefined;
        if (lists.some(({ size }) => size > 0)) start();
      });
    });
  };

  return {
    start,
    close: async () => {
      isClosed = true;
      timer?.cancel();
      await writing;
      await flush();
    },
  };
}

type Batch = readonly (readonly [key: string, waiting: Waiting])[];

/** Takes the first entries that are due off the list. */
function take(list: WaitingEntries, isDue: (key: string) => boolean): Batch {
  const batch: [string, Waiting][] = [];
  for (const each of list) {
    if (batch.length >= batchMax) break;
    if (isDue(each[0])) batch.push(each);
  }
  for (const [key] of batch) list.delete(key);
  return batch;
}

/** Returns false when the store does not respond; the batch waits again then. */
async function write(
  { store, clock, log }: AuditWriterDeps,
  list: WaitingEntries,
  batch: Batch,
): Promise<boolean> {
  const nowMs = clock.elapsedMs();
  const counts = batch.map(([, { entry, count, sinceMs }]) => ({
    entry,
    count,
    ageMs: Math.max(0, Math.round(nowMs - sinceMs)),
  }));
  try {
    await store.auditLog.add(counts);
    return true;
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) {
      log.error({ err: error, entries: batch.length }, 'entries of the audit log are lost');
      return true;
    }
    for (const [key, waiting] of batch) {
      const more = list.get(key)?.count ?? 0;
      list.set(key, { ...waiting, count: waiting.count + more });
    }
    return false;
  }
}
