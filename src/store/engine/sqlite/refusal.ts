import { existsSync, statSync } from 'node:fs';
import { StartRefused, StoreInUse, StoreUnavailable } from '../../../core/errors.ts';

/** Returns why the database file `name` cannot be used, as one line with the remedy. */
export function refusalOf(name: string, error: unknown): StartRefused {
  if (error instanceof StartRefused) return error;
  const cause = error instanceof StoreUnavailable ? error.cause : error;
  const line = `LEAT_STORE: ${name} ${reasonOf(name, cause)}`;
  const isInUse = (extendedCode(cause) & 0xff) === busy && !isFolder(name);
  return isInUse ? new StoreInUse(line, { cause }) : new StartRefused(line, { cause });
}

/** Returns whether the file system failed with one of these codes. */
export function isFileError(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

function reasonOf(name: string, error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (isFolder(name)) return 'is a folder, name a file in it';
  if (extendedCode(error) === lockRefused) return unlockable;
  if (isFileError(error, 'EEXIST', 'ENOTDIR')) return 'lies in something that is not a folder';
  if (isFileError(error, 'EACCES', 'EPERM', 'EROFS')) return readOnly;
  if (isFileError(error, 'ENOSPC', 'EDQUOT')) return full;
  const code = extendedCode(error) & 0xff;
  if (code === cannotOpen && !existsSync(name)) return 'does not exist';
  return reasons.get(code) ?? `cannot be opened: ${text}`;
}

/** SQLITE_IOERR_LOCK: a file that this user may only read takes no exclusive lock. */
const lockRefused = 3850;
const unlockable = 'cannot be locked, it can only be read or its file system has no locks';

const readOnly = 'cannot be written, this user needs write access to the file and its folder';
const full = 'cannot be written because the disk is full, make room and start again';

const cannotOpen = 14;

/** The reason for a file that SQLite does not recognise, after its name. */
export const noDatabase =
  'is not a database, or its first page is damaged: choose another file or restore it';

/** SQLITE_BUSY */
const busy = 5;

/** By primary result code (sqlite.org/rescode.html). */
const reasons: ReadonlyMap<number, string> = new Map([
  [busy, 'is in use by another process, stop that one or choose another file'],
  [8, readOnly],
  [10, 'cannot be read or written (disk I/O error), check the disk, its space and its quotas'],
  [11, 'is damaged, restore it from a backup'],
  [13, full],
  [cannotOpen, 'cannot be opened, this user needs write access to the file and its folder'],
  [26, noDatabase],
]);

/** Returns the result code of SQLite, the primary one in its lowest 8 bits; 0 for other errors. */
function extendedCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
}

function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch {
    return false;
  }
}
