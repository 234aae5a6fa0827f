import { type FileHandle, open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { backup, type DatabaseSync } from 'node:sqlite';
import { StartRefused } from '../../../core/errors.ts';
import type { StoreCopy } from '../../port/store.ts';
import { unmarkCopy } from './file-identity.ts';

/**
 * Pages of one step. Other work of the connection waits for a step, which takes about 1 ms; its
 * writes during the copy are in the copy too (sqlite.org/c3ref/backup_finish.html).
 */
const pagesAtOnce = 64;
/**
 * The last step syncs the copy while all other work waits, so little may be left to sync by then.
 */
const syncedPages = 4096;
/** A copy begins with a step that is refused inside a transaction; later ones are repeated. */
const beginningsMax = 100;

/**
 * Copies the database of a connection, as it is when the copy ends, into an empty file. `check` is called
 * after all was read; an error that it throws refuses the copy.
 */
export function createCopy(connection: DatabaseSync, check: () => void): StoreCopy {
  return async (file, { progress, signal }) => {
    const handle = await open(file, 'r+');
    try {
      for (let beginnings = 1; ; beginnings += 1) {
        try {
          await copyOnce(connection, file, handle, { progress, signal });
          check();
          await unmarkCopy(handle);
          return await handle.sync();
        } catch (error) {
          signal.throwIfAborted();
          if (!isUnbegun(error) || beginnings >= beginningsMax) throw refusal(error);
          await new Promise((passed) => setImmediate(passed));
        }
      }
    } finally {
      await handle.close();
    }
  };
}

async function copyOnce(
  connection: DatabaseSync,
  file: string,
  handle: FileHandle,
  { progress, signal }: Parameters<StoreCopy>[1],
): Promise<void> {
  let synced = 0;
  let syncing: Promise<void> | undefined;
  // SQLite would read a path that begins with `file:` as a URI.
  const copied = backup(connection, resolve(file), {
    rate: pagesAtOnce,
    progress: ({ totalPages, remainingPages }) => {
      // An error that is thrown here ends the copy.
      signal.throwIfAborted();
      const done = totalPages - remainingPages;
      progress(done, totalPages);
      if (syncing !== undefined || done - synced < syncedPages) return;
      synced = done;
      syncing = handle.datasync().finally(() => {
        syncing = undefined;
      });
      // A disk error shows again in the last sync.
      syncing.catch(() => undefined);
    },
  });
  try {
    await copied;
  } finally {
    await syncing?.catch(() => undefined);
  }
}

/** The first step met a transaction and returned busy, for which Node throws this error. */
function isUnbegun(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === 0;
}

/** SQLITE_FULL */
const full = 13;

function refusal(error: unknown): unknown {
  if (!(error instanceof Error && 'errcode' in error)) return error;
  if ((Number(error.errcode) & 0xff) === full) {
    return new StartRefused('The disk of the data folder has no room for the copy: make room.', {
      cause: error,
    });
  }
  return new StartRefused(`The copy failed: ${error.message}.`, { cause: error });
}
