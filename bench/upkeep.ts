import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { dayMs } from '../src/core/units.ts';
import { startDump } from '../test/helpers/dump.ts';
import { freePort } from '../test/helpers/ports.ts';
import type pg from 'pg';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { type Receiver, startReceiver } from './child.ts';
import {
  addStream,
  endNodes,
  createTempStore as createSqliteTempStore,
  orderData,
  type TempStore,
  startNodes,
  withStore,
} from './leat.ts';
import { withClient, withPostgres } from './postgres.ts';
import { median, quantile } from './rounds.ts';

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
  run: async (progress, options) => {
    const receiver = await startReceiver('--seq');
    try {
      const onPostgres = await withPostgres(async ({ createTempStore }) =>
        figuresOf('postgres', progress, options, receiver, async () => {
          const tempStore = await createTempStore();
          await withStore(tempStore, () => Promise.resolve());
          await withClient(tempStore.url, async (client) => {
            await fillPostgres(client, options);
            // Work that remains from filling must not be measured.
            await client.query('vacuum analyze');
            await client.query('checkpoint');
          });
          const backup = await startDump(tempStore.url);
          return {
            tempStore,
            halfway: () => backup.end(),
            falling: () => withClient(tempStore.url, oldDays),
            left: () => withClient(tempStore.url, oldDays),
            bytes: () => withClient(tempStore.url, databaseBytes),
          };
        }),
      );
      const onSqlite = await figuresOf('sqlite', progress, options, receiver, async () => {
        const tempStore = await createSqliteTempStore();
        const file = join(tempStore.folder, 'leat.db');
        await withStore(tempStore, () => Promise.resolve());
        fillSqlite(file, options);
        return {
          tempStore,
          halfway: () => Promise.resolve(),
          // The file belongs to a node while it runs.
          falling: () => Promise.resolve(statSync(file).size),
          left: () => Promise.resolve(oldRowsAndSpace(file)),
          bytes: () => Promise.resolve(statSync(file).size),
        };
      });
      return [...onPostgres, ...onSqlite];
    } finally {
      await receiver.end();
    }
  },
};

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
  name: string,
  progress: (text: string) => void,
  options: RunOptions,
  receiver: Receiver,
  makeFilled: () => Promise<Filled>,
): Promise<Figure[]> {
  const ours: Measured[] = [];
  const theirs: Measured[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    for (const [side, settings] of [[ours, {}] as const, [theirs, keepAll] as const]) {
      progress(`${name}: round ${round + 1} of ${options.rounds}`);
      side.push(await measure(await makeFilled(), settings, receiver));
    }
  }
  const p99 = (kind: 'publish' | 'deliver'): Figure => ({
    name: `${name} ${kind} p99`,
    detail: `${show(ours, kind)} ms against ${show(theirs, kind)} ms`,
    values: ours.map((one, round) => one[kind] / (theirs[round]?.[kind] ?? NaN)),
    unit: '×',
    must: { kind: 'most', value: 1.5 },
    goal: 1,
  });
  const plain = (what: 'left' | 'size', detail: string, most: number): Figure => ({
    name: `${name} ${what}`,
    detail,
    values: ours.map((one) => one[what]),
    unit: '',
    must: { kind: 'most', value: most },
    goal: undefined,
  });
  return [
    p99('publish'),
    p99('deliver'),
    plain('left', 'old days, or rows and free pages, that are still there at the end', 0),
    plain('size', 'of the store at the end, of that at the beginning', 1),
  ];
}

function show(side: readonly Measured[], kind: 'publish' | 'deliver'): string {
  return median(side.map((one) => one[kind])).toFixed(1);
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
  const port = String(await freePort());
  const host = { LEAT_PORT: port, LEAT_TENANT_DOMAIN: `127.0.0.1:${port}` };
  const nodes = await startNodes(
    { ...tempStore, settings: { ...tempStore.settings, ...settings, ...host } },
    1,
  );
  const [node] = nodes;
  if (node === undefined) throw new Error('No node was started.');
  const pool = new Pool(node.url, { connections: 32, pipelining: 1 });
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json' };
  const starts = new Map<number, number>();
  const publish: number[] = [];
  await receiver.reset();
  const deliver = await drive(filled, receiver, starts, async (seq) => {
    const began = nowMs();
    const body = JSON.stringify({ type: 'order.paid', data: orderData(seq) });
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    if (response.statusCode !== 202) throw new Error(await response.body.text());
    starts.set(seq, nowMs());
    publish.push(nowMs() - began);
    await response.body.dump();
  });
  if (settings !== keepAll) await untilItRests(filled);
  await pool.close();
  await endNodes(nodes);
  const left = settings === keepAll ? 0 : await filled.left();
  const size = (await filled.bytes()) / before;
  await tempStore.remove();
  return {
    publish: quantile(publish.slice(perSecond * warmUpSeconds), 0.99),
    deliver: quantile(deliver, 0.99),
    left,
    size,
  };
}

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

async function drive(
  filled: Filled,
  receiver: Receiver,
  starts: ReadonlyMap<number, number>,
  send: (seq: number) => Promise<void>,
): Promise<number[]> {
  const total = perSecond * (warmUpSeconds + seconds);
  const sending: Promise<void>[] = [];
  const began = nowMs();
  let halfway: Promise<unknown> | undefined;
  while (sending.length < total) {
    const due = Math.min(total, ((nowMs() - began) / 1000) * perSecond);
    while (sending.length < due) sending.push(send(100_000 + sending.length));
    if (sending.length > total / 2) halfway ??= filled.halfway();
    await sleep(1);
  }
  await Promise.all([...sending, halfway]);
  const { arrivals } = await receiver.received(total);
  return arrivals
    .filter(([seq]) => seq >= 100_000 + perSecond * warmUpSeconds)
    .map(([seq, atMs]) => Math.max(0, atMs - (starts.get(seq) ?? NaN)));
}

/** Waits until a minute, one round of upkeep, has passed without progress. */
async function untilItRests(filled: Filled): Promise<void> {
  let last = await filled.falling();
  for (let idle = 0; last > 0 && idle < 90; idle += 1) {
    await sleep(1000);
    const now = await filled.falling();
    if (now < last) idle = 0;
    last = now;
  }
}

const today = (): number => Math.floor(Date.now() / dayMs);

async function oldDays(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `select count(*)::int as count from pg_class
     where relkind = 'r' and relname ~ '^(events|attempts)_d' and
       substring(relname from '\\d+$')::int < $1`,
    [today() - 8],
  );
  return rows[0]?.count ?? 0;
}

/** Returns the rows to remove, and the free pages beyond those that a file keeps. */
function oldRowsAndSpace(file: string): number {
  const db = new DatabaseSync(file, { readOnly: true });
  const old = (today() - 8) * dayMs;
  const count = (sql: string): number => Number(Object.values(db.prepare(sql).get() ?? {})[0]);
  const rows =
    count(`select count(*) from events where published_at < ${old}`) +
    count(`select count(*) from attempts where at < ${old}`);
  const pages = Math.max(0, count('pragma freelist_count') - 1024);
  db.close();
  return rows + pages;
}

async function databaseBytes(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ bytes: string }>(
    'select pg_database_size(current_database()) as bytes',
  );
  return Number(rows[0]?.bytes);
}

/** Fills the history of one day, including the attempts of failures. */
async function fillPostgres(client: pg.Client, options: RunOptions): Promise<void> {
  const { tenants, days, streams, failures } = scale;
  const rows = options.events ?? rowsDefault;
  const day = today() - 10;
  const at = day * dayMs;
  // 365 days: their tables are created as Leat does.
  await client.query(`
    do $$ declare made integer; begin
      for made in ${today() - days} .. ${today() - 1} loop
        execute format('create table events_d%s partition of events for values from (%s) to (%s)',
          made, made * ${dayMs}::bigint, (made + 1) * ${dayMs}::bigint);
        execute format('create table attempts_d%s partition of attempts for values from (%s) to (%s)',
          made, made, made + 1);
      end loop;
    end $$`);
  await client.query(`
    update tenants set head = ${failures}, last_published_at = ${at} where id = 1;
    insert into tenants (name, domain, head, last_published_at, created_at)
    select 'tenant-' || n, n || '.example.com', 1, ${at}, 1 from generate_series(2, ${tenants}) n;
    insert into events (tenant, "offset", id, type, time, published_at, body)
    select 1, n, 'evt_' || n, 'old.made', ${at}, ${at}, repeat('x', 500)
    from generate_series(1, ${failures}) n;
    insert into events (tenant, "offset", id, type, time, published_at, body)
    select n, 1, 'evt_1', 'old.made', ${at}, ${at}, repeat('x', 500)
    from generate_series(2, ${tenants}) n;
    insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
      version, created_at, updated_at)
    select 1, 'est_' || n, 'old ' || n, 'disabled', '[]', '', '', 1, 1, 1
    from generate_series(1, ${streams}) n;
    insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
    select 1, 'est_' || n, 0, 1, 0, ${failures}, 0 from generate_series(1, ${streams}) n;
    insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      failed_at, event_day, attempts_from, attempts_to)
    select 1, 'est_' || s, 'evt_' || n, n, 'old.made', ${at}, 'first', 'failed', 4, ${at}, ${day},
      ${day}, ${day}
    from generate_series(1, ${streams}) s, generate_series(1, ${failures}) n;
    insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome)
    select ${day}, 1, (select min(key) from runs) + n % ${streams}, n / ${streams}, ${at}, 1.5, 1
    from generate_series(1, ${rows}) n;
    select leat_fill_log_days()`);
}

function fillSqlite(file: string, options: RunOptions): void {
  const { tenants, streams, failures } = scale;
  const rows = Math.ceil((options.events ?? rowsDefault) / 10);
  const at = (today() - 10) * dayMs;
  const db = new DatabaseSync(file);
  const numbers = (count: number): string =>
    `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${count})`;
  db.exec(`
    begin;
    ${numbers(tenants)} insert into tenants (name, domain, head, last_published_at, created_at)
      select 'tenant-' || n, n || '.example.com', 0, 0, 1 from numbers;
    ${numbers(100_000)} insert into events (tenant, offset, id, type, time, published_at, body)
      select 1, n, 'evt_' || n, 'old.made', ${at}, ${at}, printf('%1000s', n) from numbers;
    update tenants set head = 100000, last_published_at = ${at} where id = 1;
    ${numbers(streams)} insert into streams (tenant, id, name, status, subscriptions, destination,
        signing_secrets, version, created_at, updated_at)
      select 1, 'est_' || n, 'old ' || n, 'disabled', '[]', x'', x'', 1, 1, 1 from numbers;
    ${numbers(streams)} insert into runs (tenant, stream, cursor, run, consecutive_failures,
        total_failures, epoch)
      select 1, 'est_' || n, 0, 1, 0, ${failures}, 0 from numbers;
    ${numbers(streams * failures)} insert into deliveries (tenant, stream, event_id, offset, type,
        time, kind, state, attempt, failed_at)
      select 1, 'est_' || (1 + n % ${streams}), 'evt_' || (1 + n / ${streams}), 1 + n / ${streams},
        'old.made', ${at}, 'first', 'failed', 4, ${at}
      from numbers;
    ${numbers(rows)} insert into attempts (stream_key, event_key, at, duration_ms, outcome)
      select 1 + n % ${streams}, n / ${streams}, ${at}, 1.5, 1 from numbers;
    commit`);
  db.close();
}
