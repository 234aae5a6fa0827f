import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import type { Clock, Timer } from '../../core/clock.ts';
import { StoreUnavailable } from '../../core/errors.ts';
import { applicationId } from './schema.ts';

/**
 * Notices that the file of an open database, or its write-ahead log, was deleted or replaced under the
 * process. SQLite goes on in the files that it has open, which nobody finds again after the process has
 * ended: whatever is acknowledged then is lost.
 */
export interface FileIdentity {
  /** Throws `StoreUnavailable` unless the files are those that were opened. Takes some microseconds. */
  check(): void;
  /** Does the same with the first bytes of the file, which another program may have overwritten. */
  checkHeader(): void;
  /** Call it after the connection was closed, once or again: closing a descriptor releases its locks (POSIX record locks). */
  close(): void;
}

export interface FileIdentityDeps {
  readonly clock: Pick<Clock, 'after'>;
  /** Receives the error once, when it begins. */
  readonly report: (error: unknown) => void;
}

const everyMs = 1000;

/** Call it for an open database with its write-ahead log: both count as the right ones. */
export function openFileIdentity(file: string, { clock, report }: FileIdentityDeps): FileIdentity {
  // SQLite names the WAL after the target of a symbolic link.
  const wal = `${realpathSync(file)}-wal`;
  const descriptor = openSync(file, 'r');
  const database = identityOf(file);
  // On a file system where SQLite cannot use a WAL there is none.
  const log = identityOf(wal);
  /** For good: a checkpoint may write the first page again, into a file that lacks others. */
  let isOverwritten = false;
  const check = (): void => {
    if (isOverwritten || identityOf(file) !== database) throw gone(file);
    if (log !== undefined && identityOf(wal) !== log) throw gone(wal);
  };
  const checkHeader = (): void => {
    check();
    isOverwritten = !hasHeader(descriptor);
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
    checkHeader,
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

/** Returns `undefined` for a missing file. While a process has a file open, no other gets its number. */
function identityOf(path: string): string | undefined {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat === undefined ? undefined : `${stat.dev} ${stat.ino}`;
  } catch {
    // Its folder is gone, or is one of another user now.
    return undefined;
  }
}

const magic = Buffer.from('SQLite format 3\0');
/** Offset of the application id in the header (sqlite.org/fileformat2.html#database_header). */
const applicationIdAt = 68;

function hasHeader(descriptor: number): boolean {
  const header = Buffer.alloc(applicationIdAt + 4);
  const isWhole = readSync(descriptor, header, 0, header.length, 0) === header.length;
  return (
    isWhole &&
    header.subarray(0, magic.length).equals(magic) &&
    header.readUInt32BE(applicationIdAt) === applicationId
  );
}

function gone(path: string): StoreUnavailable {
  return new StoreUnavailable(
    `${path} was deleted or replaced while this process uses it, so nothing is stored any more: run leat backup, which copies what this process still has open, then stop it and restore that copy`,
    { reason: 'gone' },
  );
}
