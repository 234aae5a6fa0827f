import { type Config, dataFolderOf } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import type { Call, Args, CommandDeps } from './command.ts';

/** Hands a copy of the store to the caller, made while it works. */
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

/** A copy without the key that seals its secrets cannot be opened. */
function keyToKeep(config: Pick<Config, 'secretKey' | 'store'>): string {
  const key =
    config.secretKey === undefined ? `${dataFolderOf(config)}/secret.key` : 'LEAT_SECRET_KEY';
  return `Keep ${key} as well, at another place: without it the backup cannot be opened.`;
}

/** What to run instead, where the store is not a file. */
export const postgresBackup = `Leat does not copy a PostgreSQL store: PostgreSQL brings the tools for that, and nodes may run meanwhile.
  pg_dump --format=custom --file=leat.dump "$LEAT_STORE"
Keep LEAT_SECRET_KEY as well, at another place: without it the backup cannot be opened.
docs/backup.md says how to restore, and how to keep every event with an archive of the WAL.`;
