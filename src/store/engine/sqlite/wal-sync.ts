import { close, fdatasync, openSync, realpathSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../../core/clock.ts';
import { StoreUnavailable } from '../../../core/errors.ts';
import { isFileError } from './refusal.ts';

/**
 * Syncs the write-ahead log to the disk after relaxed commits, on a thread of the pool: the thread
 * that serves requests never waits for it. A caller that needs a sync waits with {@link
 * whenSynced}; the rest is synced within a second.
 */
export interface WalSync {
  /** Whether the last sync failed, and its commits have not reached the disk in another way yet. */
  readonly hasFailed: boolean;
  /** Records a relaxed commit; `settlements` are the attempts that it recorded. */
  committed(settlements: number): void;
  /**
   * Calls `done` once everything committed so far is on the disk, or with `StoreUnavailable` when a
   * sync failed; within this call when nothing is unsynced.
   */
  whenSynced(done: SyncDone): void;
  /**
   * Calls `done` once the commits of a failed sync are on the disk after all. Call it from the
   * `done` that received the failure.
   */
  whenRepaired(done: () => void): void;
  /**
   * Repairs a failed sync before a durable commit begins, or throws. Everything before such a
   * commit in the WAL must be on the disk, or a power cut takes both.
   */
  repair(): void;
  /** Records a durable commit: everything before it is on the disk as well. */
  covered(): void;
  /** Fails the waiting callers, waits for a running sync, and starts none again. */
  close(): Promise<void>;
}

export type SyncDone = (error?: StoreUnavailable) => void;

export interface WalSyncDeps {
  readonly clock: Pick<Clock, 'after'>;
  /** Writes the log's data to the disk. */
  readonly sync: () => Promise<void>;
  /**
   * Brings commits to the disk in another way. After a failed sync the operating system may treat
   * pages as written that are not (fsync(2)), so another sync proves nothing.
   */
  readonly repair: () => void;
  /** Receives the error of a failed sync; another is tried {@link everyMs} later. */
  readonly report: (error: unknown) => void;
}

/** Maximum time from a commit to the start of the sync that covers it… */
export const everyMs = 1000;
/** …unless the unsynced settlements reach this number earlier. */
export const settlementsMax = 1000;

/** See {@link WalSync}. One sync at a time. */
export function createWalSync(deps: WalSyncDeps): WalSync {
  return new GatheredSync(deps);
}

class GatheredSync implements WalSync {
  readonly #deps: WalSyncDeps;
  /** Something was committed since the last sync began; at first perhaps by the former process. */
  #isUnsynced = true;
  #settlements = 0;
  /** Covered by the running sync, and by the next one. */
  #present: SyncDone[] = [];
  #waiting: SyncDone[] = [];
  /** Received a failure, and wait for the repair. */
  #unproven: (() => void)[] = [];
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  /** Another sync is to begin when the running one has ended. */
  #isDue = false;
  #hasFailed = false;
  #isClosed = false;

  constructor(deps: WalSyncDeps) {
    this.#deps = deps;
  }

  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  committed(settlements: number): void {
    if (this.#isClosed) return;
    this.#isUnsynced = true;
    this.#settlements += settlements;
    if (this.#settlements >= settlementsMax) this.#begin();
    else this.#plan();
  }

  whenSynced(done: SyncDone): void {
    if (this.#isClosed) done(closed);
    else if (this.#isUnsynced) {
      this.#waiting.push(done);
      this.#begin();
    } else if (this.#running !== undefined) {
      this.#present.push(done);
    } else done();
  }

  whenRepaired(done: () => void): void {
    // Once it is closed nobody is notified.
    if (!this.#isClosed) this.#unproven.push(done);
  }

  repair(): void {
    if (!this.#hasFailed) return;
    this.#deps.repair();
    this.covered();
  }

  covered(): void {
    this.#hasFailed = false;
    this.#isUnsynced = false;
    this.#settlements = 0;
    for (const done of [...this.#unproven.splice(0), ...this.#take()]) done();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#unproven = [];
    for (const done of this.#take()) done(closed);
    await this.#running;
  }

  /** Returns all waiting callers, in the order of the commits. */
  #take(): SyncDone[] {
    return [...this.#present.splice(0), ...this.#waiting.splice(0)];
  }

  #plan(): void {
    this.#timer ??= this.#deps.clock.after(everyMs, () => {
      this.#timer = undefined;
      this.#begin();
    });
  }

  #begin(): void {
    // A commit during a sync is covered by another one.
    this.#isDue = true;
    if (this.#running !== undefined || this.#isClosed) return;
    this.#isDue = false;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#isUnsynced = false;
    this.#settlements = 0;
    this.#present = this.#waiting;
    this.#waiting = [];
    this.#running = this.#sync().then((error) => this.#end(error));
  }

  /** Resolves to the error of a failed sync. */
  async #sync(): Promise<unknown> {
    const { sync, repair } = this.#deps;
    try {
      if (this.#hasFailed) repair();
      else await sync();
      return undefined;
    } catch (error) {
      return error;
    }
  }

  /**
   * A caller that reads {@link hasFailed} sees it change in the turn in which the waiting callers
   * are notified.
   */
  #end(error: unknown): void {
    this.#running = undefined;
    if (error === undefined) {
      this.#hasFailed = false;
      for (const done of [...this.#unproven.splice(0), ...this.#present.splice(0)]) done();
    } else {
      this.#hasFailed = true;
      this.#isUnsynced = true;
      this.#deps.report(error);
      const refusal = refusalOf(error);
      for (const done of this.#present.splice(0)) done(refusal);
    }
    if (this.#isDue) this.#begin();
    else if (this.#isUnsynced && !this.#isClosed) this.#plan();
  }
}

const closed = new StoreUnavailable('The store is closed.');

function refusalOf(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const reason = isFileError(error, 'ENOSPC', 'EDQUOT') ? 'full' : 'away';
  return new StoreUnavailable('The disk did not take what was written.', { cause: error, reason });
}

const syncData = promisify(fdatasync);
const closeFile = promisify(close);

/** A WAL file that is open only for syncing. */
export interface WalFile {
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens the WAL of a database file. Syncing any descriptor of a file syncs all of its data. SQLite
 * holds no lock on the WAL itself, so closing this descriptor releases none (POSIX record locks).
 *
 * One descriptor from now until the end: the system reports a failed write once to each descriptor
 * that was open then (fsync(2)), and a new one may not receive an error that was reported to
 * SQLite's own.
 */
export function walFileOf(database: string): WalFile {
  const open = (): number | undefined => {
    try {
      // SQLite names the WAL after the target of a symbolic link.
      return openSync(`${realpathSync(database)}-wal`, 'r');
    } catch (error) {
      // On a file system where SQLite cannot use a WAL, every commit is synced.
      if (isFileError(error, 'ENOENT')) return undefined;
      throw error;
    }
  };
  let opened = open();
  return {
    sync: async () => {
      opened ??= open();
      if (opened !== undefined) await syncData(opened);
    },
    close: async () => {
      const descriptor = opened;
      opened = undefined;
      if (descriptor !== undefined) await closeFile(descriptor);
    },
  };
}
