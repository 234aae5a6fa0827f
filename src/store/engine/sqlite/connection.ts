import { closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StartRefused } from '../../../core/errors.ts';
import { isFileError, noDatabase, refusalOf } from './refusal.ts';

/** The location of the database, as `LEAT_STORE` has it after `sqlite:`. */
export interface SqliteLocation {
  /** A path, `:memory:`, or a `file:` URI without parameters. */
  readonly path: string;
  /** The file of the location; `undefined` in memory. */
  readonly file: string | undefined;
}

/**
 * Opens the database exclusively for this process, creates missing folders (mode 0700) and a
 * missing file (0600), and applies {@link tuning}.
 *
 * Throws `StartRefused` with one line for the operator when another process has the file, when it
 * cannot be opened for writing, is damaged, or belongs to another program. Nothing has been changed
 * then.
 */
export function openConnection(location: SqliteLocation): DatabaseSync {
  const { file, path } = location;
  const name = file ?? path;
  if (file !== undefined) {
    createFile(file);
    refuseFragment(file);
  }
  const connection = opened(name, path);
  try {
    connection.exec(`pragma locking_mode = exclusive; pragma busy_timeout = ${lockWaitMs}`);
    refuseStrangers(connection, name);
    // On a file with pages it would only write the first one again.
    if (isEmpty(connection)) connection.exec(emptyTuning);
    connection.exec(tuning);
    return connection;
  } catch (error) {
    connection.close();
    throw refusalOf(name, error);
  }
}

/** Another process may be about to end, or use the file briefly: a copy, a `leat keys list`. */
const lockWaitMs = 1000;

/**
 * - `auto_vacuum = incremental`: free space can go back to the file system in small steps, see
 *   upkeep.ts. It takes effect on a new file only, before its first page is written.
 * - `wal`: a commit is one sequential write and one fsync. The journal of an in-memory database
 *   stays as it is.
 * - `synchronous = full`: what is acknowledged survives a power cut. `Database.transact` lowers it
 *   for what can be derived again, or is synced in another way before it is acknowledged.
 * - `wal_autocheckpoint = 1000` pages, the default: the commit that reaches them moves them into the
 *   file and holds everybody up for 6 ms; with 4096 pages it is 18 ms, at the same throughput. Large
 *   appends and large changes of users make smaller ones.
 * - `journal_size_limit`: a WAL that one large transaction blew up is cut back afterwards.
 * - `page_size = 4096`, the default: with 8192 arrays of 100 events are 5 % faster and single ones
 *   8 % slower, for a small commit writes four or five whole pages to the WAL.
 * - `cache_size`: 16 MiB hold the inner pages of every index of a log of millions.
 * - `temp_store = memory`: a sort does not fail because /tmp is full or read-only.
 * - `mmap_size = 0`, the default: a disk error in a mapped file is SIGBUS, the end of the process,
 *   where a read returns an error.
 * - `cell_size_check`, `trusted_schema = off`: a damaged or doctored file is noticed, not followed.
 */
const emptyTuning = 'pragma page_size = 4096; pragma auto_vacuum = incremental';
const tuning = `
  pragma journal_mode = wal;
  pragma synchronous = full;
  pragma wal_autocheckpoint = 1000;
  pragma journal_size_limit = 16777216;
  pragma cache_size = -16384;
  pragma temp_store = memory;
  pragma mmap_size = 0;
  pragma cell_size_check = on;
  pragma trusted_schema = off`;

/**
 * The file is created here because SQLite would create it with the mode of the umask; its WAL takes
 * the mode of the file. `wx` never opens an existing file: closing a descriptor of it would release
 * the lock that this process holds on it (POSIX record locks).
 */
function createFile(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    closeSync(openSync(file, 'wx', 0o600));
  } catch (error) {
    if (!isFileError(error, 'EEXIST') || !isThere(file)) throw refusalOf(file, error);
  }
}

/** Returns false as well when a folder of the path is a file. */
function isThere(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** SQLite takes a file smaller than its smallest page for an empty one, and would overwrite it. */
function refuseFragment(file: string): void {
  if (!isThere(file)) return;
  const stat = statSync(file);
  if (stat.isFile() && stat.size > 0 && stat.size < 512) {
    throw new StartRefused(`LEAT_STORE: ${file} ${noDatabase}`);
  }
}

function opened(name: string, path: string): DatabaseSync {
  try {
    return new DatabaseSync(path);
  } catch (error) {
    throw refusalOf(name, error);
  }
}

function isEmpty(connection: DatabaseSync): boolean {
  return connection.prepare('pragma page_count').get()?.['page_count'] === 0;
}

/** A database with tables but without those of Leat: it must not be changed at all. */
function refuseStrangers(connection: DatabaseSync, name: string): void {
  const counts = connection.prepare(`
    select count(*) as tables, count(*) filter (where name = 'leat_migrations') as own
    from sqlite_schema`);
  const { tables, own } = counts.get() ?? {};
  if (tables !== 0 && own === 0) {
    throw new StartRefused(
      `LEAT_STORE: ${name} is the database of another program, choose another file`,
    );
  }
}
