import { DatabaseSync } from 'node:sqlite';
import { startOf } from '../src/core/delivery-stats.ts';
import { dayMs, hourMs, minuteMs } from '../src/core/units.ts';
import type { Progress } from './bench.ts';
import { factsOf, factTypes } from './facts-store.ts';
import { healthOf } from './health-store.ts';
import type { TempStore } from './leat.ts';
import { execute, wordsOf } from './sql.ts';

/** Besides the streams and failures of `health`. */
export const consoleOf = { events: healthOf.events, streams: healthOf.streams, failures: 100_000 };

/** Ids of what single pages show. */
export interface ConsoleIds {
  /** A stream with failures, attempts and a history. */
  readonly stream: string;
  /** An event that this stream has failed to deliver. */
  readonly event: string;
  readonly redelivery: string;
  readonly dismissal: string;
  /** A change in the audit log. */
  readonly entry: string;
  readonly user: string;
}

/** What people did in a month, and how many they are. */
const pastOf = { redeliveries: 1000, entries: 100_000, users: 5000, days: 29 } as const;
/** Streams that each redelivery was about. */
const streamsOfRedelivery = 10;

/** Hours with statistics: of every stream, and of the tenant. */
const hoursOf = { stream: 24, tenant: 7 * 24 } as const;
/** Histograms of some forty deliveries. */
const latency = '19:30 22:8 26:2';

const { series } = wordsOf({ location: { engine: 'sqlite', path: '' } });
/** A table of the numbers from 1, as `n.i`. */
const units = (count: number): string => series(1, count);

/** Adds to the SQLite store of `health` what other pages than those of streams show. */
export function fillConsole(
  tempStore: TempStore,
  events: number,
  progress: Progress,
): Promise<void> {
  const now = Date.now();
  return execute(tempStore, [...statistics(now), ...past(now, events)], progress);
}

function statistics(now: number): string[] {
  const insert = `insert into delivery_stats (tenant, stream, unit, starts_at, writer, published,
    delivered, failed, retried, latency, duration)`;
  const hour = startOf('hour', now);
  const rows = (unit: string, from: number, spanMs: number, counts: string): string =>
    `'${unit}', ${from} - i * ${spanMs}, '', ${counts}, '${latency}', '${latency}'`;
  const minute = startOf('minute', now);
  return [
    `${insert} select 1, s.id, ${rows('hour', hour, hourMs, '0, 40, 1, 2')}
      from streams s, ${units(hoursOf.stream)}`,
    `${insert} select 1, '', ${rows('hour', hour, hourMs, '9000 + i % 24 * 500, 20000 + i % 24 * 1000, 100 + i, 300')}
      from ${units(hoursOf.tenant)}`,
    `${insert} select 1, '', ${rows('minute', minute, minuteMs, '150 + i % 60, 300 + i % 60, i % 7, 4')}
      from ${units(dayMs / minuteMs)}`,
    // Upkeep has nothing to add up.
    `insert into delivery_stats_sums (unit, starts_at, last_tenant, last_stream)
      values ('hour', ${hour}, 0, ''), ('day', ${startOf('day', now)}, 0, '')`,
  ];
}

/** The kinds of entries, in turns. */
const entryKinds = [
  ['sapi', 'Update an event stream'],
  ['seccft', 'Client credentials for an access token'],
  ['fapi', 'Refused: rate limit'],
  ['leat_stream_disabled', 'An event stream was disabled'],
] as const;

/** Redeliveries, a dismissal, entries of the audit log, users, and the types that the log has. */
function past(now: number, events: number): string[] {
  const stepOf = (count: number): number => Math.floor((pastOf.days * dayMs) / count);
  const entryAt = `${now} - i * ${stepOf(pastOf.entries)}`;
  const kind = (field: 0 | 1): string =>
    `case i % ${entryKinds.length} ${entryKinds.map((one, rest) => `when ${rest} then '${one[field]}'`).join(' ')} end`;
  return [
    `insert into redeliveries (tenant, id, selection, work, position, created_at, created_by)
      select 1, printf('rdl_%022d', i), '{"all":true}', 'none', '', ${now} - i * ${stepOf(pastOf.redeliveries)}, 'console'
      from ${units(pastOf.redeliveries)}`,
    `insert into redelivery_streams (tenant, id, stream, total, delivered, failed, skipped)
      select 1, printf('rdl_%022d', 1 + i / ${streamsOfRedelivery}), s.id, 500, 480, 15, 5
      from (select i - 1 as i from ${units(pastOf.redeliveries * streamsOfRedelivery)}) as n
      cross join streams s on s.tenant = 1 and s.name = 'stream-' || (i % ${factsOf.streams})`,
    `insert into dismissals (tenant, id, dismissed, skipped, created_at, created_by)
      values (1, printf('dsm_%022d', 1), 480, 20, ${now - dayMs}, 'console')`,
    `insert into audit_log (tenant, id, at, type, description, client, client_name, ip, user_agent, details, count)
      select 1, printf('log_%022d', i), ${entryAt}, ${kind(0)}, ${kind(1)}, 'cli_bench', 'Deployment', '192.0.2.7', 'curl/8.5.0',
        json_object('targets', json_array(s.id), 'method', 'PATCH', 'path', '/api/v2/event-streams/' || s.id), 1
      from ${units(pastOf.entries)} cross join streams s on s.tenant = 1 and s.name = 'stream-' || (i % ${factsOf.streams})`,
    `insert into audit_targets (tenant, id, target, type, client, at)
      select tenant, id, details ->> '$.targets[0]', type, client, at from audit_log where client = 'cli_bench'`,
    `insert into users (tenant, id, connection, email, password_hash, profile, created_at, updated_at)
      select 1, printf('leat|%024d', i), 'Username-Password-Authentication', 'user-' || i || '@example.com', 'none',
        json_object('email_verified', json('true'), 'name', 'User ' || i), ${now} - i * 60000, ${now} - i * 60000
      from ${units(pastOf.users)}`,
    `insert into event_types (tenant, type, last_offset, last_seen_at)
      select 1, 'bench.t' || (i - 1), ${events} - 100 + i, ${now} from ${units(factTypes.length)}`,
  ];
}

/** Reads the ids of what single pages show. A server that runs has the file for itself. */
export function consoleIds({ file }: TempStore): ConsoleIds {
  const db = new DatabaseSync(file, { readOnly: true });
  const id = (sql: string): string => String(db.prepare(sql).get()?.['id']);
  const stream = id(`select id from streams where tenant = 1 and name = 'stream-0'`);
  const ids = {
    stream,
    event: id(`select max(event_id) as id from deliveries where tenant = 1 and stream = '${stream}'
      and state = 'failed'`),
    redelivery: id(`select max(id) as id from redeliveries where tenant = 1`),
    dismissal: id(`select max(id) as id from dismissals where tenant = 1`),
    entry: id(`select max(id) as id from audit_log where tenant = 1 and client = 'cli_bench'
      and type = 'sapi'`),
    user: id(`select min(id) as id from users where tenant = 1`),
  };
  db.close();
  return ids;
}
