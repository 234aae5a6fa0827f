import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from '../config.ts';
import { codeOf, StartRefused } from '../core/errors.ts';

/**
 * Throws `StartRefused` when the SQLite file of the settings does not exist: a command that runs elsewhere
 * than the service would create an empty store there, and report on that one.
 */
export function refuseMissingStore({ store }: Pick<Config, 'store'>): void {
  if (store.engine !== 'sqlite' || store.file === undefined) return;
  if (!isMissing(store.file)) return;
  throw new StartRefused(
    `LEAT_STORE: ${resolve(store.file)} does not exist: run this command as the user, in the working directory and with the settings of the service (leat start creates a store)`,
  );
}

function isMissing(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) === undefined;
  } catch (error) {
    // Another error, such as EACCES, is that of opening it.
    return codeOf(error) === 'ENOTDIR';
  }
}
