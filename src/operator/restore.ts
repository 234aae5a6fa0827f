import { constants } from 'node:fs';
import { copyFile, lchown, lstat, mkdir, rmdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Config, dataFolderOf } from '../config.ts';
import type { Clock, Millis, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { StartRefused } from '../core/errors.ts';
import { readSecretKeys } from '../files/data-folder.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamPosition } from '../store/port/overview.ts';
import { checkCopy } from '../store/engine/sqlite/copy-check.ts';
import { bytesText, type Column, countText, tableOf } from './table.ts';
import { giveToFolderOwner } from '../files/folder-owner.ts';
import { createFile, requireAbsent } from '../files/new-file.ts';

export interface RestoreDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Restores a backup to the file of LEAT_STORE, which must not exist. Returns the text to print, with
 * the events that are sent again after the next start. Creates nothing if it throws `StartRefused`.
 */
export async function restore(source: string, deps: RestoreDeps): Promise<string> {
  const { config, random, note, signal } = deps;
  const file = fileOf(config);
  await refuseOtherFiles(source, file);
  const secretKeys = await keysFor(config);
  note(`Checking ${source} …`);
  checkCopy(source);
  signal.throwIfAborted();
  let text = '';
  const fill = async (draft: string): Promise<void> => {
    await copyFile(source, draft, constants.COPYFILE_FICLONE);
    signal.throwIfAborted();
    // Opening checks the key and migrates an older schema.
    const store = await openStore({
      location: { engine: 'sqlite', path: draft },
      secretKeys,
      random,
      clock: deps.clock,
    }).catch((error: unknown) => {
      throw named(error, draft, source);
    });
    try {
      await endConsoleSessions(store);
      text = await resendText(store);
    } finally {
      await store.close();
    }
    await giveToFolderOwner(dirname(file), (uid, gid) => lchown(draft, uid, gid));
  };
  await inNewFolder(dirname(file), () => createFile(file, random, fill));
  const size = bytesText((await stat(file)).size);
  return [`Restored ${file} from ${source}: ${size}, checked.`, text, ...nextSteps].join('\n');
}

const nextSteps = [
  'Next, after a loss: leat start',
  'Next, in a drill: leat doctor. Do not start the copy: it would send waiting events again.',
];

/** Runs work in the folder. Creates it when it is missing, and removes it again when the work fails. */
async function inNewFolder(folder: string, work: () => Promise<void>): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    await work();
  } catch (error) {
    if (first !== undefined) await removeEmptyFolders(folder, first);
    throw error;
  }
}

/** Removes the folder and those above it up to `first`; stops at one that has something in it. */
async function removeEmptyFolders(folder: string, first: string): Promise<void> {
  for (let at = resolve(folder); at.length >= resolve(first).length; at = dirname(at)) {
    try {
      await rmdir(at);
    } catch {
      return;
    }
  }
}

function fileOf({ store }: Config): string {
  if (store.engine === 'postgres') throw new StartRefused(postgresRestore);
  if (store.file !== undefined) return store.file;
  throw new StartRefused('LEAT_STORE: a backup cannot be restored to memory, name a file.');
}

const postgresRestore = `Leat does not restore a PostgreSQL store: use its own tools. With every node stopped:
  createdb leat-restored
  pg_restore --no-owner --dbname=postgres://…/leat-restored leat.dump
Then set LEAT_STORE to the new database, run leat doctor, and start the nodes.`;

async function refuseOtherFiles(source: string, file: string): Promise<void> {
  if (await exists(`${source}-wal`)) {
    throw new StartRefused(
      `${source} has a write-ahead log: it is a store and not a backup. Start leat on it, or take a backup of it with leat backup.`,
    );
  }
  if (!(await exists(source))) throw new StartRefused(`${source} does not exist.`);
  for (const rest of ['', '-wal', '-journal']) {
    await requireAbsent(`${file}${rest}`).catch((error: unknown) => {
      throw new StartRefused(
        `LEAT_STORE: ${file}${rest} exists already: stop the server and move the store, or set LEAT_STORE to another file.`,
        { cause: error },
      );
    });
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Returns the keys of the backup; never creates one, because a new key decrypts nothing. */
async function keysFor(config: Config): Promise<readonly Uint8Array[]> {
  const folder = dataFolderOf(config);
  const keys = config.secretKeys ?? (await readSecretKeys(folder));
  if (keys !== undefined) return keys;
  throw new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key: copy the key of the backup there.`,
  );
}

function named(error: unknown, draft: string, source: string): unknown {
  if (!(error instanceof StartRefused)) return error;
  const message = error.message.replaceAll(draft, source).replace('LEAT_STORE: ', '');
  return new StartRefused(message, { cause: error });
}

/** Those that ended, and links that were used, after the backup would count again. */
async function endConsoleSessions({ tenants, consoleSessions }: Store): Promise<void> {
  for (const { id } of await tenants.list()) await consoleSessions.endMany(id, 'all');
}

interface Resent {
  readonly tenant: string;
  readonly position: StreamPosition;
}

const shownMax = 50;

/** Returns the newest event of each tenant and the streams that are sent events again. */
async function resendText(store: Store): Promise<string> {
  const resent: Resent[] = [];
  const newest: string[] = [];
  for (const tenant of await store.tenants.list()) {
    const overview = await store.overview.tenant(tenant.id);
    newest.push(`  ${tenant.name}: ${timeText(overview?.newestPublishedAt)}`);
    const unsent = await store.overview.behind(tenant.id, shownMax + 1);
    resent.push(...unsent.map((position) => ({ tenant: tenant.name, position })));
  }
  return [
    'The newest event in the backup:',
    ...newest,
    'It lacks events that were published later: publish them again.',
    ...resentLines(resent),
  ].join('\n');
}

function resentLines(resent: readonly Resent[]): string[] {
  if (resent.length === 0) return ['No stream is sent an event again: all were delivered.'];
  const columns: Column<Resent>[] = [
    { header: 'TENANT', text: ({ tenant }) => tenant },
    { header: 'STREAM', text: ({ position }) => position.name },
    { header: 'EVENTS SINCE', text: ({ position }) => timeText(position.since) },
    {
      header: 'AT MOST',
      align: 'right',
      text: ({ position }) => countText(position.events),
    },
  ];
  const more = resent.length > shownMax ? [`… and more: see leat status.`] : [];
  return [
    'After the start these streams are sent their events since then, including those delivered',
    'after the backup began; the ids are the same:',
    ...tableOf(columns, resent.slice(0, shownMax)),
    ...more,
  ];
}

function timeText(at: Millis | undefined): string {
  return at === undefined ? 'none' : `${formatTime(at).slice(0, 19).replace('T', ' ')}Z`;
}
