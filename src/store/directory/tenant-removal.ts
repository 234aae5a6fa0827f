import { type Command, sql } from './command.ts';
import { oneOf, postgresOnly, verbatim } from './dialect.ts';

/** The result of a step of removing a tenant. */
interface RemovalStep {
  readonly removed: number;
  readonly isDone: boolean;
  /** Streams that were removed. */
  readonly streams: readonly string[];
}

/** What an engine removes in its own way. */
export interface Removals {
  /** Called before the runs of these streams are deleted. */
  readonly beforeRuns: (tenant: number, streams: readonly string[]) => Command<unknown>;
  /** The tables whose rows are found in another way than those of {@link tables}. */
  readonly others: readonly Remove[];
}

/** Removes at most `take` rows of a tenant from one table, and returns how many. */
export type Remove = (tenant: number, take: number) => Command<number>;

/** Removes at most `take` rows of a tenant that is being removed. */
export function* removeStep(
  tenant: number,
  take: number,
  { beforeRuns, others }: Removals,
): Command<RemovalStep> {
  if (!(yield* isLeaving(tenant))) return { removed: 0, isDone: true, streams: [] };
  const streams = yield* removeStreams(tenant, take, beforeRuns);
  if (streams.length > 0) return { removed: 2 * streams.length, isDone: false, streams };
  for (const remove of [...removals, ...others]) {
    const removed = yield* remove(tenant, take);
    if (removed > 0) return { removed, isDone: false, streams };
  }
  const removed = yield* sql.run`delete from leaving_tenants where id = ${tenant} ${whenKnown}`;
  return { removed, isDone: !(yield* isLeaving(tenant)), streams };
}

function* isLeaving(tenant: number): Command<boolean> {
  return (yield* sql.get`select 1 from leaving_tenants where id = ${tenant}`) !== undefined;
}

/**
 * Minimum time between the first step and the last, for a store with several nodes: by then every
 * node has read that the tenant is gone, even if a hint did not reach it, and nothing is added any
 * more.
 */
const whenKnown = postgresOnly`and begun_at < clock_timestamp() - interval '7 s'`;

/** Streams are removed first: an owner that finds its stream gone sends nothing more. */
function* removeStreams(
  tenant: number,
  take: number,
  beforeRuns: Removals['beforeRuns'],
): Command<string[]> {
  const rows = yield* sql.all<{ id: string }>`
    select id from streams where tenant = ${tenant} order by id limit ${take}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return ids;
  yield* beforeRuns(tenant, ids);
  yield* sql.run`delete from runs where tenant = ${tenant} and stream ${oneOf(ids)}`;
  yield* sql.run`delete from streams where tenant = ${tenant} and id ${oneOf(ids)}`;
  return ids;
}

/** Tables by the columns that identify a row of one tenant, those first that grant access. */
const tables: Readonly<Record<string, string>> = {
  signing_keys: 'number',
  webhook_keys: 'number',
  console_codes: 'code_hash',
  console_sessions: 'id',
  clients: 'id',
  grants: 'id',
  assertions: 'client, jti',
  apis: 'id',
  role_users: 'role, "user"',
  role_clients: 'role, client',
  role_permissions: 'role, api, name',
  roles: 'id',
  users: 'id',
  deliveries: 'stream, event_id',
  replays: 'stream, id',
  dismissal_streams: 'id, stream',
  dismissals: 'id',
  redelivery_streams: 'id, stream',
  redeliveries: 'id',
  stream_stats: 'stream, hour',
  delivery_stats: 'stream, unit, starts_at, writer',
  skipped_ranges: 'stream, from_offset',
  past_selections: 'stream, after_offset',
  dismissed_events: '"offset", stream',
  event_types: 'type',
  kept_events: '"offset"',
  alert_states: 'tenant',
  audit_targets: 'id, target',
  audit_log: 'id',
};

const removals = Object.entries(tables).map(([name, key]): Remove => {
  const [table, columns] = [verbatim(name), verbatim(key)];
  return function* remove(tenant, take) {
    return yield* sql.run`
      delete from ${table} where tenant = ${tenant} and (${columns}) in
        (select ${columns} from ${table} where tenant = ${tenant} limit ${take})`;
  };
});
