import type { OverviewDeps } from '../directory/overview.ts';
import type { StoreFault } from '../port/overview.ts';
import type { Queries } from './database.ts';

/** Returns what only this engine knows of itself. */
export function engineOverview(db: Queries): OverviewDeps['engine'] {
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
