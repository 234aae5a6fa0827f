import { constants } from 'node:fs';
import { copyFile, lstat, mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Config, dataFolderOf } from '../config.ts';
import type { Clock, Millis, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { StartRefused } from '../core/errors.ts';
import { readSecretKey } from '../files/data-folder.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamPosition } from '../store/port/overview.ts';
import { checkCopy } from '../store/sqlite/copy-check.ts';
import { bytesText, type Column, countText, tableOf } from './table.ts';
import { createFile, requireAbsent } from '../files/new-file.ts';

export interface RestoreDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Puts a backup in the place that LEAT_STORE names, where no store may be; returns what to print,
 * with what is sent again after the next start. Throws `StartRefused`, and nothing is there then.
 */
export async function restore(source: string, deps: RestoreDeps): Promise<string> {
  const { config, random, note, signal } = deps;
  const file = fileOf(config);
  await refuseOtherFiles(source, file);
  const secretKey = await keyFor(config);
  note(`Checking ${source} …`);
  checkCopy(source);
  signal.throwIfAborted();
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  let said = '';
  await createFile(file, random, async (draft) => {
    await copyFile(source, draft, constants.COPYFILE_FICLONE);
    signal.throwIfAborted();
    // Proves that the key fits, and brings an older schema up to date.
    const store = await openStore({
      location: { engine: 'sqlite', path: draft },
      secretKey,
      random,
      clock: deps.clock,
    }).catch((error: unknown) => {
      throw named(error, draft, source);
    });
    try {
      said = await resendText(store);
    } finally {
      await store.close();
    }
  });
  const size = bytesText((await stat(file)).size);
  return `Restored ${file} from ${source}: ${size}, checked.\n${said}\nNext: leat start`;
}

function fileOf({ store }: Config): string {
  if (store.engine === 'postgres') throw new StartRefused(postgresRestore);
  if (store.file !== undefined) return store.file;
  throw new StartRefused('LEAT_STORE: a store in memory takes no backup, name a file.');
}

const postgresRestore = `Leat does not restore a PostgreSQL store: PostgreSQL brings the tools for that. With every node stopped:
  createdb leat-restored
  pg_restore --no-owner --dbname=postgres://…/leat-restored leat.dump
Then set LEAT_STORE to the new database, run leat doctor, and start the nodes.`;

async function refuseOtherFiles(source: string, file: string): Promise<void> {
  if (await isThere(`${source}-wal`)) {
    throw new StartRefused(
      `${source} has a write-ahead log beside it: it is a store and not a backup. Start leat on it, or take a backup of it with leat backup.`,
    );
  }
  if (!(await isThere(source))) throw new StartRefused(`${source} does not exist.`);
  for (const rest of ['', '-wal', '-journal']) {
    await requireAbsent(`${file}${rest}`).catch((error: unknown) => {
      throw new StartRefused(
        `LEAT_STORE: ${file}${rest} is there already: stop the server and move the store elsewhere, or name another file.`,
        { cause: error },
      );
    });
  }
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Never makes a key: a new one opens nothing. */
async function keyFor(config: Config): Promise<Uint8Array> {
  const folder = dataFolderOf(config);
  const key = config.secretKey ?? (await readSecretKey(folder));
  if (key !== undefined) return key;
  throw new StartRefused(
    `LEAT_SECRET_KEY: is not set and ${folder} has no secret.key: put the key there that belongs to the backup.`,
  );
}

function named(error: unknown, draft: string, source: string): unknown {
  if (!(error instanceof StartRefused)) return error;
  const message = error.message.replaceAll(draft, source).replace('LEAT_STORE: ', '');
  return new StartRefused(message, { cause: error });
}

interface Resent {
  readonly tenant: string;
  readonly position: StreamPosition;
}

const shownMax = 50;

/** From when on which stream is sent events again. */
async function resendText(store: Store): Promise<string> {
  const resent: Resent[] = [];
  const newest: string[] = [];
  for (const tenant of await store.tenants.list()) {
    const overview = await store.overview.tenant(tenant.id);
    newest.push(`  ${tenant.name}: ${timeText(overview?.newestPublishedAt)}`);
    const behind = await store.overview.behind(tenant.id, shownMax + 1);
    resent.push(...behind.map((position) => ({ tenant: tenant.name, position })));
  }
  return [
    'The newest event in it:',
    ...newest,
    'Events that were published later are not in it: publish them again.',
    ...resentLines(resent),
  ].join('\n');
}

function resentLines(resent: readonly Resent[]): string[] {
  if (resent.length === 0) return ['No stream is sent an event again: all had arrived.'];
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
  const more = resent.length > shownMax ? [`… and more; leat status shows them.`] : [];
  return [
    'After the start these streams are sent their events since then, also those that had arrived',
    'after the backup was made; the ids are the same:',
    ...tableOf(columns, resent.slice(0, shownMax)),
    ...more,
  ];
}

function timeText(at: Millis | undefined): string {
  return at === undefined ? 'none' : `${formatTime(at).slice(0, 19).replace('T', ' ')}Z`;
}
