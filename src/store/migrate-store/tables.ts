/**
 * What a move from one engine to the other carries: every table but `nodes`, whose rows are about
 * processes that are gone. The one place that knows how the tables of the engines differ.
 */

/** `bytes` travel as hexadecimal text, so that a row is the same JSON on both sides. */
type Kind = 'integer' | 'real' | 'text' | 'bytes' | 'boolean';

export type Cell = string | number | boolean | null;

/** In the order of the columns of its table. */
export type TableRow = readonly Cell[];

/** The cells of a row that order the table. */
export type RowKey = readonly Cell[];

export interface TableColumn {
  readonly name: string;
  readonly kind: Kind;
  /** How SQLite answers it, where it has no column of that name. */
  readonly source?: string;
}

export interface Table {
  readonly name: string;
  /** How many of the first columns are the key; rows travel and are compared in its order. */
  readonly keyColumns: number;
  readonly columns: readonly TableColumn[];
  /** What SQLite reads instead of the table of that name. */
  readonly from?: string;
  /** The column that PostgreSQL numbers by itself, and SQLite with `autoincrement`. */
  readonly identity?: string;
}

const dayMs = 86_400_000;

const integer = (name: string, source?: string): TableColumn => columnOf(name, 'integer', source);
const text = (name: string): TableColumn => columnOf(name, 'text');
const bytes = (name: string): TableColumn => columnOf(name, 'bytes');
const boolean = (name: string): TableColumn => columnOf(name, 'boolean');

function columnOf(name: string, kind: Kind, source?: string): TableColumn {
  return source === undefined ? { name, kind } : { name, kind, source };
}

/** `key_proof` comes last: a store without it was never completed. */
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
    columns: [
      integer('number'),
      integer('tenant'),
      text('kid'),
      bytes('private_jwk'),
      integer('created_at'),
      integer('signs_from'),
      integer('expires_at'),
    ],
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
      integer('version'),
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
      integer('created_at'),
    ],
  },
  {
    name: 'grants',
    keyColumns: 2,
    columns: [integer('tenant'), text('id'), text('client'), text('api'), text('scope')],
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
      bytes('signing_secrets'),
      integer('version'),
      integer('created_at'),
      integer('updated_at'),
      integer('disabled_at'),
      text('disabled_reason'),
      integer('lag_told'),
      integer('lag_at'),
    ],
  },
  {
    // Owner, claim and unseen are about a node, and nobody owns a stream after a move.
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
    // Kept entries are those of day 0 there. Their numbers are below those of the others.
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
    // Not what an append that did not end has left above the head. The join is crossed: in this order.
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
  { name: 'looks', keyColumns: 1, columns: [integer('tenant'), integer('at'), text('state')] },
  { name: 'key_proof', keyColumns: 1, columns: [integer('id'), bytes('sealed')] },
];

export function keyOf({ keyColumns }: Table, row: TableRow): RowKey {
  return row.slice(0, keyColumns);
}

/** How messages name a row: `events (tenant 1, offset 17)`. */
export function nameOfRow({ name, columns }: Table, key: RowKey): string {
  const parts = key.map((cell, index) => `${columns[index]?.name} ${JSON.stringify(cell)}`);
  return `${name} (${parts.join(', ')})`;
}
