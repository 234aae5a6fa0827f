import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from './cluster.ts';
import { freePort } from './ports.ts';
import { query, unprivilegedOwner } from './postgres.ts';
import { type Program, programPath, startProgram } from './program.ts';
import { waitFor } from './wait.ts';

/** Three servers of PostgreSQL under real Patroni and etcd, of the packages of Debian. */
export interface PatroniCluster {
  /** A `LEAT_STORE` with all servers. */
  readonly url: string;
  ask<Row extends object>(sql: string): Promise<Row[]>;
  /** Kills the primary and its Patroni, waits for another primary, and starts Patroni there again. */
  killPrimary(): Promise<void>;
  switchOver(): Promise<void>;
  /** Stops all processes of the primary and its Patroni for so long. */
  freezePrimary(lastsMs: number): Promise<void>;
  freezeEtcd(lastsMs: number): Promise<void>;
}

const versions = '/usr/lib/postgresql';
const database = 'leat';

/** Returns why this machine cannot start it. */
export function noPatroni(): string | false {
  const missing = ['patroni', 'etcd', 'pgrep'].find((name) => programPath(name) === undefined);
  if (missing !== undefined) return `${missing} is not installed`;
  return existsSync(versions) ? false : `${versions} has no PostgreSQL`;
}

interface Server {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  readonly data: string;
  readonly folder: string;
  program: Program;
}

export async function startPatroni(scope: Scope): Promise<PatroniCluster> {
  const owner = unprivilegedOwner();
  const folderOf = async (): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), 'leat-patroni-'));
    if (owner !== undefined) chownSync(folder, owner.uid, owner.gid);
    return folder;
  };
  const [etcdPort, peerPort] = [await freePort(), await freePort()];
  const etcdFolder = await folderOf();
  const [client, peer] = [etcdPort, peerPort].map((port) => `http://127.0.0.1:${port}`);
  const etcdArgs = [`--data-dir=${etcdFolder}/data`, `--listen-client-urls=${client}`].concat(
    [`--advertise-client-urls=${client}`, `--listen-peer-urls=${peer}`],
    [`--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`],
  );
  const etcd = await startProgram('etcd', {
    args: etcdArgs,
    folder: etcdFolder,
    port: etcdPort,
    ...owner,
  });
  const servers: Server[] = [];
  scope.after(async () => {
    for (const { program, data } of servers) {
      const pids = processesOf(program, data);
      signal(pids, 'SIGCONT');
      signal(pids, 'SIGKILL');
    }
    for (const { program } of servers) await program.close();
    signal([etcd.pid], 'SIGCONT');
    await etcd.close();
  });
  const start = ({ folder, restPort }: Omit<Server, 'program'>): Promise<Program> => {
    const env = { PATH: process.env['PATH'] ?? '', HOME: folder, LC_ALL: 'C.UTF-8' };
    const args = [join(folder, 'patroni.yml')];
    return startProgram('patroni', { args, folder, port: restPort, env, ...owner });
  };
  const isLeader = async ({ restPort }: Server): Promise<boolean> => {
    const options = { signal: AbortSignal.timeout(2000) };
    const response = await fetch(`http://127.0.0.1:${restPort}/leader`, options).catch(
      () => undefined,
    );
    await response?.arrayBuffer().catch(() => undefined);
    return response?.status === 200;
  };
  const primary = (except?: Server): Promise<Server> =>
    waitFor('a primary', async () => {
      for (const one of servers) if (one !== except && (await isLeader(one))) return one;
      return undefined;
    });
  const urlOf = ({ port }: Server, name: string) =>
    `postgres://leat:leat@127.0.0.1:${port}/${name}`;
  const ask: PatroniCluster['ask'] = async (sql) => query(urlOf(await primary(), database), sql);
  /** Waits until commits wait for a replica and each other server is one. */
  const ready = async (): Promise<void> => {
    let last: unknown;
    const isReady = async (): Promise<boolean> => {
      const sql = `select sync_state from pg_stat_replication where state = 'streaming'`;
      const rows = await query<{ sync_state: string }>(
        urlOf(await primary(), 'postgres'),
        sql,
      ).catch(() => []);
      last = rows;
      return rows.length === servers.length - 1 && rows.some((row) => row.sync_state === 'sync');
    };
    await waitFor('two replicas, a synchronous one of them', isReady, { progress: () => last });
  };

  for (const name of ['one', 'two', 'three']) {
    const folder = await folderOf();
    const [port, restPort, data] = [await freePort(), await freePort(), join(folder, 'data')];
    const server = { name, port, restPort, data, folder };
    await writeFile(join(folder, 'patroni.yml'), settingsOf(server, etcdPort));
    await mkdir(data, { mode: 0o700 });
    if (owner !== undefined) chownSync(data, owner.uid, owner.gid);
    servers.push({ ...server, program: await start(server) });
    if (name === 'one') await primary();
  }
  await ready();
  await query(urlOf(await primary(), 'postgres'), `create database ${database}`);
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(',');
  return {
    url: `postgres://leat:leat@${hosts}/${database}?target_session_attrs=read-write`,
    ask,
    killPrimary: async () => {
      const killed = await primary();
      signal(processesOf(killed.program, killed.data), 'SIGKILL');
      await primary(killed);
      killed.program = await start(killed);
      await ready();
    },
    switchOver: async () => {
      const former = await primary();
      const body = JSON.stringify({ leader: former.name });
      const response = await fetch(`http://127.0.0.1:${former.restPort}/switchover`, {
        method: 'POST',
        body,
      });
      if (!response.ok) throw new Error(`switchover: ${response.status} ${await response.text()}`);
      await ready();
    },
    freezePrimary: async (lastsMs) => {
      const frozen = await primary();
      const pids = processesOf(frozen.program, frozen.data);
      signal(pids, 'SIGSTOP');
      await sleep(lastsMs);
      signal(pids, 'SIGCONT');
      await ready();
    },
    freezeEtcd: async (lastsMs) => {
      signal([etcd.pid], 'SIGSTOP');
      await sleep(lastsMs);
      signal([etcd.pid], 'SIGCONT');
      await ready();
    },
  };
}

function settingsOf(
  { name, port, restPort, data, folder }: Omit<Server, 'program'>,
  etcdPort: number,
): string {
  const [version = ''] = readdirSync(versions).toSorted().toReversed();
  const address = (at: number) => ({
    listen: `127.0.0.1:${at}`,
    connect_address: `127.0.0.1:${at}`,
  });
  // JSON is YAML.
  return JSON.stringify({
    scope: 'leat',
    name,
    restapi: address(restPort),
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        ttl: 20,
        loop_wait: 5,
        retry_timeout: 5,
        primary_start_timeout: 0,
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: { use_pg_rewind: true, parameters: { fsync: 'off', wal_log_hints: 'on' } },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, { auth: 'trust' }],
    },
    postgresql: {
      ...address(port),
      data_dir: data,
      bin_dir: `${versions}/${version}/bin`,
      pgpass: join(folder, 'pgpass'),
      authentication: {
        superuser: { username: 'leat', password: 'leat' },
        replication: { username: 'replicator', password: 'leat' },
      },
      parameters: { unix_socket_directories: folder },
      pg_hba: [
        'local all all trust',
        'host all all 127.0.0.1/32 trust',
        'host replication all 127.0.0.1/32 trust',
      ],
    },
  });
}

/** Returns the processes of Patroni, of its PostgreSQL, and of the sessions of that. */
function processesOf({ pid }: Program, data: string): number[] {
  const file = join(data, 'postmaster.pid');
  const postmaster = existsSync(file) ? Number.parseInt(readFileSync(file, 'utf8'), 10) : 0;
  if (postmaster === 0) return [pid];
  try {
    const sessions = execFileSync('pgrep', ['-P', `${postmaster}`], { encoding: 'utf8' });
    return [pid, postmaster, ...sessions.trim().split('\n').map(Number)];
  } catch {
    return [pid, postmaster];
  }
}

function signal(pids: readonly number[], name: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended already.
    }
  }
}
