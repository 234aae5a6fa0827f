import type { Offset } from '../../core/types.ts';
import type {
  OverviewStore,
  StoreFault,
  StreamPosition,
  TenantOverview,
} from '../port/overview.ts';
import type { Queries } from './database.ts';
import { daysMax, publicationOf, stretchOf } from './log-days.ts';

/** Creates the store of sizes and counts. Every query reads a bounded number of events. */
export function createOverviewStore({ db }: { readonly db: Queries }): OverviewStore {
  return {
    engine: async () => {
      const row = await db.get<{ version: string; now: number }>`
        select current_setting('server_version') as version,
          (extract(epoch from clock_timestamp()) * 1000)::bigint as now`;
      return { name: `PostgreSQL ${row?.version ?? ''}`, now: row?.now };
    },
    faults: async () => [...(await pastTheEnd(db)), ...(await numbersGivenTwice(db))],
    size: async () => {
      const row = await db.get<{ bytes: number }>`
        select pg_database_size(current_database()) as bytes`;
      return { bytes: row?.bytes ?? 0, freeBytes: undefined, shrinks: undefined };
    },
    tenant: (id) => overview(db, id),
    behind: (tenant, take) => behind(db, tenant, take),
  };
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
  const row = await db.get<{ tenants: boolean; runs: boolean; keys: boolean }>`
    select
      exists (select 1 from tenants where id >= (select case when is_called then last_value + 1
        else last_value end from tenants_id_seq)) as tenants,
      exists (select 1 from runs where key >= (select case when is_called then last_value + 1
        else last_value end from runs_key_seq)) as runs,
      exists (select 1 from signing_keys where number >= (select case when is_called
        then last_value + 1 else last_value end from signing_keys_number_seq)) as keys`;
  const wrong = Object.entries(row ?? {}).filter((entry) => entry[1]);
  return wrong.map(([table]) => ({
    said: `the next number for the table ${table === 'keys' ? 'signing_keys' : table} is taken already`,
    next: dataOnly,
  }));
}

async function overview(db: Queries, tenant: number): Promise<TenantOverview | undefined> {
  const [edges, streams] = await Promise.all([edgesOf(db, tenant), streamsOf(db, tenant)]);
  if (edges === undefined) return undefined;
  const { head, pruned, oldest, newest } = edges;
  const events = head - pruned;
  const cursor = Math.max(streams?.cursor ?? head, pruned);
  const { enabled = 0, failing = 0, disabled = 0, failures = 0 } = streams ?? {};
  return {
    head,
    events,
    aboutBytes: Math.round(events * (await averageBytes(db, tenant, edges))),
    oldestPublishedAt: oldest ?? undefined,
    newestPublishedAt: newest ?? undefined,
    streams: { enabled, failing, disabled },
    openFailures: failures,
    lag: { events: head - cursor, since: await publicationOf(db, tenant, cursor + 1) },
  };
}

interface Edges {
  readonly head: Offset;
  readonly pruned: Offset;
  readonly oldest: number | null;
  readonly newest: number | null;
}

async function edgesOf(db: Queries, tenant: number): Promise<Edges | undefined> {
  return db.get`
    select head, pruned_to as pruned, leat_published_at(id, pruned_to + 1) as oldest,
      case when head > pruned_to then last_published_at end as newest
    from tenants where id = ${tenant}`;
}

async function streamsOf(db: Queries, tenant: number) {
  return db.get<{
    enabled: number;
    failing: number;
    disabled: number;
    failures: number;
    cursor: Offset | null;
  }>`
    select count(*) filter (where s.status = 'enabled' and r.consecutive_failures = 0)::int as enabled,
      count(*) filter (where s.status = 'enabled' and r.consecutive_failures > 0)::int as failing,
      count(*) filter (where s.status = 'disabled')::int as disabled,
      coalesce(sum(r.total_failures), 0)::int as failures,
      min(r.cursor) filter (where s.status = 'enabled') as cursor
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant}`;
}

/**
 * Returns the bytes of a body, averaged over the oldest and the newest hundred, or those of them in
 * few days.
 */
async function averageBytes(db: Queries, tenant: number, { head, pruned }: Edges): Promise<number> {
  const [oldest, newest] = await Promise.all([
    bytesOf(db, tenant, { after: pruned, upTo: Math.min(pruned + 100, head) }),
    bytesOf(db, tenant, { after: Math.max(head - 100, pruned + 100), upTo: head }),
  ]);
  return (oldest.bytes + newest.bytes) / Math.max(oldest.count + newest.count, 1);
}

async function bytesOf(
  db: Queries,
  tenant: number,
  range: { readonly after: Offset; readonly upTo: Offset },
): Promise<{ readonly bytes: number; readonly count: number }> {
  const { upTo, from, to } = await stretchOf(db, tenant, range, daysMax);
  const row = await db.get<{ bytes: number; count: number }>`
    select coalesce(sum(octet_length(body)), 0)::float8 as bytes, count(*) as count from events
    where tenant = ${tenant} and "offset" > ${range.after} and "offset" <= ${upTo}
      and published_at >= ${from} and published_at < ${to}`;
  return row ?? { bytes: 0, count: 0 };
}

async function behind(db: Queries, tenant: number, take: number): Promise<StreamPosition[]> {
  const rows = await db.all<
    Pick<StreamPosition, 'id' | 'name' | 'status' | 'cursor' | 'events'> & { since: number | null }
  >`
    select s.id, s.name, s.status, r.cursor, t.head - greatest(r.cursor, t.pruned_to) as events,
      leat_published_at(t.id, greatest(r.cursor, t.pruned_to) + 1) as since
    from tenants t
    join runs r on r.tenant = t.id and r.cursor < t.head
    join streams s on s.tenant = r.tenant and s.id = r.stream and s.status = 'enabled'
    where t.id = ${tenant}
    order by r.cursor, s.id limit ${take}`;
  return rows.map(({ since, ...row }) => ({ ...row, since: since ?? undefined }));
}
