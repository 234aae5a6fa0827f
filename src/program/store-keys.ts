import { existsSync, statSync } from 'node:fs';
import { type Config, dataFolderOf } from '../config.ts';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import {
  confirmSecretKeys,
  credentialsFile,
  prepareSecretKeys,
  readPreparedKeys,
  readSecretKeys,
  secretKeyFile,
} from '../files/data-folder.ts';

export interface StoreKeys {
  readonly keys: readonly Uint8Array[];
  /** Gives a new key its name; call it once the store that it seals is there. */
  readonly confirm: () => Promise<void>;
  /** Removes a new key, and its new folders; call it when the store was refused. */
  readonly discard: () => Promise<void>;
}

/**
 * Returns the keys of the store: LEAT_SECRET_KEY, else the generated ones of `secret.key` in the data
 * folder. A new key is made only for a new store, and has the name `secret.key.new` until that store is
 * there: so an interrupted first start can be repeated, and a key never stands beside a store of another
 * one. A new store is made only in a folder without traces of one.
 *
 * Throws `StartRefused` when a part of a store is there without the rest; nothing has been written then.
 */
export async function storeKeys(config: Config, random: RandomBytes): Promise<StoreKeys> {
  const { store, secretKeys } = config;
  const none = async (): Promise<void> => {};
  if (store.engine !== 'sqlite' || store.file === undefined)
    return { keys: secretKeys ?? [random(32)], confirm: none, discard: none };
  const { file } = store;
  const folder = dataFolderOf(config);
  // Before the keys and the traces: another first start may be under way.
  const found = storeFound(file);
  const keys = secretKeys ?? (await readSecretKeys(folder));
  const traces = tracesOf(file, folder);
  const prepared = keys === undefined ? await readPreparedKeys(folder) : undefined;
  if ((keys ?? prepared) === undefined && (found === 'whole' || found === 'log'))
    throw keyMissing(file, folder);
  if (traces.length > 0 && found !== 'whole' && storeFound(file) !== 'whole')
    throw storeMissing(file, found, traces);
  if (keys !== undefined) return { keys, confirm: none, discard: none };
  const confirm = (): Promise<void> => confirmSecretKeys(folder);
  if (prepared !== undefined) return { keys: prepared, confirm, discard: none };
  const made = await prepareSecretKeys(folder, random);
  const discard = async (): Promise<void> => {
    // With a file, another start may be making the store with this key.
    if (storeFound(file) === 'missing') await made.discard();
  };
  return { keys: made.keys, confirm, discard };
}

/** `log`: the file is missing or empty and its write-ahead log is not: SQLite would remove the log. */
type StoreFound = 'missing' | 'empty' | 'log' | 'whole';

function storeFound(file: string): StoreFound {
  const size = sizeOf(file);
  if (size !== undefined && size > 0) return 'whole';
  if (hasLog(file)) return 'log';
  return size === undefined ? 'missing' : 'empty';
}

/**
 * Returns the files that a start writes only once its store is there. Certificates and sockets tell
 * nothing: a node on PostgreSQL writes them too.
 */
function tracesOf(file: string, folder: string): string[] {
  const written = [secretKeyFile(folder), credentialsFile(folder)].filter((path) =>
    existsSync(path),
  );
  return hasLog(file) ? [`${file}-wal`, ...written] : written;
}

function hasLog(file: string): boolean {
  return (sizeOf(`${file}-wal`) ?? 0) > 0;
}

function sizeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size;
  } catch (error) {
    if (codeOf(error) === 'ENOTDIR') return undefined;
    throw new StartRefused(`LEAT_STORE: ${path} cannot be read (${String(codeOf(error))}).`, {
      cause: error,
    });
  }
}

function storeMissing(file: string, found: StoreFound, traces: readonly string[]): StartRefused {
  const isThere = sizeOf(file) !== undefined;
  const inTheWay = [...(isThere ? [file] : []), ...(found === 'log' ? [`${file}-wal`] : [])];
  const first = inTheWay.length === 0 ? '' : `move ${inTheWay.join(' and ')} away, then `;
  const those = traces.join(' and ');
  const is = traces.length === 1 ? 'is' : 'are';
  return new StartRefused(
    `LEAT_STORE: ${file} is ${isThere ? 'empty' : 'missing'}, but ${those} ${is} part of a store that was there. To restore a backup: ${first}leat restore <backup>. To begin with a new store: move ${those} away, or name a file in another folder`,
  );
}

function keyMissing(file: string, folder: string): StartRefused {
  return new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key, the key of ${file}: put the file back that was there, or set LEAT_SECRET_KEY. To begin with a new store: move ${file} and ${file}-wal away, or name a file in another folder`,
  );
}
