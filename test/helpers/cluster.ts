import { createTempStore, type Running, startLeat, waitFor } from './leat.ts';
import { startPooler } from './pooler.ts';
import {
  type PostgresOptions,
  throughPort,
  type PostgresServer,
  query,
  startPostgres,
} from './postgres.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

/** Leat nodes as processes on their own PostgreSQL, behind a network that can fail. */
export interface Cluster {
  readonly server: PostgresServer;
  readonly proxy: TcpProxy;
  /** The URL of the database itself, without the proxy. */
  readonly url: string;
  /** The URL that nodes have. */
  readonly proxiedUrl: string;
  /** Starts a node. `program`: the `main.ts` of another version. */
  start(settings?: Readonly<Record<string, string>>, program?: string): Promise<Running>;
  /** Queries the database itself. */
  query<Row extends object>(sql: string): Promise<Row[]>;
}

export interface NodeShown {
  readonly id: string;
  readonly streams: number;
  readonly lease_ms: number;
  readonly clock_skew_ms: number;
}

/** A test, or what ends its fixtures in its place. */
export interface Scope {
  after(end: () => Promise<void>): void;
}

/** Sessions of the server behind the pooler of a cluster. */
export const pooledSessions = 5;

export interface ClusterOptions {
  readonly pooled?: boolean;
  readonly postgres?: PostgresOptions;
}

/**
 * Starts a cluster that ends with the test. `pooled`: nodes reach the server through a pooler
 * that shares connections between transactions and refuses LISTEN.
 */
export async function startCluster(
  t: Scope,
  { pooled = false, postgres }: ClusterOptions = {},
): Promise<Cluster> {
  const server = await startPostgres(postgres);
  const tempStore = await createTempStore();
  const pooler = pooled
    ? await startPooler({
        port: server.port,
        serverConnections: pooledSessions,
        refuseListen: true,
      })
    : undefined;
  const proxy = await startTcpProxy(pooler?.port ?? server.port);
  const url = await server.createDatabase();
  const proxied = throughPort(url, proxy.port);
  const starts: Promise<Running>[] = [];
  t.after(async () => {
    // When several nodes start at once, one may fail before the others have started.
    const ended = await Promise.allSettled(starts);
    const nodes = ended.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    for (const node of nodes) node.child.kill('SIGCONT');
    await Promise.all(nodes.map((node) => node.kill()));
    await proxy.close();
    await pooler?.close();
    await server.close();
    await tempStore.remove();
  });
  return {
    server,
    proxy,
    url,
    proxiedUrl: proxied,
    start: (settings = {}, program) => {
      const cluster = { LEAT_STORE: proxied, LEAT_TENANT_DOMAIN: 'localhost:4444' };
      const starting = startLeat(tempStore, { ...cluster, ...settings }, program);
      starts.push(starting);
      return starting;
    },
    query: (sql) => query(url, sql),
  };
}

/** Returns the nodes as one of them reports them. */
export async function nodesOf(node: Pick<Running, 'url'>): Promise<readonly NodeShown[]> {
  const response = await fetch(`${node.url}/readyz`);
  const { nodes = [] } = (await response.json()) as { nodes?: readonly NodeShown[] };
  return nodes;
}

/** Waits until the live nodes own these numbers of streams, the largest first. */
export async function settled(node: Running, streams: readonly number[]): Promise<void> {
  const wanted = JSON.stringify(streams);
  let shown = '';
  const isSettled = async (): Promise<boolean> => {
    const nodes = await nodesOf(node).catch(() => []);
    const alive = nodes.filter(({ lease_ms: leaseMs }) => leaseMs > 0);
    const counts = alive.map((one) => one.streams).toSorted((one, other) => other - one);
    shown = JSON.stringify(counts);
    return shown === wanted;
  };
  await waitFor(`nodes with ${wanted} streams`, isSettled, { progress: () => shown });
}
