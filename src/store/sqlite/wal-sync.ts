import { close, fdatasync, openSync, realpathSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Clock, Timer } from '../../core/clock.ts';
import { StoreUnavailable } from '../../core/errors.ts';
import { isFileError } from './refusal.ts';

/**
 * Syncs the write-ahead log to the disk after relaxed commits, on a thread of the pool: the thread
 * that serves requests never waits for it. Who must know waits for a sync with {@link whenSynced};
 * the rest is synced within a second.
 */
export interface WalSync {
  /** The last sync failed, and what it was to cover is not on the disk by any other way yet. */
  readonly hasFailed: boolean;
  /** A relaxed commit ended; `settlements` are the attempts that it recorded. */
  committed(settlements: number): void;
  /**
   * Calls `done` once everything committed so far is on the disk, or with `StoreUnavailable` when a sync
   * failed; within this call when nothing is unsynced.
   */
  whenSynced(done: SyncDone): void;
  /**
   * Calls `done` once what a failed sync was to cover is on the disk after all. Call it from the `done`
   * that heard of the failure.
   */
  whenRepaired(done: () => void): void;
  /**
   * A durable commit is to begin: makes up for a sync that failed, or throws. What such a commit follows
   * in the WAL must be on the disk, or a power cut takes both.
   */
  repair(): void;
  /** A durable commit ended: everything before it is on the disk as well. */
  covered(): void;
  /** Fails whoever waits, waits for a sync that is running, and begins none again. */
  close(): Promise<void>;
}

export type SyncDone = (error?: StoreUnavailable) => void;

export interface WalSyncDeps {
  readonly clock: Pick<Clock, 'after'>;
  /** Writes the log's data to the disk. */
  readonly sync: () => Promise<void>;
  /**
   * Brings what was committed to the disk by another way. After a sync that failed the operating system
   * may take pages for written that are not (fsync(2)), so another sync proves nothing.
   */
  readonly repair: () => void;
  /** Receives the error of a sync that failed; another is tried {@link everyMs} later. */
  readonly report: (error: unknown) => void;
}

/** A sync begins at the latest so long after the first commit that it covers… */
export const everyMs = 1000;
/** …or with the commit that brings the unsynced settlements to this number. */
export const settlementsMax = 1000;

/** See {@link WalSync}. One sync at a time. */
export function createWalSync(deps: WalSyncDeps): WalSync {
  return new GatheredSync(deps);
}

class GatheredSync implements WalSync {
  readonly #deps: WalSyncDeps;
  /** Something was committed since the last sync began; at first perhaps by the process before. */
  #isUnsynced = true;
  #settlements = 0;
  /** Covered by the sync that is running, and by the next one. */
  #present: SyncDone[] = [];
  #waiting: SyncDone[] = [];
  /** Heard of a failure, and wait for what makes up for it. */
  #unproven: (() => void)[] = [];
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  /** Another one is to begin when it has ended. */
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
    // Once it is closed nobody is told of anything.
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

  /** Everybody who waits, in the order of the commits. */
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
    // What was committed while a sync runs is covered by another one.
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

  /** Resolves to the error of a sync that failed. */
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

  /** Whoever asks {@link hasFailed} sees it change in the turn in which those who wait are told. */
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

/** A WAL file that is open for syncing alone. */
export interface WalFile {
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * The WAL beside a database file. Syncing any descriptor of a file syncs all of its data. SQLite
 * holds no lock on the WAL itself, so closing this descriptor ends none (POSIX record locks).
 *
 * One descriptor from now until the end: the system reports a write that failed once to each that was
 * open then (fsync(2)), and a new one may not hear of what SQLite's own was told.
 */
export function walFileOf(database: string): WalFile {
  const open = (): number | undefined => {
    try {
      // SQLite names the WAL after the file that a symbolic link leads to.
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
