import { dayMs, dayOf } from '../src/core/units.ts';
import type { Progress } from './bench.ts';
import { addStreams, type StreamOptions, type TempStore, withStore } from './leat.ts';
import { createDays, execute, wordsOf } from './sql.ts';

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
  tempStore: TempStore,
  events: number,
  progress: Progress,
): Promise<void> {
  const streams = Array.from({ length: factsOf.streams }, (_, index) => optionsOf(index));
  await withStore(tempStore, (store) => addStreams(store, 9, streams, progress));
  const today = dayOf(Date.now());
  await createDays(tempStore, today - retainedDays, today + 1);
  await execute(tempStore, statementsFor(tempStore, events), progress);
}

function optionsOf(index: number): StreamOptions {
  const type = factTypes[index % factTypes.length] ?? '';
  if (index < shares.plain) return { types: [type] };
  const filter = JSON.stringify({ 'data.object.seq': { $gte: index, $lt: index + 1000 } });
  if (index < shares.plain + shares.filtered) return { types: factTypes, filter };
  return { types: factTypes, status: 'disabled' };
}

function statementsFor(tempStore: TempStore, events: number): string[] {
  const { either, series, id } = wordsOf(tempStore);
  const now = Date.now();
  const begin = now - (retainedDays - 1) * dayMs;
  const stepMs = (now - begin) / events;
  const at = `cast(${begin} + i * ${stepMs} as bigint)`;
  const text = (value: string): string => `cast(${value} as text)`;
  const body =
    `'{"id":"' || ${id('evt_', 'i')} || '","source":"urn:leat:","specversion":"1.0","type":"bench.t' || ${text('i % 100')} ` +
    `|| '","time":"2026-03-01T09:30:00.000Z","data":{"object":{"order_id":"order-' || ${text('i')} ` +
    `|| '","seq":' || ${text('i % 100000')} || ',"plan":"pro","note":"${'x'.repeat(100)}"}},"leattenant":"main"}'`;
  const parts = (from: number, step: number, insert: (range: string) => string): string[] => {
    const count = Math.ceil((events - from + 1) / step);
    return Array.from({ length: count }, (_, part) => {
      const first = from + part * step;
      return insert(series(first, Math.min(events, first + step - 1)));
    });
  };
  const number = 'cast(substr(s.name, 8) as integer)';
  const streams = (below: number): string =>
    `(select r.key, s.id, ${number} as nr from runs r join streams s on s.tenant = r.tenant and s.id = r.stream where ${number} < ${below}) as s`;
  const day = (value: string): string => either(`, ${value} / ${dayMs}, 1`);
  const dayColumns = either(', day, tenant');
  const failures = `${series(1, failuresOfStream)} cross join ${streams(failing)}`;
  const offset = '(100 * i + s.nr % 100)';
  const failedAt = `(cast(${begin} as bigint) + i)`;
  const failedDay = `${failedAt} / ${dayMs}`;
  const eventDay = `cast(${begin} + ${offset} * ${stepMs} as bigint) / ${dayMs}`;
  return [
    ...parts(
      1,
      eventsAtOnce,
      (range) => `insert into events (tenant, "offset", id, type, time, published_at, body)
        select 1, i, ${id('evt_', 'i')}, 'bench.t' || ${text('i % 100')}, ${at}, ${at}, ${body} from ${range}`,
    ),
    ...parts(
      Math.floor(events * (1 - historyShare)),
      eventsAtOnce / 5,
      (
        range,
      ) => `insert into attempts (stream_key, event_key, at, duration_ms, outcome, status${dayColumns})
        select s.key, i, ${at}, 35.5, 1, 200${day(at)} from ${range} join ${streams(shares.plain)} on s.nr % 100 = i % 100`,
    ),
    `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt, failed_at, error_code${either(', event_day, attempts_from, attempts_to')})
      select 1, s.id, ${id('evt_', offset)}, ${offset}, 'bench.t' || ${text('s.nr % 100')}, ${failedAt}, 'first', 'failed', 4, ${failedAt},
        case when i % 3 = 0 then 'timeout' else 'http_503' end${either(`, ${eventDay}, ${failedDay}, ${failedDay}`)}
      from ${failures}`,
    `insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error${dayColumns})
      select s.key, ${offset}, ${failedAt}, 35.5, 2, 503, '503 - busy'${day(failedAt)} from ${failures}`,
    `update runs set cursor = ${events}, first_offset = 0`,
    `update runs set total_failures = ${failuresOfStream} where stream in (select s.id from ${streams(failing)})`,
    `update tenants set head = ${events}, last_published_at = ${now}${either(`, oldest_at = ${begin}`)} where id = 1`,
    `insert into skipped_ranges (tenant, stream, from_offset, to_offset, events, skipped_at)
      select 1, s.id, ${Math.floor(events / 4)}, ${Math.floor(events / 3)}, 7, ${now} from ${streams(50)}`,
    `insert into past_selections (tenant, stream, after_offset, to_offset, types)
      select 1, s.id, i * ${Math.floor(events / 50)}, (i + 1) * ${Math.floor(events / 50)}, '["bench.t1","bench.t2"]'
      from ${series(0, 49)} cross join ${streams(100)}`,
  ];
}
