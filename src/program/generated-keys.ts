import { statSync } from 'node:fs';
import { type Config, dataFolderOf } from '../config.ts';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import {
  confirmSecretKeys,
  prepareSecretKeys,
  readPreparedKeys,
  readSecretKeys,
} from '../files/data-folder.ts';

export interface GeneratedKeys {
  readonly keys: readonly Uint8Array[];
  /** Gives a new key its name; call it once the store that it seals is there. */
  readonly confirm: () => Promise<void>;
}

/**
 * Returns the generated keys of the store, from `secret.key` in the data folder. A new key is made only
 * for a new store, and has the name `secret.key.new` until that store is there: so an interrupted first
 * start can be repeated, and a key never stands beside a store of another one.
 *
 * Throws `StartRefused` when one of the two is there without the other; nothing has been written then.
 */
export async function generatedKeys(config: Config, random: RandomBytes): Promise<GeneratedKeys> {
  const { store } = config;
  const none = async (): Promise<void> => {};
  if (store.engine !== 'sqlite' || store.file === undefined)
    return { keys: [random(32)], confirm: none };
  const { file } = store;
  const folder = dataFolderOf(config);
  // Before the keys: another first start may be under way.
  const found = storeFound(file);
  const stored = await readSecretKeys(folder);
  if (stored !== undefined) {
    const present = found === 'whole' ? found : storeFound(file);
    if (present !== 'whole') throw storeMissing(file, folder, present);
    return { keys: stored, confirm: none };
  }
  const prepared = await readPreparedKeys(folder);
  if (prepared === undefined && found !== 'missing' && found !== 'empty')
    throw keyMissing(file, folder);
  const keys = prepared ?? (await prepareSecretKeys(folder, random));
  return { keys, confirm: () => confirmSecretKeys(folder) };
}

/** `log`: the file is missing or empty and its write-ahead log is not: SQLite would remove the log. */
type StoreFound = 'missing' | 'empty' | 'log' | 'whole';

function storeFound(file: string): StoreFound {
  const size = sizeOf(file);
  if (size !== undefined && size > 0) return 'whole';
  if ((sizeOf(`${file}-wal`) ?? 0) > 0) return 'log';
  return size === undefined ? 'missing' : 'empty';
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

function storeMissing(file: string, folder: string, found: StoreFound): StartRefused {
  const rest = {
    missing: ['is missing', ''],
    empty: ['is empty', `move ${file} away, then `],
    log: ['has lost its content', `move ${file} and ${file}-wal away, then `],
    whole: ['cannot be used', ''],
  } as const;
  const [state, first] = rest[found];
  return new StartRefused(
    `LEAT_STORE: ${file} ${state}, but ${folder}/secret.key is the key of a store. To restore a backup: ${first}leat restore <backup>. To begin with a new store: move ${folder}/secret.key away, or name a file in another folder`,
  );
}

function keyMissing(file: string, folder: string): StartRefused {
  return new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key, the key of ${file}: put the file back that was there, or set LEAT_SECRET_KEY. To begin with a new store: move ${file} and ${file}-wal away, or name a file in another folder`,
  );
}
