import { type PostgresServer, postgresServers } from '../core/postgres-url.ts';
import type { Config } from '../config.ts';
import type { NodeState } from '../store/port/ownership.ts';
import type { ServerState } from '../store/port/overview.ts';
import { bad, type Finding, note, ok, warn } from './finding.ts';
import { isLocalHost } from './settings-findings.ts';
import { countText } from './table.ts';

/** Checks the settings of the PostgreSQL server, and how the nodes reach it. */
export function databaseFindings(
  server: ServerState,
  { store, storeConnections }: Pick<Config, 'store' | 'storeConnections'>,
  nodes: readonly NodeState[],
): Finding[] {
  const servers = store.engine === 'postgres' ? serversOf(store.url) : [];
  const live = nodes.filter(({ leaseMs }) => leaseMs > 0).length;
  return [
    databaseVersionFinding(server.majorVersion),
    durabilityFinding(server),
    encryptionFinding(servers),
    replicationFinding(server, servers),
    connectionsFinding(server.connectionsMax, live, storeConnections),
    ...roleFindings(server),
    ...poolerFindings(server),
    note(
      'database disk',
      'leat doctor cannot see how much is free',
      'alert on the free disk of the PostgreSQL server: publishing fails with 503 when it is full',
    ),
  ];
}

function serversOf(url: string): readonly PostgresServer[] {
  const named = postgresServers(url);
  return 'problem' in named ? [] : named.servers;
}

const majorVersions = { oldest: 15, newest: 18 } as const;

/** Older versions than the oldest one are reported, and newer ones, which no test has run on. */
export function databaseVersionFinding(major: number): Finding {
  const { oldest, newest } = majorVersions;
  const tested = `Leat is tested with ${oldest} to ${newest}`;
  if (major >= oldest && major <= newest) return ok('database version', tested);
  const text = `PostgreSQL ${major}; ${tested}`;
  if (major < oldest) return bad('database version', text, 'upgrade PostgreSQL');
  return warn('database version', text, 'use a version that is tested, or a newer Leat');
}

function durabilityFinding({ fsync, synchronousCommit, fullPageWrites }: ServerState): Finding {
  const lost = 'a power cut loses acknowledged events';
  if (!fsync) return bad('durability', `fsync is off: ${lost}, or the database`, 'set fsync = on');
  if (synchronousCommit === 'off') {
    const next = 'set synchronous_commit = on';
    return bad('durability', `synchronous_commit is off: ${lost}`, next);
  }
  if (!fullPageWrites) {
    return warn(
      'durability',
      'full_page_writes is off: a power cut may damage the database',
      'set full_page_writes = on, unless the file system never writes parts of pages',
    );
  }
  return ok(
    'durability',
    `fsync and full_page_writes are on, synchronous_commit is ${synchronousCommit}`,
  );
}

/** Checks the encryption that the URLs ask for. What node-postgres makes of `sslmode`: others than these verify the certificate. */
export function encryptionFinding(servers: readonly PostgresServer[]): Finding {
  const remote = servers.flatMap(({ name, url }) => {
    const { hostname, searchParams } = new URL(url);
    const host = searchParams.get('host') ?? decodeURIComponent(hostname);
    const isHere = host === '' || host.startsWith('/') || isLocalHost(host);
    return isHere ? [] : [{ name, mode: modeOf(searchParams) }];
  });
  const plain = remote.find(({ mode }) => mode === 'plain');
  const next = 'add sslmode=verify-full to LEAT_STORE, with sslrootcert=<file> for your own CA';
  if (plain !== undefined) {
    return warn('database tls', `connections to ${plain.name} are not encrypted`, next);
  }
  const unverified = remote.find(({ mode }) => mode === 'unverified');
  if (unverified !== undefined) {
    return warn('database tls', `the certificate of ${unverified.name} is not verified`, next);
  }
  if (remote.length === 0) return ok('database tls', 'not needed: the server is on this machine');
  return ok('database tls', 'connections are encrypted, and certificates are verified');
}

function modeOf(parameters: URLSearchParams): 'plain' | 'unverified' | 'verified' {
  const mode = parameters.get('sslmode');
  const isCompatible = parameters.get('uselibpqcompat') === 'true';
  if (mode === 'disable') return 'plain';
  if (mode === 'no-verify' || (isCompatible && mode !== 'verify-full' && mode !== null)) {
    return 'unverified';
  }
  if (mode !== null || parameters.has('sslrootcert') || parameters.has('sslcert')) {
    return 'verified';
  }
  return ['true', '1'].includes(parameters.get('ssl') ?? '') ? 'verified' : 'plain';
}

/** Replication by the storage of a provider is not visible in the server, so nothing here is a fault. */
function replicationFinding(
  { replicas, synchronousStandbys, synchronousCommit }: ServerState,
  servers: readonly PostgresServer[],
): Finding {
  const count = `${countText(replicas)} ${replicas === 1 ? 'replica is' : 'replicas are'} connected`;
  if (replicas === 0) {
    return note(
      'replication',
      'no replica is connected: a lost disk loses what no backup has',
      'create one, docs/postgres.md#fail-over, unless your provider replicates the disk',
    );
  }
  if (synchronousStandbys === '' || synchronousCommit === 'local') {
    return note(
      'replication',
      `${count}, and commits do not wait: a fail-over may lose acknowledged events`,
      'set synchronous_standby_names (and synchronous_commit = on) to lose none: docs/postgres.md#fail-over',
    );
  }
  if (servers.length === 1) {
    return note(
      'replication',
      `${count}, but LEAT_STORE names one server`,
      'name all of them, unless their address moves to the new primary: postgres://…@db-1,db-2/…',
    );
  }
  return ok('replication', `${count}, and commits wait: ${synchronousStandbys}`);
}

function connectionsFinding(max: number, live: number, each: number): Finding {
  const nodes = Math.max(live, 1);
  const text = `${countText(nodes * each)} of ${countText(max)} are for ${countText(nodes)} ${nodes === 1 ? 'node' : 'nodes'}`;
  const next = 'raise max_connections of the server, or lower LEAT_STORE_CONNECTIONS';
  if (nodes * each > max) return bad('connections', text, next);
  if ((nodes + 1) * each <= max) return ok('connections', text);
  return warn('connections', `${text}, which leaves too few for one more during an upgrade`, next);
}

function poolerFindings({ isPooled, foreignSettings }: ServerState): Finding[] {
  if (!isPooled) return [];
  if (foreignSettings.length === 0) return [ok('pooler', 'no other client alters its sessions')];
  return [
    warn(
      'pooler',
      `another client left ${foreignSettings.join(', ')} in its sessions`,
      'give Leat a user of its own, whose pool nothing else uses: docs/postgres.md#poolers',
    ),
  ];
}

function roleFindings({ isSuperuser }: ServerState): Finding[] {
  if (!isSuperuser) return [];
  return [
    warn(
      'database user',
      'is a superuser, who can do anything on the database server',
      'use a role without SUPERUSER that owns the database',
    ),
  ];
}
