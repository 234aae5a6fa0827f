import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runLeat, storeEnvironment } from '../helpers/leat.ts';
import { type Faketime, noFaketime } from '../helpers/faketime.ts';
import { noPatroni } from '../helpers/patroni.ts';
import { programPath } from '../helpers/program.ts';
import { type DiskFaults, noSlowDisk, type SlowDisk } from '../helpers/slow-disk.ts';
import { churn, finishChurn, openChurned } from './churn.ts';
import { type Bed, type Night, nightOf, type NightStore } from './night.ts';
import { replacing } from './replacements.ts';
import {
  openPatroni,
  openPooled,
  openPostgres,
  openRestorable,
  openServers,
  openSqlite,
  openSqliteOnDisk,
  openWithClocks,
  type PostgresStore,
  type SqliteStore,
} from './stores.ts';

const locked =
  (table: string) =>
  ({ store }: Bed<PostgresStore>): Promise<void> =>
    store.hold(5000, 'begin', `lock table ${table} in access exclusive mode`);

const onDisk =
  (faults: DiskFaults) =>
  async ({ store: { disk } }: Bed<NightStore & { disk: SlowDisk }>): Promise<void> => {
    disk.set({ path: 'leat.db', ...faults });
    await sleep(4000);
    disk.set({});
  };

/** What is acknowledged after the loss is in no file that is put back: nothing may be. */
const losing =
  (lose: (store: SqliteStore) => Promise<unknown>) =>
  async ({ store, last }: Bed<SqliteStore>): Promise<void> => {
    const names = ['leat.db', 'leat.db-wal'];
    const paths = names.map((name) => join(store.folder, name));
    last.running.child.kill('SIGSTOP');
    for (const path of paths) await copyFile(path, `${path}.kept`);
    await lose(store);
    last.running.child.kill('SIGCONT');
    await sleep(4000);
    await last.kill(async () => {
      for (const path of paths) await rename(`${path}.kept`, path);
    });
  };

/** The node can open neither a file nor a connection for a while, and has lost those to its receiver. */
async function withoutDescriptors({ last, receiver }: Bed<NightStore>): Promise<void> {
  const { child } = last.running;
  const open = await readdir(`/proc/${child.pid}/fd`);
  const limit = (count: number): unknown =>
    execFileSync('prlimit', [`--pid=${child.pid}`, `--nofile=${count}:`]);
  const before = execFileSync('prlimit', [
    `--pid=${child.pid}`,
    '--nofile',
    '-o',
    'SOFT',
    '--noheadings',
  ]);
  limit(Math.max(open.length >> 1, 20));
  receiver.cut();
  await sleep(6000);
  limit(Number(before));
}

const partition =
  (from?: 'client' | 'server') =>
  async ({ store }: Bed<PostgresStore>): Promise<void> => {
    store.proxy(1).blackhole(from);
    await sleep(20_000);
    store.proxy(1).restore();
  };

const hour = 3600;

/** The clocks of the nodes jump by so many seconds, and back. */
const wrongClocks =
  (...aheadSeconds: readonly number[]) =>
  async ({ store: { clocks }, more }: Bed<NightStore & { clocks: readonly Faketime[] }>) => {
    for (const [node, clock] of clocks.entries()) clock.shift(aheadSeconds[node] ?? 0);
    // Longer than a lease.
    await sleep(12_000);
    await more(300);
    for (const clock of clocks) clock.shift(0);
  };

async function checkInstants({ store, wrong }: Bed<PostgresStore>): Promise<void> {
  const [row] = await store.ask<{ wrong: number }>(`
    select (select count(*) from events where abs(published_at - leat_now()) > 1800000)::int
      + (select count(*) from attempts where abs(at - leat_now()) > 1800000)::int as wrong`);
  if (row?.wrong !== 0) wrong(`${row?.wrong} instants of wrong clocks are stored`);
}

async function fullDisk(store: PostgresStore, lastsMs: number): Promise<void> {
  await store.ask(`
    create function full_disk() returns trigger language plpgsql as $$
      begin raise exception 'could not extend file' using errcode = '53100'; end $$;
    create trigger full_disk after update on tenants
      for each statement execute function full_disk();
    create trigger full_disk before insert on deliveries
      for each statement execute function full_disk()`);
  await sleep(lastsMs);
  await store.ask('drop function full_disk cascade');
}

/** All nights, and the mistakes with which some of them have to fail. */
export const nights: readonly Night[] = [
  nightOf({
    name: 'SQLite: kill -9',
    open: openSqlite,
    faults: [({ last }) => last.kill()],
    rounds: 10,
    longestMs: 30_000,
  }),
  nightOf({
    name: 'PostgreSQL: rolling restarts of two nodes',
    open: openPostgres,
    nodes: 2,
    faults: [({ nodes: [first] }) => first.restart(), ({ last }) => last.restart()],
    rounds: 4,
    longestMs: 30_000,
  }),
  nightOf({
    name: 'PostgreSQL: kills of the server',
    open: openPostgres,
    nodes: 2,
    faults: [
      async ({ store: { server } }) => {
        await server.kill();
        await server.start();
      },
      async ({ store: { server } }) => {
        await server.stop('immediate');
        await server.start();
      },
    ],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: lost connections of nodes that hear of events from another one',
    open: openPostgres,
    nodes: 3,
    publishedTo: 1,
    faults: [async ({ store }) => store.proxy(1).cut(), async ({ store }) => store.proxy(2).cut()],
    rounds: 3,
    longestMs: 30_000,
    // Far above what a node with hints needs on a busy machine, below what the poll for lost ones does.
    medianMs: 700,
  }),
  nightOf({
    name: 'PostgreSQL: locks',
    open: openPostgres,
    nodes: 2,
    faults: ['events', 'tenants', 'runs', 'streams', 'deliveries', 'nodes', 'store'].map(locked),
    longestMs: 60_000,
  }),
  nightOf({
    name: 'SQLite: freezes',
    open: openSqlite,
    faults: [({ last }) => last.freeze(4000)],
    rounds: 5,
    longestMs: 30_000,
  }),
  nightOf({
    name: 'SQLite: a disk that is full, fails or is slow',
    missing: noSlowDisk,
    open: openSqliteOnDisk,
    faults: [
      onDisk({ writeError: 'ENOSPC' }),
      onDisk({ syncError: 'EIO' }),
      onDisk({ path: 'leat.db-wal', syncDelayMs: 400 }),
    ],
    rounds: 2,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'SQLite: files that are deleted or replaced under the program',
    open: openSqlite,
    faults: [
      losing(({ file }) => rm(file)),
      losing(({ file }) => rm(`${file}-wal`)),
      losing(({ file }) => writeFile(file, 'something else')),
    ],
    longestMs: 60_000,
  }),
  nightOf({
    name: 'SQLite: the restore of a backup',
    open: openSqlite,
    faults: [
      ({ store, last, more, losing: forgiven }) =>
        forgiven(async () => {
          const backup = join(store.folder, `backup-${randomUUID()}.db`);
          await runLeat(['backup', backup], storeEnvironment(store));
          await more(300);
          await last.without(async () => {
            await rm(`${store.file}-wal`, { force: true });
            await copyFile(backup, store.file);
          });
        }),
    ],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'SQLite: no more descriptors',
    missing: () => programPath('prlimit') === undefined && 'prlimit is not installed',
    open: openSqlite,
    faults: [withoutDescriptors],
    rounds: 4,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: kills of nodes',
    open: openPostgres,
    nodes: 2,
    faults: [({ nodes: [first] }) => first.kill(), ({ last }) => last.kill()],
    rounds: 3,
    // 12.5 s until the streams of a killed node have another owner, which may be killed by then, too.
    longestMs: 45_000,
  }),
  nightOf({
    name: 'PostgreSQL: frozen nodes',
    open: openPostgres,
    nodes: 2,
    faults: [({ nodes: [first] }) => first.freeze(3000), ({ last }) => last.freeze(25_000)],
    rounds: 2,
    longestMs: 90_000,
  }),
  nightOf({
    name: 'PostgreSQL: partitioned nodes, both ways and one',
    open: openPostgres,
    nodes: 2,
    faults: [partition(), partition('client'), partition('server')],
    longestMs: 90_000,
  }),
  nightOf({
    name: 'PostgreSQL: a full disk of the database',
    open: openPostgres,
    nodes: 2,
    faults: [({ store }) => fullDisk(store, 3000), ({ store }) => fullDisk(store, 15_000)],
    rounds: 2,
    longestMs: 90_000,
  }),
  nightOf({
    name: 'PostgreSQL: old snapshots',
    open: openPostgres,
    nodes: 2,
    faults: [
      ({ store }) =>
        store.hold(15_000, 'begin isolation level repeatable read', 'select count(*) from events'),
      ({ store }) => store.hold(5000, 'begin', 'select * from tenants for update'),
      ({ store }) => store.hold(15_000, 'begin', 'select pg_current_xact_id()'),
    ],
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: DDL and upkeep of tables',
    open: openPostgres,
    nodes: 2,
    faults: [
      ({ store }) => store.hold(4000, 'begin', 'alter table events add column fault text'),
      ({ store }) => store.ask('vacuum full events'),
      ({ store }) => store.ask('vacuum full deliveries'),
      ({ store }) => store.ask('reindex table events'),
      ({ store }) => store.ask('create index fault on events (type)'),
    ],
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: behind PgBouncer',
    missing: () => programPath('pgbouncer') === undefined && 'pgbouncer is not installed',
    open: openPooled,
    nodes: 2,
    faults: [
      async ({ store: { server } }) => {
        await server.stop('immediate');
        await server.start();
      },
      ({ store }) => Promise.resolve(store.proxy(0).cut()),
      ({ last }) => last.restart(),
    ],
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: fail-over to a synchronous standby',
    open: openServers,
    nodes: 2,
    faults: [
      async ({ store: { servers }, more }) => {
        await servers.addStandby(true);
        await more(100);
        await servers.failOver();
      },
    ],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: fail-over to an asynchronous standby that is behind',
    open: openServers,
    nodes: 2,
    faults: [
      replacing(async ({ servers }) => {
        const { proxy } = await servers.addStandby(false);
        proxy.blackhole();
        return servers.failOver;
      }),
    ],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: the restore of a base backup',
    open: openRestorable,
    nodes: 2,
    faults: [replacing(({ backUp }) => backUp())],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: wrong clocks of nodes',
    missing: noFaketime,
    open: openWithClocks,
    nodes: 2,
    faults: [
      wrongClocks(hour, 0),
      wrongClocks(0, -hour),
      wrongClocks(hour, -hour),
      wrongClocks(hour, hour),
    ],
    finish: checkInstants,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'Patroni and etcd choose the primary',
    missing: noPatroni,
    open: openPatroni,
    nodes: 2,
    faults: [
      ({ store: { patroni } }) => patroni.killPrimary(),
      ({ store: { patroni } }) => patroni.switchOver(),
      ({ store: { patroni } }) => patroni.freezePrimary(45_000),
      ({ store: { patroni } }) => patroni.freezeEtcd(30_000),
    ],
    longestMs: 120_000,
  }),
  nightOf({
    name: 'SQLite: twenty minutes of churn',
    open: openChurned,
    faults: [churn],
    rounds: 48,
    perSecond: 50,
    finish: finishChurn,
    longestMs: 30_000,
  }),
];

/** A mistake in the program, and what the night says then. */
export interface Plant {
  readonly night: string;
  readonly mutant: string;
  readonly shows: string;
  /** As the night says when absent. */
  readonly rounds?: number;
}

const isLost = 'acknowledged events are lost';
export const plants: readonly Plant[] = [
  { night: 'SQLite: kill -9', mutant: 'a cursor of what was taken', shows: isLost },
  {
    night: 'PostgreSQL: kills of the server',
    mutant: 'an acknowledgement before the commit',
    shows: isLost,
  },
  {
    night: 'PostgreSQL: lost connections of nodes that hear of events from another one',
    mutant: 'PostgreSQL: appended events without a notification of other nodes',
    shows: 'median of the delays',
  },
  {
    night: 'SQLite: twenty minutes of churn',
    mutant: 'buffers of readers that stay in memory',
    shows: 'arrayBufferBytes grew',
    rounds: 3,
  },
];

export function nightNamed(name: string): Night {
  const night = nights.find((one) => one.name === name);
  if (night === undefined) throw new Error(`No night is called "${name}".`);
  return night;
}
