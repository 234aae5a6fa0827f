import type { RemovalPlace, RemovalQuery } from '../port/tenants.ts';
import { type Command, sql, type Statement } from './command.ts';
import { oneOf, perDialect, postgresOnly, verbatim } from './dialect.ts';

/** The result of a step of removing a tenant. */
interface RemovalStep {
  readonly removed: number;
  readonly isDone: boolean;
  /** Streams that were removed. */
  readonly streams: readonly string[];
  readonly tookMs?: number | undefined;
  readonly next?: RemovalPlace | undefined;
}

/** What an engine removes in its own way. */
export interface Removals {
  /** Called before the runs of these streams are deleted. */
  readonly beforeRuns: (tenant: number, streams: readonly string[]) => Command<unknown>;
  /** Runs a statement that deletes rows. */
  readonly timed: (statement: Statement<number>) => Command<Removed>;
  /** The tables whose rows are found in another way than those of {@link tables}. */
  readonly others: readonly Remove[];
}

export interface Removed {
  readonly removed: number;
  /** How long the server worked on it; absent where the caller measures the same. */
  readonly tookMs?: number | undefined;
  /** Where the next call goes on in the same table. */
  readonly after?: readonly number[] | undefined;
  readonly streams?: readonly string[] | undefined;
}

/** Removes at most `take` rows of a tenant from one table. */
export type Remove = (tenant: number, take: number, after: readonly number[]) => Command<Removed>;

const start: RemovalPlace = { table: 0, after: [] };

/**
 * Removes at most `take` rows of a tenant that is being removed. It goes on where the last step ended: each
 * look at an empty table is a round trip. The removal is done once one step has found all tables empty.
 */
export function* removeStep(
  tenant: number,
  { take, from = start }: RemovalQuery,
  { beforeRuns, timed, others }: Removals,
): Command<RemovalStep> {
  if (!(yield* isLeaving(tenant))) return { removed: 0, isDone: true, streams: [] };
  const removes: readonly Remove[] = [
    (...given) => removeStreams(...given, beforeRuns),
    ...statements.map(
      (statement): Remove =>
        (...[of, rows]) =>
          timed(statement(of, rows)),
    ),
    ...others,
  ];
  const isWhole = from.table === 0 && from.after.length === 0;
  const rest = removes.map((_, table) => table).slice(from.table);
  for (const [index, table] of [...rest, ...(isWhole ? [] : removes.keys())].entries()) {
    const remove = removes[table] as Remove;
    const {
      removed,
      tookMs,
      after = [],
      streams = [],
    } = yield* remove(tenant, take, index === 0 ? from.after : []);
    if (removed > 0) return { removed, isDone: false, streams, tookMs, next: { table, after } };
  }
  const removed = yield* sql.run`delete from leaving_tenants where id = ${tenant} ${whenKnown}`;
  return { removed, isDone: !(yield* isLeaving(tenant)), streams: [] };
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
  _after: readonly number[],
  beforeRuns: Removals['beforeRuns'],
): Command<Removed> {
  const rows = yield* sql.all<{ id: string }>`
    select id from streams where tenant = ${tenant} order by id limit ${take}`;
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return { removed: 0 };
  yield* beforeRuns(tenant, ids);
  yield* sql.run`delete from runs where tenant = ${tenant} and stream ${oneOf(ids)}`;
  yield* sql.run`delete from streams where tenant = ${tenant} and id ${oneOf(ids)}`;
  return { removed: 2 * ids.length, streams: ids };
}

/**
 * Tables by the columns that identify a row of one tenant, those first that grant access. With the tenant
 * before them they are an index of PostgreSQL, where a scan of the table would pass over all that the steps
 * before have removed.
 */
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
  deliveries: 'event_id, stream',
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

const found = (columns: string) => ({
  row: perDialect({
    sqlite: `(${columns}) in (select ${columns}`,
    postgres: 'ctid = any(array(select ctid',
  }),
  order: perDialect({ sqlite: '', postgres: `order by ${columns}` }),
  end: perDialect({ sqlite: ')', postgres: '))' }),
});

const statements = Object.entries(tables).map(([name, columns]) => {
  const table = verbatim(name);
  const { row, order, end } = found(columns);
  return (tenant: number, take: number): Statement<number> => sql.run`
    delete from ${table} where tenant = ${tenant} and ${row} from ${table}
      where tenant = ${tenant} ${order} limit ${take}${end}`;
});
