import { dataFolderOf } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import { type StoreLocation, storeLocation } from '../core/value.ts';
import { readSecretKeys } from '../files/data-folder.ts';
import { load, print, type ProgramContext } from './context.ts';

/**
 * Copies a store from SQLite to PostgreSQL. The key is LEAT_SECRET_KEY, else the generated one in
 * the data folder of the source.
 */
export async function runMigrateStore(
  context: ProgramContext,
  locations: Record<'from' | 'to', string>,
): Promise<void> {
  const { clock, random, stderr } = context;
  const from = storeOf('--from', locations.from);
  const to = storeOf('--to', locations.to);
  const { secretKeys, defaultFolder } = load().config;
  const folder = dataFolderOf({ store: from, defaultFolder });
  const { describeMigrated, migrateStore } =
    await import('../store/migrate-store/migrate-store.ts');
  const { createMigrateProgress } = await import('../store/migrate-store/progress.ts');
  const migrated = await migrateStore({
    from,
    to,
    secretKeys: async () => secretKeys ?? generatedKeys(folder),
    random,
    clock,
    progress: createMigrateProgress(stderr, clock.elapsedMs),
  });
  if (migrated.wasComplete) return print(context, describeMigrated(migrated));
  const key =
    secretKeys === undefined ? ` and LEAT_SECRET_KEY to what ${folder}/secret.key has` : '';
  print(
    context,
    `${describeMigrated(migrated)}\nNext: set LEAT_STORE to the database${key}, then leat start.`,
  );
}

/** Parses the location of a store. Does not repeat the text, which may hold a password. */
function storeOf(option: string, text: string): StoreLocation {
  const parsed = storeLocation(text);
  if ('value' in parsed) return parsed.value;
  throw new StartRefused(`${option}: what it names ${parsed.problem}`);
}

/** Reads the keys of the source; never creates one, because a new key cannot decrypt anything. */
async function generatedKeys(folder: string): Promise<readonly Uint8Array[]> {
  const keys = await readSecretKeys(folder);
  if (keys !== undefined) return keys;
  throw new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key, set the key the source was first started with`,
  );
}
