import { DatabaseSync } from 'node:sqlite';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startCluster, type Scope } from './cluster.ts';
import {
  createTempStore,
  freePort,
  type Running,
  runLeat,
  startLeat,
  storeEnvironment,
  waitFor,
} from './leat.ts';
import { logOf, query } from './postgres.ts';
import { createSlowDisk, noSlowDisk } from './slow-disk.ts';

/** A Leat on a store of its own, and what can happen to that. */
export interface FaultyStore {
  readonly name: string;
  readonly node: () => Running;
  readonly metricsPort: number;
  /** Each begins a fault, waits while it lasts, and ends it. */
  readonly faults: Readonly<Record<string, (lastsMs: number) => Promise<unknown>>>;
  /** Stops Leat and returns the ids of all events in the log. */
  stored(): Promise<Set<string>>;
}

/** Some faults last longer than a publisher waits, and long enough to be compared with readiness. */
export const lasting = { shortMs: 300, mediumMs: 2000, longMs: 16_000 };

export async function startFaultySqlite(t: Scope): Promise<FaultyStore> {
  const tempStore = await createTempStore();
  const disk = createSlowDisk();
  const metricsPort = await freePort();
  const settings = { LEAT_METRICS_PORT: String(metricsPort), ...disk.env };
  let node = await startLeat(tempStore, settings);
  t.after(async () => {
    node.child.kill('SIGCONT');
    await node.kill();
    await disk.remove();
    await tempStore.remove();
  });
  const path = 'leat.db';
  const during =
    (faults: Parameters<typeof disk.set>[0]) =>
    async (lastsMs: number): Promise<void> => {
      disk.set({ path, ...faults });
      await sleep(lastsMs);
      disk.set({});
    };
  /**
   * Loses files under the running process for good. What it acknowledges from then on is in no file that
   * is put back: a copy from the moment before, in which the process was stopped.
   */
  const losing =
    (lose: (file: string) => Promise<unknown>) =>
    async (lastsMs: number): Promise<void> => {
      const { file, folder } = tempStore;
      const names = ['leat.db', 'leat.db-wal'];
      const kept = await mkdtemp(join(folder, 'kept-'));
      const backup = join(kept, 'backup.db');
      await runLeat(['backup', backup], storeEnvironment(tempStore));
      node.child.kill('SIGSTOP');
      for (const name of names) await copyFile(join(folder, name), join(kept, name));
      await lose(file);
      node.child.kill('SIGCONT');
      await sleep(lastsMs);
      await node.kill();
      for (const name of names) {
        await rm(join(folder, name), { force: true });
        await rename(join(kept, name), join(folder, name));
      }
      await rm(kept, { recursive: true });
      node = await startLeat(tempStore, settings);
    };
  const other = async (): Promise<string> => {
    const fresh = join(tempStore.folder, 'other', 'leat.db');
    if (!existsSync(fresh)) {
      const leat = await startLeat(
        { ...tempStore, file: fresh },
        { LEAT_STORE: `sqlite:${fresh}` },
      );
      await leat.stop();
    }
    return fresh;
  };
  await mkdir(join(tempStore.folder, 'other'));
  await other();
  return {
    name: 'SQLite',
    node: () => node,
    metricsPort,
    faults: {
      'the file is deleted': losing((file) => rm(file)),
      'the file is moved away for a while': async (lastsMs) => {
        const { file } = tempStore;
        await rename(file, `${file}.away`);
        await sleep(lastsMs);
        await rename(`${file}.away`, file);
      },
      'the log is deleted': losing((file) => rm(`${file}-wal`)),
      'another store takes its place': losing(async (file) => {
        await copyFile(await other(), `${file}.new`);
        await rename(`${file}.new`, file);
      }),
      'another store is written over it': losing(async (file) => copyFile(await other(), file)),
      'a backup is written over it': losing(async (file) => {
        const [kept = ''] = (await readdir(dirname(file))).filter((name) =>
          name.startsWith('kept-'),
        );
        await copyFile(join(dirname(file), kept, 'backup.db'), file);
      }),
      'syncs fail': during({ syncError: 'EIO' }),
      'syncs of the log fail': during({ path: 'leat.db-wal', syncError: 'EIO' }),
      'syncs are slow': during({ path: 'leat.db-wal', syncDelayMs: 400 }),
      'syncs are frozen': during({ path: 'leat.db-wal', syncDelayMs: 3_600_000 }),
      'the disk is full': during({ writeError: 'ENOSPC' }),
      'writes fail': during({ writeError: 'EIO' }),
      'Leat is frozen': async (lastsMs) => {
        node.child.kill('SIGSTOP');
        await sleep(Math.min(lastsMs, lasting.mediumMs));
        node.child.kill('SIGCONT');
      },
      'Leat is killed while syncs fail': async (lastsMs) => {
        disk.set({ path, syncError: 'EIO' });
        await sleep(Math.min(lastsMs, lasting.mediumMs));
        await node.kill();
        disk.set({});
        node = await startLeat(tempStore, settings);
      },
    },
    stored: async () => {
      await node.stop();
      const database = new DatabaseSync(tempStore.file, { readOnly: true });
      const rows = database.prepare('select id from events').all() as { id: string }[];
      database.close();
      return new Set(rows.map(({ id }) => id));
    },
  };
}

export async function startFaultyPostgres(t: Scope): Promise<FaultyStore> {
  const disk = noSlowDisk() === false ? createSlowDisk() : undefined;
  t.after(async () => disk?.remove());
  const cluster = await startCluster(t, {
    postgres: { settings: { fsync: 'on' }, env: disk?.env },
  });
  const { server, proxy, url } = cluster;
  const metricsPort = await freePort();
  const node = await cluster.start({ LEAT_METRICS_PORT: String(metricsPort) });
  const during =
    (begin: () => unknown, end: () => unknown) =>
    async (lastsMs: number): Promise<void> => {
      await begin();
      await sleep(lastsMs);
      await end();
    };
  const holding =
    (...statements: string[]) =>
    async (lastsMs: number) => {
      const clients = await Promise.all(statements.map(() => connected(url)));
      for (const [index, statement] of statements.entries()) {
        clients[index]?.query(statement).catch(() => undefined);
        await sleep(50);
      }
      await sleep(lastsMs);
      // An `alter table` that waits is cancelled, or else done when it gets its lock.
      await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
    };
  const trigger = (body: string) =>
    during(
      () =>
        cluster.query(`create function fault() returns trigger language plpgsql as $$ begin ${body}; return null; end $$;
          create trigger fault after update on tenants for each statement execute function fault()`),
      () => cluster.query('drop function fault cascade'),
    );
  /** PostgreSQL ends all sessions when a sync fails, and itself when that happens while it recovers. */
  const failingSyncs = (path: string) => {
    const panics = (): number => logOf(server).split('PANIC:').length;
    let before = 0;
    return during(
      async () => {
        before = panics();
        disk?.set({ path, syncError: 'EIO' });
        // The files of tables are synced by a checkpoint alone.
        void query(server.url(), 'checkpoint').catch(() => undefined);
      },
      async () => {
        await waitFor('the panic of PostgreSQL', () => panics() > before);
        disk?.set({});
        await server.stop('immediate');
        await server.start();
      },
    );
  };
  const ofDisk: FaultyStore['faults'] =
    disk === undefined
      ? {}
      : {
          'syncs of the log fail': failingSyncs('/pg_wal/'),
          'syncs of the tables fail': failingSyncs('/base/'),
          'syncs of the log are slow': during(
            () => disk.set({ path: '/pg_wal/', syncDelayMs: 400 }),
            () => disk.set({}),
          ),
          'the disk of the log is full': during(
            () => disk.set({ path: '/pg_wal/', writeError: 'ENOSPC' }),
            async () => {
              disk.set({});
              await server.stop('immediate');
              await server.start();
            },
          ),
        };
  const otherPassword = () =>
    query(server.url(), `alter role leat password 'other'`).catch(() => undefined);
  const formerPassword = () =>
    query(server.url('postgres').replace(':leat@', ':other@'), `alter role leat password 'leat'`);
  return {
    name: 'PostgreSQL',
    node: () => node,
    metricsPort,
    faults: {
      'the table is locked': holding('begin; lock table events in exclusive mode'),
      'a change of the table waits for a reader': holding(
        'begin; select count(*) from events',
        'begin; alter table events add column fault text',
      ),
      'the row of the tenant is locked': holding('begin; select * from tenants for update'),
      'connections are cut': async () => proxy.cut(),
      'the confirmation of an append is lost': () => proxy.loseAnswerTo('leat_append'),
      'the network swallows everything': during(proxy.blackhole, proxy.restore),
      'the network refuses connections': during(proxy.refuse, proxy.restore),
      'the server is restarted': during(
        () => server.stop('immediate'),
        () => server.start(),
      ),
      'its sessions are frozen': async (lastsMs) => {
        const rows = await query<{ pid: number }>(
          server.url(),
          `select pid from pg_stat_activity where application_name = 'leat'`,
        );
        for (const { pid } of rows) signal(pid, 'SIGSTOP');
        await sleep(lastsMs);
        for (const { pid } of rows) signal(pid, 'SIGCONT');
      },
      'the disk is full': trigger(`raise exception 'no space' using errcode = '53100'`),
      'the disk is slow': trigger('perform pg_sleep(0.5)'),
      'the password is another one': during(otherPassword, formerPassword),
      'the password is another one and all sessions end': during(async () => {
        await query(
          server.url(),
          `alter role leat password 'other';
          select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'leat' and pid <> pg_backend_pid()`,
        ).catch(() => undefined);
      }, formerPassword),
      ...ofDisk,
    },
    stored: async () => {
      await node.stop();
      const rows = await cluster.query<{ id: string }>('select id from events');
      return new Set(rows.map(({ id }) => id));
    },
  };
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch {
    // The session has ended already.
  }
}
