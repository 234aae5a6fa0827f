import { DatabaseSync } from 'node:sqlite';
import { dayMs, dayOf } from '../src/core/units.ts';
import { makeDays } from '../src/store/engine/postgres/partitions.ts';
import { addStream, type TempStore, withStore } from './leat.ts';
import { withClient } from './postgres.ts';

/** A store to fill; `url` is that of a PostgreSQL database. */
export interface FactsStore {
  readonly tempStore: TempStore;
  readonly url: string | undefined;
}

export const factsOf = { events: 10_000_000, streams: 1000 } as const;
/** The types of the events, in turns. */
export const factTypes = Array.from({ length: 100 }, (_, part) => `bench.t${part}`);

/** Streams with one type each, with all types and a filter, and disabled ones. */
const shares = { plain: 500, filtered: 480, disabled: 20 } as const;
const failing = 200;
const failuresOfStream = 500;
/** The newest share of the log that has a history. */
const historyShare = 0.1;
const retainedDays = 7;
const eventsAtOnce = 500_000;

/** Fills a store with events, streams, histories and failures. */
export async function fillFacts(
  { tempStore, url }: FactsStore,
  events: number,
  progress: (text: string) => void,
): Promise<void> {
  await withStore(tempStore, async (store) => {
    for (let index = 0; index < factsOf.streams; index += 1) {
      if (index % 100 === 0) progress(`creating streams: ${index} of ${factsOf.streams}`);
      await addStream(store, 9, { name: `stream-${index}`, ...optionsOf(index) });
    }
  });
  const statements = statementsFor(url === undefined ? 'sqlite' : 'postgres', events);
  if (url === undefined) fillSqlite(tempStore, statements, progress);
  else await fillPostgres(url, statements, progress);
}

function optionsOf(index: number): Omit<Parameters<typeof addStream>[2], 'name'> {
  const type = factTypes[index % factTypes.length] ?? '';
  if (index < shares.plain) return { types: [type] };
  const filter = JSON.stringify({ 'data.object.seq': { $gte: index, $lt: index + 1000 } });
  if (index < shares.plain + shares.filtered) return { types: factTypes, filter };
  return { types: factTypes, status: 'disabled' };
}

interface Statements {
  readonly days: readonly number[];
  readonly all: readonly { readonly what: string; readonly sql: string }[];
}

/** Returns the statements that fill the tables: the same for both engines but for a few words. */
function statementsFor(engine: 'sqlite' | 'postgres', events: number): Statements {
  const isPostgres = engine === 'postgres';
  const now = Date.now();
  const begin = now - (retainedDays - 1) * dayMs;
  const stepMs = (now - begin) / events;
  const at = `cast(${begin} + i * ${stepMs} as bigint)`;
  const series = (from: number, to: number): string =>
    isPostgres
      ? `generate_series(${from}::bigint, ${to}::bigint) as n(i)`
      : `(with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to}) select i from n) as n`;
  const id = isPostgres ? `'evt_' || lpad(i::text, 22, '0')` : `printf('evt_%022d', i)`;
  const text = (value: string): string => `cast(${value} as text)`;
  const body =
    `'{"id":"' || ${id} || '","source":"urn:leat:","specversion":"1.0","type":"bench.t' || ${text('i % 100')} ` +
    `|| '","time":"2026-03-01T09:30:00.000Z","data":{"object":{"order_id":"order-' || ${text('i')} ` +
    `|| '","seq":' || ${text('i % 100000')} || ',"plan":"pro","note":"${'x'.repeat(100)}"}},"leattenant":"main"}'`;
  const all: { what: string; sql: string }[] = [];
  for (let from = 1; from <= events; from += eventsAtOnce) {
    const to = Math.min(events, from + eventsAtOnce - 1);
    all.push({
      what: `events up to ${to} of ${events}`,
      sql: `insert into events (tenant, "offset", id, type, time, published_at, body)
        select 1, i, ${id}, 'bench.t' || ${text('i % 100')}, ${at}, ${at}, ${body} from ${series(from, to)}`,
    });
  }
  const number = 'cast(substr(s.name, 8) as integer)';
  const streams = (below: number): string =>
    `(select r.key, s.id, ${number} as nr from runs r join streams s on s.tenant = r.tenant and s.id = r.stream where ${number} < ${below}) as s`;
  const day = (value: string): string => (isPostgres ? `, ${value} / ${dayMs}, 1` : '');
  const dayColumns = isPostgres ? ', day, tenant' : '';
  const first = Math.floor(events * (1 - historyShare));
  for (let from = first; from < events; from += eventsAtOnce / 5) {
    const to = Math.min(events, from + eventsAtOnce / 5 - 1);
    all.push({
      what: `attempts of events up to ${to}`,
      sql: `insert into attempts (stream_key, event_key, at, duration_ms, outcome, status${dayColumns})
        select s.key, i, ${at}, 35.5, 1, 200${day(at)} from ${series(from, to)} join ${streams(shares.plain)} on s.nr % 100 = i % 100`,
    });
  }
  const failures = `${series(1, failuresOfStream)} cross join ${streams(failing)}`;
  const offset = '(100 * i + s.nr % 100)';
  const failedAt = `(cast(${begin} as bigint) + i)`;
  const failedDay = `${failedAt} / ${dayMs}`;
  const eventDay = `cast(${begin} + ${offset} * ${stepMs} as bigint) / ${dayMs}`;
  const failureDays = isPostgres ? `, ${eventDay}, ${failedDay}, ${failedDay}` : '';
  const failedId = isPostgres
    ? `'evt_' || lpad(${offset}::text, 22, '0')`
    : `printf('evt_%022d', ${offset})`;
  all.push(
    {
      what: 'failures',
      sql: `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt, failed_at, error_code${isPostgres ? ', event_day, attempts_from, attempts_to' : ''})
        select 1, s.id, ${failedId}, ${offset}, 'bench.t' || ${text('s.nr % 100')}, ${failedAt}, 'first', 'failed', 4, ${failedAt},
          case when i % 3 = 0 then 'timeout' else 'http_503' end${failureDays}
        from ${failures}`,
    },
    {
      what: 'attempts of failures',
      sql: `insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error${dayColumns})
        select s.key, ${offset}, ${failedAt}, 35.5, 2, 503, '503 - busy'${day(failedAt)} from ${failures}`,
    },
    {
      what: 'cursors',
      sql: `update runs set cursor = ${events}, first_offset = 0`,
    },
    {
      what: 'counters',
      sql: `update runs set total_failures = ${failuresOfStream} where stream in (select s.id from ${streams(failing)})`,
    },
    {
      what: 'the head',
      sql: `update tenants set head = ${events}, last_published_at = ${now}${isPostgres ? `, oldest_at = ${begin}` : ''} where id = 1`,
    },
    {
      what: 'skipped ranges',
      sql: `insert into skipped_ranges (tenant, stream, from_offset, to_offset, events, skipped_at)
        select 1, s.id, ${Math.floor(events / 4)}, ${Math.floor(events / 3)}, 7, ${now} from ${streams(50)}`,
    },
    {
      what: 'past selections',
      sql: `insert into past_selections (tenant, stream, after_offset, to_offset, types)
        select 1, s.id, i * ${Math.floor(events / 50)}, (i + 1) * ${Math.floor(events / 50)}, '["bench.t1","bench.t2"]'
        from ${series(0, 49)} cross join ${streams(100)}`,
    },
  );
  const days = Array.from({ length: retainedDays + 1 }, (_, index) => dayOf(begin) + index);
  return { days, all };
}

function fillSqlite(
  tempStore: TempStore,
  { all }: Statements,
  progress: (text: string) => void,
): void {
  const db = new DatabaseSync(tempStore.file);
  db.exec('pragma synchronous = off');
  for (const { what, sql } of all) {
    progress(what);
    db.exec(sql);
  }
  db.close();
}

async function fillPostgres(
  url: string,
  { days, all }: Statements,
  progress: (text: string) => void,
): Promise<void> {
  await withClient(url, async (client) => {
    const script = async (sql: string): Promise<void> => void (await client.query(sql));
    await makeDays({ script }, 'events', days);
    await makeDays({ script }, 'attempts', days);
    for (const { what, sql } of all) {
      progress(what);
      await client.query(sql);
    }
    progress('statistics');
    await script('select leat_fill_log_days()');
    await script('analyze');
  });
}
