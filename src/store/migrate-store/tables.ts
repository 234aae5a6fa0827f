import { dayMs } from '../../core/units.ts';

/**
 * The tables that a migration copies: all but `nodes`, whose rows describe processes that have
 * ended. No other file knows how the tables of the engines differ.
 */

/** `bytes` are sent as hexadecimal text, so that a row is the same JSON on both sides. */
type Kind = 'integer' | 'real' | 'text' | 'bytes' | 'boolean';

export type Cell = string | number | boolean | null;

/** In the order of the columns of its table. */
export type TableRow = readonly Cell[];

/** The cells of a row that order the table. */
export type RowKey = readonly Cell[];

export interface TableColumn {
  readonly name: string;
  readonly kind: Kind;
  /** The SQL expression on SQLite, where it has no column of that name. */
  readonly source?: string;
}

export interface Table {
  readonly name: string;
  /** Number of leading columns that are the key; rows are copied and compared in its order. */
  readonly keyColumns: number;
  readonly columns: readonly TableColumn[];
  /** The SQL that SQLite reads instead of the table of that name. */
  readonly from?: string;
  /** The identity column: PostgreSQL numbers it automatically, and SQLite with `autoincrement`. */
  readonly identity?: string;
}

const integer = (name: string, source?: string): TableColumn => columnOf(name, 'integer', source);
const text = (name: string): TableColumn => columnOf(name, 'text');
const bytes = (name: string): TableColumn => columnOf(name, 'bytes');
const boolean = (name: string): TableColumn => columnOf(name, 'boolean');

function columnOf(name: string, kind: Kind, source?: string): TableColumn {
  return source === undefined ? { name, kind } : { name, kind, source };
}

/** Of keys that sign tokens, and of those that sign webhooks. */
const columnsOfKeys: readonly TableColumn[] = [
  integer('number'),
  integer('tenant'),
  text('kid'),
  bytes('private_jwk'),
  integer('created_at'),
  integer('signs_from'),
  integer('expires_at'),
];

/** `key_check` comes last: a store without it was never completed. */
export const migratedTables: readonly Table[] = [
  {
    name: 'tenants',
    keyColumns: 1,
    identity: 'id',
    columns: [
      integer('id'),
      text('name'),
      text('domain'),
      integer('head'),
      integer('last_published_at'),
      // SQLite deletes what it prunes, always from the beginning of the log.
      integer(
        'pruned_to',
        'coalesce((select min(e."offset") - 1 from events e where e.tenant = tenants.id), head)',
      ),
      integer('created_at'),
    ],
  },
  {
    name: 'signing_keys',
    keyColumns: 1,
    identity: 'number',
    columns: columnsOfKeys,
  },
  {
    name: 'webhook_keys',
    keyColumns: 1,
    identity: 'number',
    columns: columnsOfKeys,
  },
  {
    name: 'clients',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('name'),
      boolean('global'),
      text('issuer'),
      text('secret_hash'),
      text('jwks'),
      text('carried'),
      integer('version'),
      integer('credentials_version'),
      integer('created_at'),
    ],
  },
  {
    name: 'assertions',
    keyColumns: 3,
    columns: [integer('tenant'), text('client'), text('jti'), integer('expires_at')],
  },
  {
    name: 'apis',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('identifier'),
      text('name'),
      text('scopes'),
      boolean('enforce_policies'),
      text('token_dialect'),
      integer('token_lifetime_seconds'),
      text('carried'),
      integer('created_at'),
    ],
  },
  {
    name: 'grants',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('client'),
      text('api'),
      text('scope'),
      text('carried'),
    ],
  },
  {
    name: 'users',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('connection'),
      text('email'),
      text('username'),
      text('password_hash'),
      text('profile'),
      integer('created_at'),
      integer('updated_at'),
    ],
  },
  {
    name: 'roles',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('name'),
      text('description'),
      text('carried'),
      integer('created_at'),
    ],
  },
  {
    name: 'role_permissions',
    keyColumns: 4,
    columns: [integer('tenant'), text('role'), text('api'), text('name')],
  },
  {
    name: 'role_clients',
    keyColumns: 3,
    columns: [integer('tenant'), text('role'), text('client')],
  },
  {
    name: 'role_users',
    keyColumns: 3,
    columns: [integer('tenant'), text('role'), text('user')],
  },
  {
    name: 'streams',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('name'),
      text('status'),
      text('subscriptions'),
      bytes('destination'),
      integer('certificate_expires_at'),
      text('certificate_reported'),
      text('delivery'),
      integer('paused_at'),
      text('pause_reason'),
      integer('filtered'),
      bytes('signing_secrets'),
      integer('version'),
      integer('created_at'),
      integer('updated_at'),
      integer('disabled_at'),
      text('disabled_reason'),
      integer('disabled_since'),
      text('disabled_code'),
      integer('lag_reported'),
      integer('lag_at'),
    ],
  },
  {
    // Owner, claim and unseen describe a node, and no stream has an owner after a migration.
    name: 'runs',
    keyColumns: 1,
    identity: 'key',
    columns: [
      integer('key'),
      integer('tenant'),
      text('stream'),
      integer('cursor'),
      integer('run'),
      integer('consecutive_failures'),
      integer('total_failures'),
      integer('epoch'),
      integer('paused_ms'),
      integer('last_delivered_at'),
      integer('last_failed_at'),
      text('last_error_code'),
      text('settled_above'),
      integer('first_offset'),
    ],
  },
  {
    name: 'stream_stats',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('stream'),
      integer('hour'),
      integer('delivered'),
      integer('failed'),
    ],
  },
  {
    name: 'skipped_ranges',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('stream'),
      integer('from_offset'),
      integer('to_offset'),
      integer('events'),
      integer('at_least'),
      integer('skipped_at'),
    ],
  },
  {
    name: 'past_selections',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('stream'),
      integer('after_offset'),
      integer('to_offset'),
      text('types'),
      text('filter'),
    ],
  },
  {
    name: 'dismissed_events',
    keyColumns: 3,
    columns: [integer('tenant'), integer('offset'), text('stream')],
  },
  {
    name: 'replays',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('stream'),
      text('id'),
      integer('from_offset'),
      integer('position'),
      integer('to_offset'),
      integer('passed'),
      text('event_types'),
      integer('matched'),
      integer('sent'),
      integer('failed'),
      text('status'),
      integer('created_at'),
      integer('finished_at'),
    ],
  },
  {
    name: 'dismissals',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      integer('dismissed'),
      integer('skipped'),
      integer('created_at'),
      text('created_by'),
    ],
  },
  {
    name: 'deliveries',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('stream'),
      text('event_id'),
      integer('offset'),
      text('type'),
      integer('time'),
      text('kind'),
      text('state'),
      integer('attempt'),
      integer('due_at'),
      integer('failed_at'),
      integer('cycle_at'),
      text('error_code'),
      text('order_key'),
      integer(
        'event_day',
        `(select e.published_at / ${dayMs} from events e
          where e.tenant = deliveries.tenant and e.offset = deliveries.offset)`,
      ),
      text('body'),
      text('trace'),
    ],
  },
  {
    name: 'attempts',
    keyColumns: 1,
    // Kept entries are those of day 0 on PostgreSQL. Their numbers are below those of the others.
    from: `(
      select rowid as number, "at" / ${dayMs} as day, stream_key, event_key, "at", duration_ms,
        outcome, status, error from attempts
      union all
      select number, 0, stream_key, event_key, "at", duration_ms, outcome, status, error
      from attempts_kept)`,
    columns: [
      // The order in which attempts ended, on both sides.
      integer('number'),
      integer('day'),
      // 0, which no tenant has, for the history of a stream that was deleted.
      integer('tenant', 'coalesce((select r.tenant from runs r where r.key = stream_key), 0)'),
      integer('stream_key'),
      integer('event_key'),
      integer('at'),
      columnOf('duration_ms', 'real'),
      integer('outcome'),
      integer('status'),
      text('error'),
    ],
  },
  {
    name: 'kept_events',
    keyColumns: 2,
    columns: [integer('tenant'), integer('offset'), text('id'), text('body'), text('trace')],
  },
  {
    name: 'events',
    keyColumns: 2,
    // Without the events above the head, which an unfinished append has left. `cross join` fixes
    // the order of the join.
    from: `(
      select events.* from events cross join tenants on tenants.id = events.tenant
      where events."offset" <= tenants.head)`,
    columns: [
      integer('tenant'),
      integer('offset'),
      text('id'),
      text('type'),
      integer('time'),
      integer('published_at'),
      text('body'),
      text('trace'),
    ],
  },
  {
    name: 'alert_states',
    keyColumns: 1,
    columns: [integer('tenant'), integer('at'), text('state')],
  },
  {
    name: 'audit_log',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      integer('at'),
      text('type'),
      text('description'),
      text('client'),
      text('client_name'),
      text('ip'),
      text('user_agent'),
      text('details'),
      integer('count'),
    ],
  },
  {
    name: 'audit_targets',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('id'),
      text('target'),
      text('type'),
      text('client'),
      integer('at'),
    ],
  },
  { name: 'key_check', keyColumns: 1, columns: [integer('id'), bytes('sealed')] },
];

export function keyOf({ keyColumns }: Table, row: TableRow): RowKey {
  return row.slice(0, keyColumns);
}

/** Returns the name of a row in messages: `events (tenant 1, offset 17)`. */
export function nameOfRow({ name, columns }: Table, key: RowKey): string {
  const parts = key.map((cell, index) => `${columns[index]?.name} ${JSON.stringify(cell)}`);
  return `${name} (${parts.join(', ')})`;
}
