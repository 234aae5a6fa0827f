import type { OverviewDeps } from '../../commands/overview.ts';
import type { ServerState, StoreFault } from '../../port/overview.ts';
import type { Queries } from './database.ts';
import type { Hosts } from './hosts.ts';

/** Returns what only this engine knows of itself. */
export function engineOverview(db: Queries, hosts: Hosts): OverviewDeps['engine'] {
  return {
    engine: async () => {
      const row = await db.get<{ version: string; now: number }>`
        select current_setting('server_version') as version,
          (extract(epoch from clock_timestamp()) * 1000)::bigint as now`;
      return { name: `PostgreSQL ${row?.version ?? ''}`, now: row?.now };
    },
    server: () => serverState(db, hosts),
    faults: async () => [...(await pastTheEnd(db)), ...(await numbersGivenTwice(db))],
    size: async () => {
      const row = await db.get<{ bytes: number }>`
        select pg_database_size(current_database()) as bytes`;
      return { bytes: row?.bytes ?? 0, freeBytes: undefined, shrinks: undefined };
    },
  };
}

async function serverState(db: Queries, hosts: Hosts): Promise<ServerState | undefined> {
  await sampleSessions(hosts);
  const row = await serverRow(db);
  if (row === undefined) return undefined;
  const { sessions } = hosts;
  return {
    ...row,
    isPooled: sessions.areShared(),
    foreignSettings: [...sessions.foreign].toSorted(),
  };
}

const sampledSessions = 8;

/** Opens several connections at the same time, because a pooler gives each of them another session. */
async function sampleSessions({ Client, sessions }: Hosts): Promise<void> {
  if (!sessions.areShared()) return;
  const clients = Array.from({ length: sampledSessions }, () => new Client());
  await Promise.allSettled(clients.map((client) => client.connect()));
  await Promise.allSettled(clients.map((client) => client.end()));
}

async function serverRow(
  db: Queries,
): Promise<Omit<ServerState, 'isPooled' | 'foreignSettings'> | undefined> {
  // A limit of -1 is none. reserved_connections is a setting of PostgreSQL 16 and later.
  return db.get`
    select current_setting('server_version_num')::integer / 10000 as "majorVersion",
      current_setting('fsync')::boolean as fsync,
      current_setting('full_page_writes')::boolean as "fullPageWrites",
      current_setting('synchronous_commit') as "synchronousCommit",
      current_setting('synchronous_standby_names') as "synchronousStandbys",
      (select count(*)::integer from pg_stat_replication) as replicas,
      least(
        current_setting('max_connections')::integer
          - current_setting('superuser_reserved_connections')::integer
          - coalesce(current_setting('reserved_connections', true)::integer, 0),
        (select nullif(datconnlimit, -1) from pg_database where datname = current_database()),
        (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user)
      ) as "connectionsMax",
      (select rolsuper from pg_roles where rolname = current_user) as "isSuperuser"`;
}

const dataOnly =
  'restore a whole dump into an empty database, with all nodes stopped: docs/backup.md';

async function pastTheEnd(db: Queries): Promise<StoreFault[]> {
  const rows = await db.all<{ name: string }>`
    select t.name from tenants t
    where exists (select 1 from events e where e.tenant = t.id and e."offset" > t.head)`;
  return rows.map(({ name }) => ({
    said: `the log of ${name} has events past its end`,
    next: dataOnly,
  }));
}

/** A restore of the data alone may leave the sequences lower than the rows. */
async function numbersGivenTwice(db: Queries): Promise<StoreFault[]> {
  const row = await db.get<{
    tenants: boolean;
    runs: boolean;
    signing_keys: boolean;
    webhook_keys: boolean;
  }>`
    select
      exists (select 1 from tenants where id >= (select case when is_called then last_value + 1
        else last_value end from tenants_id_seq)) as tenants,
      exists (select 1 from runs where key >= (select case when is_called then last_value + 1
        else last_value end from runs_key_seq)) as runs,
      exists (select 1 from signing_keys where number >= (select case when is_called
        then last_value + 1 else last_value end from signing_keys_number_seq)) as signing_keys,
      exists (select 1 from webhook_keys where number >= (select case when is_called
        then last_value + 1 else last_value end from webhook_keys_number_seq)) as webhook_keys`;
  const wrong = Object.entries(row ?? {}).filter((entry) => entry[1]);
  return wrong.map(([table]) => ({
    said: `the next number for the table ${table} is taken already`,
    next: dataOnly,
  }));
}
