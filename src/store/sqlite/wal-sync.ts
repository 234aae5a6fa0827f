import { close, fdatasync, open, realpathSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../core/clock.ts';
import { isFileError } from './refusal.ts';

/**
 * Syncs the write-ahead log to the disk after relaxed commits, on a thread of the pool: the thread
 * that serves requests never waits for it. A power cut then loses no settlement that is older than
 * the last sync.
 */
export interface WalSync {
  /** A relaxed commit ended; `settlements` are the attempts that it recorded. */
  committed(settlements: number): void;
  /** Waits for a sync that is running, then begins none again. */
  close(): Promise<void>;
}

export interface WalSyncDeps {
  readonly clock: Pick<Clock, 'after'>;
  /** Writes the log's data to the disk. */
  readonly sync: () => Promise<void>;
  /** Receives the error of a sync that failed; another is tried {@link everyMs} later. */
  readonly report: (error: unknown) => void;
}

/** A sync begins at the latest so long after the first commit that it covers… */
export const everyMs = 1000;
/** …or with the commit that brings the unsynced settlements to this number. */
export const settlementsMax = 1000;

export function createWalSync({ clock, sync, report }: WalSyncDeps): WalSync {
  let unsynced = 0;
  let timer: Timer | undefined;
  let running: Promise<void> | undefined;
  let closed = false;

  const begin = (): void => {
    timer?.cancel();
    timer = undefined;
    unsynced = 0;
    running = sync()
      .catch((error: unknown) => {
        report(error);
        if (!closed) timer ??= clock.after(everyMs, onTime);
      })
      .finally(() => {
        running = undefined;
        if (unsynced >= settlementsMax && !closed) begin();
      });
  };
  return {
    committed: (settlements) => {
      if (closed) return;
      unsynced += settlements;
      if (running === undefined && unsynced >= settlementsMax) begin();
      else timer ??= clock.after(everyMs, onTime);
    },
    close: async () => {
      closed = true;
      timer?.cancel();
      await running;
    },
  };

  function onTime(): void {
    timer = undefined;
    if (running === undefined) begin();
    // A sync that is running began before some of these commits: another one follows.
    else void running.then(() => (closed || running !== undefined ? undefined : begin()));
  }
}

const openFile = promisify(open);
const syncData = promisify(fdatasync);
const closeFile = promisify(close);

/** A WAL file that is open for syncing alone. */
export interface WalFile {
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The WAL beside a database file. Syncing any descriptor of a file syncs all of its data. SQLite
 * holds no lock on the WAL itself, so closing this descriptor ends none (POSIX record locks).
 */
export function walFileOf(database: string): WalFile {
  let opened: Promise<number> | undefined;
  return {
    sync: async () => {
      try {
        // SQLite names the WAL after the file that a symbolic link leads to.
        opened ??= openFile(`${realpathSync(database)}-wal`, 'r');
        await syncData(await opened);
      } catch (error) {
        await closeOpened();
        // On a file system where SQLite cannot use a WAL, every commit is synced.
        if (!isFileError(error, 'ENOENT')) throw error;
      }
    },
    close: closeOpened,
  };

  async function closeOpened(): Promise<void> {
    const descriptor = await opened?.catch(() => undefined);
    opened = undefined;
    if (descriptor !== undefined) await closeFile(descriptor);
  }
}
