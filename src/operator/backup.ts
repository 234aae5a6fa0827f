import { type Config, dataFolderOf } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import type { Call, Args, CommandDeps } from './command.ts';

/** Sends a copy of the store to the caller; the store stays in use. Returns the text to print. */
export async function backup(deps: CommandDeps, _args: Args, call: Call): Promise<string> {
  const { store, config } = deps;
  const { copy } = store;
  if (copy === undefined) throw new StartRefused(postgresBackup);
  await call.file((path) =>
    copy(path, {
      progress: (done, total) => call.progress({ step: 'copying pages', done, total }),
      signal: call.signal,
    }),
  );
  return keyToKeep(config);
}

/** Returns the advice to keep the key: without it the secrets in a copy cannot be decrypted. */
function keyToKeep(config: Pick<Config, 'secretKeys' | 'store' | 'defaultFolder'>): string {
  const key =
    config.secretKeys === undefined ? `${dataFolderOf(config)}/secret.key` : 'LEAT_SECRET_KEY';
  return `Keep ${key} as well, somewhere else: without it the backup cannot be opened.`;
}

/** The error on PostgreSQL, with the commands to run instead. */
export const postgresBackup = `Leat does not copy a PostgreSQL store: use its own tools, while nodes run.
  pg_dump --format=custom --file=leat.dump "$LEAT_STORE"
Keep LEAT_SECRET_KEY as well, somewhere else: without it the backup cannot be opened.
docs/backup.md explains how to restore, and how to keep every event with an archive of the WAL.`;
