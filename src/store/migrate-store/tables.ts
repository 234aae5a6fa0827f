import { dayMs } from '../../core/units.ts';
import { accessTables } from './access-tables.ts';
import { bytes, columnOf, integer, text, type Table } from './table.ts';

/**
 * The tables that a migration copies: all but `nodes`, whose rows describe processes that have
 * ended. No other file knows how the tables of the engines differ.
 */

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
  ...accessTables,
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
    name: 'delivery_stats',
    keyColumns: 5,
    columns: [
      integer('tenant'),
      text('stream'),
      text('unit'),
      integer('starts_at'),
      text('writer'),
      integer('published'),
      integer('delivered'),
      integer('failed'),
      integer('retried'),
      text('latency'),
      text('duration'),
    ],
  },
  {
    name: 'event_types',
    keyColumns: 2,
    columns: [integer('tenant'), text('type'), integer('last_offset'), integer('last_seen_at')],
  },
  {
    name: 'delivery_stats_sums',
    keyColumns: 1,
    columns: [text('unit'), integer('starts_at'), integer('last_tenant'), text('last_stream')],
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
      text('offsets'),
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
    name: 'redeliveries',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('selection'),
      text('work'),
      text('position'),
      integer('created_at'),
      text('created_by'),
      integer('cancelled_at'),
    ],
  },
  {
    name: 'redelivery_streams',
    keyColumns: 3,
    columns: [
      integer('tenant'),
      text('id'),
      text('stream'),
      integer('total'),
      integer('delivered'),
      integer('failed'),
      integer('skipped'),
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
      text('redelivery'),
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
