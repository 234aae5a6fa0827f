import { closeSync, fstatSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock, RandomBytes, Timer } from '../../../core/clock.ts';
import { StoreUnavailable } from '../../../core/errors.ts';
import { applicationId } from './schema.ts';

/**
 * Notices that the file of an open database, or its write-ahead log, was deleted or replaced under the
 * process, also by another store or a backup that was copied over it. SQLite goes on in the files that it has open, which nobody finds again after the process has
 * ended: whatever is acknowledged then is lost.
 */
export interface FileIdentity {
  /**
   * Throws `StoreUnavailable` unless the files are those that were opened. Takes some microseconds, and reads
   * the first bytes of the file when that was written.
   */
  check(): void;
  /**
   * Throws `StoreUnavailable` when something was written over the file. Call it after reads, as that may happen
   * while they run. They are right of a file that was deleted or moved away.
   */
  checkContent(): void;
  /** Does the same and reads the first bytes of the file in any case. */
  checkHeader(): void;
  /**
   * Call it within each transaction. Gives the file another mark when it was written since it got the last
   * one: so a copy of the file from before a checkpoint has a former one.
   */
  renew(connection: DatabaseSync): void;
  /** Call it after the connection was closed, once or again: closing a descriptor releases its locks (POSIX record locks). */
  close(): void;
}

export interface FileIdentityDeps {
  readonly clock: Pick<Clock, 'after'>;
  /** Receives the error once, when it begins. */
  readonly report: (error: unknown) => void;
}

const everyMs = 1000;

/**
 * Gives the file a mark that no other file and no former copy has, in the user version of its header. The
 * caller moves the write-ahead log into the file, and then calls {@link openFileIdentity}.
 */
export function markFile(connection: DatabaseSync, random: RandomBytes): void {
  writeMark(connection, Buffer.from(random(4)).readInt32BE());
}

function writeMark(connection: DatabaseSync, mark: number): void {
  connection.exec(`pragma user_version = ${mark}`);
}

/** Takes the mark from a copy of the file: who copies that over the open one is noticed. */
export async function unmarkCopy(copy: FileHandle): Promise<void> {
  await copy.write(Buffer.alloc(4), 0, 4, userVersionAt);
}

/** Call it for an open database with its write-ahead log: both count as the right ones. */
export function openFileIdentity(file: string, { clock, report }: FileIdentityDeps): FileIdentity {
  // SQLite names the WAL after the target of a symbolic link.
  const wal = `${realpathSync(file)}-wal`;
  const descriptor = openSync(file, 'r');
  const opened = stateOf(file);
  // On a file system where SQLite cannot use a WAL there is none.
  const log = stateOf(wal)?.identity;
  let last = headerOf(descriptor, file);
  let written = opened?.written;
  /** For good: a checkpoint may write the first page again, into a file that lacks others. */
  let isOverwritten = false;
  /** The next checkpoint brings another mark. */
  let isRenewed = false;
  const readHeader = (): void => {
    const header = headerOf(descriptor, file);
    isOverwritten ||= !isNext(header, last);
    last = header;
  };
  const checkWritten = (state: FileState): void => {
    if (state.written !== written) {
      readHeader();
      isRenewed = false;
    }
    written = state.written;
    if (isOverwritten) throw overwritten(file);
  };
  const check = (): void => {
    const state = stateOf(file);
    if (state === undefined || state.identity !== opened?.identity) throw gone(file);
    checkWritten(state);
    if (log !== undefined && stateOf(wal)?.identity !== log) throw gone(wal);
  };
  const checkHeader = (): void => {
    readHeader();
    check();
  };
  let isReported = false;
  let isClosed = false;
  let timer: Timer | undefined;
  const watch = (): void => {
    const error = errorOf(checkHeader);
    if (error !== undefined && !isReported) report(error);
    isReported = error !== undefined;
    timer = clock.after(everyMs, watch);
  };
  timer = clock.after(everyMs, watch);
  return {
    check,
    checkContent: () => checkWritten(openStateOf(descriptor, file)),
    checkHeader,
    renew: (connection) => {
      if (isRenewed) return;
      writeMark(connection, nextMark(last));
      isRenewed = true;
    },
    close: () => {
      timer?.cancel();
      if (isClosed) return;
      isClosed = true;
      closeSync(descriptor);
    },
  };
}

function errorOf(check: () => void): unknown {
  try {
    check();
    return undefined;
  } catch (error) {
    return error;
  }
}

interface FileState {
  /** Device and number: while a process has a file open, no other file gets them. */
  readonly identity: string;
  /** Changes whenever somebody writes to the file, this process with its checkpoints as well. */
  readonly written: string;
}

/** Returns `undefined` for a missing file. */
function stateOf(path: string): FileState | undefined {
  try {
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stat && stateIn(stat);
  } catch {
    // Its folder is gone, or is one of another user now.
    return undefined;
  }
}

function openStateOf(descriptor: number, file: string): FileState {
  try {
    return stateIn(fstatSync(descriptor, { bigint: true }));
  } catch (error) {
    throw unreadable(file, error);
  }
}

function stateIn({ dev, ino, mtimeNs, size }: BigIntStats): FileState {
  return { identity: `${dev} ${ino}`, written: `${mtimeNs} ${size}` };
}

const magic = Buffer.from('SQLite format 3\0');
/** Offsets in the header (sqlite.org/fileformat2.html#database_header). */
const userVersionAt = 60;
const applicationIdAt = 68;

function headerOf(descriptor: number, file: string): Buffer {
  const header = Buffer.alloc(applicationIdAt + 4);
  try {
    readSync(descriptor, header, 0, header.length, 0);
    return header;
  } catch (error) {
    throw unreadable(file, error);
  }
}

/**
 * Returns whether a header has the mark of the one before or the next one. The change counter of SQLite stays the
 * same while one connection has the file for itself.
 */
function isNext(header: Buffer, before: Buffer): boolean {
  const mark = markOf(header);
  return (
    header.subarray(0, magic.length).equals(magic) &&
    header.readUInt32BE(applicationIdAt) === applicationId &&
    (mark === markOf(before) || mark === nextMark(before))
  );
}

function markOf(header: Buffer): number {
  return header.readInt32BE(userVersionAt);
}

function nextMark(header: Buffer): number {
  return (markOf(header) + 1) | 0;
}

function unreadable(path: string, cause: unknown): StoreUnavailable {
  return new StoreUnavailable(`${path} cannot be read.`, { cause });
}

function overwritten(path: string): StoreUnavailable {
  return new StoreUnavailable(
    `${path} was overwritten while this process uses it, so nothing is stored any more: stop it, move ${path} and ${path}-wal away, and restore a backup`,
    { reason: 'gone' },
  );
}

function gone(path: string): StoreUnavailable {
  return new StoreUnavailable(
    `${path} was deleted or replaced while this process uses it, so nothing is stored any more: run leat backup, which copies what this process still has open, then stop it and restore that copy`,
    { reason: 'gone' },
  );
}
