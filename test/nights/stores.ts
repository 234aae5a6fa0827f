import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import type { Scope } from '../helpers/cluster.ts';
import { type Servers, startServers } from '../helpers/failover.ts';
import { createTempStore, type TempStore } from '../helpers/leat.ts';
import { type PatroniCluster, startPatroni } from '../helpers/patroni.ts';
import { startPgBouncer } from '../helpers/pgbouncer.ts';
import { type PostgresServer, query, startPostgres, throughPort } from '../helpers/postgres.ts';
import { createFaketime, type Faketime } from '../helpers/faketime.ts';
import { createBaseBackup } from '../helpers/standby.ts';
import { createSlowDisk, type SlowDisk } from '../helpers/slow-disk.ts';
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts';
import { eventType } from '../helpers/traffic.ts';
import type { NightStore } from './night.ts';

/** The databases of nights. */

export interface SqliteStore extends NightStore, Pick<TempStore, 'file' | 'folder'> {}

/** On a disk that can be slow, failing or full. */
export async function openSqliteOnDisk(scope: Scope): Promise<SqliteStore & { disk: SlowDisk }> {
  const disk = createSlowDisk();
  scope.after(() => disk.remove());
  return { ...(await openSqlite(scope)), disk, settings: () => disk.env };
}

export async function openSqlite(scope: Scope): Promise<SqliteStore> {
  const { file, folder, remove } = await createTempStore();
  scope.after(remove);
  return {
    file,
    folder,
    url: () => `sqlite:${file}`,
    // The program keeps the file to itself.
    ids: ([node]) =>
      node.without(() => {
        const database = new DatabaseSync(file, { readOnly: true });
        const rows = database.prepare('select id from events where type = ?').all(eventType);
        database.close();
        return rows.map((row) => String(row['id']));
      }),
  };
}

export interface PostgresStore extends NightStore {
  readonly server: PostgresServer;
  /** Between each node, 0-indexed, and the server. */
  proxy(node: number): TcpProxy;
  ask<Row extends object>(sql: string): Promise<Row[]>;
  /** Runs statements in a session of their own, which ends after this time with what it has begun. */
  hold(lastsMs: number, ...statements: string[]): Promise<void>;
}

/** A primary that dies, and a standby that takes its place. */
export async function openServers(scope: Scope): Promise<Alerted & { servers: Servers }> {
  const servers = await startServers(scope);
  return { servers, url: () => servers.url, ids: servers.ids, ...(await openAlerts(scope)) };
}

/** Its nodes send alerts. */
export interface Alerted extends NightStore {
  readonly alerts: AlertReceiver;
}

async function openAlerts(scope: Scope): Promise<Pick<Alerted, 'alerts' | 'settings'>> {
  const alerts = await startAlertReceiver();
  scope.after(() => alerts.close());
  return { alerts, settings: () => ({ LEAT_ALERT_WEBHOOK_URL: alerts.url }) };
}

export interface Restorable extends Alerted {
  /** Backs up the server; the work that is returned puts the backup in its place. */
  backUp(): Promise<() => Promise<void>>;
}

/** A server whose data are replaced by an earlier copy. */
export async function openRestorable(scope: Scope): Promise<Restorable> {
  let server = await startPostgres();
  scope.after(() => server.close());
  const url = await server.createDatabase();
  return {
    ...(await openAlerts(scope)),
    url: () => url,
    ids: () => idsOf(url),
    backUp: async () => {
      const backup = await createBaseBackup(scope, server);
      return async () => {
        server = await backup.restore(server);
      };
    },
  };
}

/** The wall clock of each node can be set. */
export async function openWithClocks(
  scope: Scope,
  nodes: number,
): Promise<PostgresStore & { clocks: readonly Faketime[] }> {
  const clocks = Array.from({ length: nodes }, () => createFaketime(scope));
  const store = await openPostgres(scope, nodes);
  // Otherwise a node that is an hour ahead accepts no token from before.
  const lifetime = { LEAT_MANAGEMENT_TOKEN_SECONDS: '86400' };
  return { ...store, clocks, settings: (node) => ({ ...lifetime, ...clocks[node]?.env }) };
}

async function idsOf(url: string): Promise<readonly string[]> {
  const rows = await query<{ id: string }>(url, 'select id from events');
  return rows.map(({ id }) => id);
}

/** Three servers whose primary Patroni chooses. */
export async function openPatroni(scope: Scope): Promise<NightStore & { patroni: PatroniCluster }> {
  const patroni = await startPatroni(scope);
  return {
    patroni,
    url: () => patroni.url,
    ids: async () =>
      (await patroni.ask<{ id: string }>('select id from events')).map(({ id }) => id),
  };
}

/** Behind PgBouncer in transaction mode. */
export async function openPooled(scope: Scope, nodes: number): Promise<PostgresStore> {
  const server = await startPostgres();
  scope.after(() => server.close());
  const pooler = await startPgBouncer(10, server);
  scope.after(pooler.close);
  return openServer(scope, nodes, server, pooler.port);
}

export async function openPostgres(scope: Scope, nodes: number): Promise<PostgresStore> {
  const server = await startPostgres();
  scope.after(() => server.close());
  return openServer(scope, nodes, server, server.port);
}

async function openServer(
  scope: Scope,
  nodes: number,
  server: PostgresServer,
  port: number,
): Promise<PostgresStore> {
  const url = await server.createDatabase();
  const proxies: TcpProxy[] = [];
  scope.after(async () => void (await Promise.all(proxies.map((proxy) => proxy.close()))));
  while (proxies.length < nodes) proxies.push(await startTcpProxy(port));
  const proxy = (node: number): TcpProxy => {
    const found = proxies[node];
    if (found === undefined) throw new Error(`no node ${node}`);
    return found;
  };
  return {
    server,
    proxy,
    url: (node) => throughPort(url, proxy(node).port),
    ids: () => idsOf(url),
    ask: (sql) => query(url, sql),
    hold: async (lastsMs, ...statements) => {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => undefined);
      await client.connect();
      for (const statement of statements) await client.query(statement);
      await sleep(lastsMs);
      await client.end();
    },
  };
}
