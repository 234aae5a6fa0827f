import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { dayMs, dayOf } from '../src/core/units.ts';
import { startDump } from '../test/helpers/dump.ts';
import { freePort } from '../test/helpers/ports.ts';
import { query } from '../test/helpers/postgres.ts';
import { twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure, Progress, RunOptions } from './bench.ts';
import { type Receiver, withReceiver } from './child.ts';
import { addStream, type Engine, startLeat, type TempStore, withStore } from './leat.ts';
import { onBoth, urlOf } from './postgres.ts';
import { wait } from './proc.ts';
import { against, figure, ratioFigure } from './report.ts';
import { alternate, pick, quantile } from './rounds.ts';
import { createDays, execute, wordsOf } from './sql.ts';
import { arrivalDelays, postSteadily } from './steady.ts';

const perSecond = 200;
const seconds = 30;
/** A node that has just started compiles its code, and reads all failures once. */
const warmUpSeconds = 10;
const rowsDefault = 10_000_000;
const scale = { tenants: 5000, days: 365, streams: 10, failures: 5000 };
/** Retentions by which nothing is old: the side without upkeep. */
const keepAll = {
  LEAT_EVENT_RETENTION_DAYS: '3650',
  LEAT_ATTEMPT_RETENTION_DAYS: '3650',
  LEAT_LAG_MAX_DAYS: '3650',
};

/** The effect of upkeep on publishing and delivering, and whether it completes. */
export const upkeep: Bench = {
  name: 'upkeep',
  what: `p99 at ${perSecond} events a second while old days are removed and a session reads every table, against the same store with nothing to remove`,
  run: (progress, options) =>
    withReceiver(['--seq'], (receiver) =>
      onBoth((engine) => figuresOf({ engine, receiver }, options, progress)),
    ),
};

interface Where {
  readonly engine: Engine;
  readonly receiver: Receiver;
}

/** A store with much to remove. */
interface Filled {
  readonly tempStore: TempStore;
  /** Called in the middle of the load. */
  halfway(): Promise<unknown>;
  /** A number that falls during upkeep, to 0 when it completes. */
  falling(): Promise<number>;
  /** Old days, or rows and pages, that remain when the node has ended. */
  left(): Promise<number>;
  bytes(): Promise<number>;
}

interface Measured {
  readonly publish: number;
  readonly deliver: number;
  readonly left: number;
  /** Share of the former size of the store. */
  readonly size: number;
}

async function figuresOf(
  where: Where,
  { rounds, events: rows = rowsDefault }: RunOptions,
  progress: Progress,
): Promise<Figure[]> {
  const name = where.engine.name === 'SQLite' ? 'sqlite' : 'postgres';
  const measureWith = (settings: Readonly<Record<string, string>>) => async () =>
    measure(await makeFilled(where.engine, rows, progress), settings, where.receiver);
  const seen = await alternate(rounds, measureWith({}), measureWith(keepAll), (text) =>
    progress(`${name}: ${text}`),
  );
  const p99 = (kind: 'publish' | 'deliver'): Figure => {
    const ms = pick(seen, (one) => one[kind]);
    const about = { detail: against(ms, 'ms'), most: 1.5, goal: 1 };
    return ratioFigure(`${name} ${kind} p99`, ms, about);
  };
  const plain = (what: 'left' | 'size', detail: string, most: number): Figure =>
    figure(
      `${name} ${what}`,
      '',
      seen.ours.map((one) => one[what]),
      { detail, most },
    );
  return [
    p99('publish'),
    p99('deliver'),
    plain('left', 'old days, or rows and free pages, that are still there at the end', 0),
    plain('size', 'of the store at the end, of that at the beginning', 1),
  ];
}

async function makeFilled(engine: Engine, rows: number, progress: Progress): Promise<Filled> {
  const tempStore = await engine.createTempStore();
  await withStore(tempStore, () => Promise.resolve());
  if (engine.name === 'PostgreSQL') {
    await createDays(tempStore, today - scale.days, today - 1);
    await execute(tempStore, statementsFor(tempStore, rows), progress);
    const url = urlOf(tempStore);
    const backup = await startDump(url);
    const numberOf = async (sql: string): Promise<number> =>
      Number((await query<{ number: string }>(url, sql))[0]?.number);
    const left = (): Promise<number> => numberOf(oldDays);
    const bytes = (): Promise<number> =>
      numberOf('select pg_database_size(current_database()) as number');
    return { tempStore, halfway: () => backup.end(), falling: left, left, bytes };
  }
  await execute(tempStore, statementsFor(tempStore, Math.ceil(rows / 10)), progress);
  // The file belongs to a node while it runs.
  const bytes = (): Promise<number> => Promise.resolve(statSync(tempStore.file).size);
  const left = (): Promise<number> => Promise.resolve(oldRowsAndSpace(tempStore.file));
  return { tempStore, halfway: () => Promise.resolve(), falling: bytes, left, bytes };
}

/** Publishes at the rate; then waits until nothing is left to remove, if anything was. */
async function measure(
  filled: Filled,
  settings: Readonly<Record<string, string>>,
  receiver: Receiver,
): Promise<Measured> {
  const { tempStore } = filled;
  await withStore(tempStore, (store) => addStream(store, receiver.port, { name: 'latency' }));
  const before = await filled.bytes();
  // Otherwise the first commits wait for earlier writes to the disk.
  execFileSync('sync');
  // With many tenants the host with its port chooses the tenant.
  const leat = await startLeat(tempStore, { ...settings, ...twoTenantsSettings(await freePort()) });
  await receiver.reset();
  const load = { perSecond, seconds: warmUpSeconds + seconds };
  const [posted] = await Promise.all([
    postSteadily([leat], load),
    wait(load.seconds / 2).then(filled.halfway),
  ]);
  const deliver = await arrivalDelays(receiver, posted, 'answeredMs');
  const publish = posted.map(({ sentMs, answeredMs }) => answeredMs - sentMs);
  if (settings !== keepAll) await untilItRests(filled);
  await leat.end();
  const left = settings === keepAll ? 0 : await filled.left();
  const size = (await filled.bytes()) / before;
  await tempStore.remove();
  const p99 = (ms: readonly number[]): number =>
    quantile(ms.slice(perSecond * warmUpSeconds), 0.99);
  return { publish: p99(publish), deliver: p99(deliver), left, size };
}

/** Waits until a minute, one round of upkeep, has passed without progress. */
async function untilItRests(filled: Filled): Promise<void> {
  let last = await filled.falling();
  for (let idle = 0; last > 0 && idle < 90; idle += 1) {
    await wait(1);
    const now = await filled.falling();
    if (now < last) idle = 0;
    last = now;
  }
}

const today = dayOf(Date.now());

const oldDays = `select count(*) as number from pg_class
  where relkind = 'r' and relname ~ '^(events|attempts)_d' and
    substring(relname from '\\d+$')::int < ${today - 8}`;

/** Returns the rows to remove, and the free pages beyond those that a file keeps. */
function oldRowsAndSpace(file: string): number {
  const db = new DatabaseSync(file, { readOnly: true });
  const old = (today - 8) * dayMs;
  const count = (sql: string): number => Number(Object.values(db.prepare(sql).get() ?? {})[0]);
  const rows =
    count(`select count(*) from events where published_at < ${old}`) +
    count(`select count(*) from attempts where at < ${old}`);
  const pages = Math.max(0, count('pragma freelist_count') - 1024);
  db.close();
  return rows + pages;
}

/** The history of one day, including the attempts of failures; on PostgreSQL with the tables of a year. */
function statementsFor(tempStore: TempStore, rows: number): string[] {
  const { either, series } = wordsOf(tempStore);
  const { tenants, streams, failures } = scale;
  // A file has something to free; a day is dropped, whatever it has.
  const events = either(String(failures), '100000');
  const day = today - 10;
  const at = day * dayMs;
  const body = either(`repeat('x', 1000)`, `printf('%1000s', i)`);
  const bytes = either(`''`, `x''`);
  const insertEvents = 'insert into events (tenant, "offset", id, type, time, published_at, body)';
  return [
    `update tenants set head = ${events}, last_published_at = ${at} where id = 1`,
    `insert into tenants (name, domain, head, last_published_at, created_at)
      select 'tenant-' || i, i || '.example.com', 1, ${at}, 1 from ${series(2, tenants)}`,
    `${insertEvents} select 1, i, 'evt_' || i, 'old.made', ${at}, ${at}, ${body} from ${series(1, Number(events))}`,
    `${insertEvents} select i, 1, 'evt_1', 'old.made', ${at}, ${at}, ${body} from ${series(2, tenants)}`,
    `insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
        version, created_at, updated_at)
      select 1, 'est_' || i, 'old ' || i, 'disabled', '[]', ${bytes}, ${bytes}, 1, 1, 1
      from ${series(1, streams)}`,
    `insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
      select 1, 'est_' || i, 0, 1, 0, ${failures}, 0 from ${series(1, streams)}`,
    `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
        failed_at${either(', event_day, attempts_from, attempts_to')})
      select 1, s.id, 'evt_' || i, i, 'old.made', ${at}, 'first', 'failed', 4,
        ${at}${either(`, ${day}, ${day}, ${day}`)}
      from ${series(1, failures)} cross join streams s`,
    `insert into attempts (stream_key, event_key, at, duration_ms, outcome${either(', day, tenant')})
      select (select min(key) from runs) + i % ${streams}, i / ${streams}, ${at}, 1.5,
        1${either(`, ${day}, 1`)}
      from ${series(1, rows)}`,
  ];
}
