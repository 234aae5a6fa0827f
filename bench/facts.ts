import { request } from 'undici';
import type { Bench, Figure } from './bench.ts';
import { factTypes, factsOf, fillFacts, type FactsStore } from './facts-store.ts';
import { createTempStore, type Running, startLeat } from './leat.ts';
import { withPostgres } from './postgres.ts';
import { cpuPercent, wait } from './proc.ts';
import { quantile } from './rounds.ts';

const readMsMax = 50;
const groupsMsMax = 50;
const pageMsMax = 20;
const warmUps = 200;
const reads = 2000;
const pages = reads / 2;
/** The other client is alone and beside a search in turn, as the speed of a machine is not constant. */
const beside = { rounds: 4, requests: 100 } as const;
/** Of a core, as an idle server with 1,000 streams uses. */
const quietPercent = 10;
/** Rounds of upkeep pause for less. */
const quietSeconds = 5;

/** The time of reading what became of an event, in a large store. */
export const facts: Bench = {
  name: 'facts',
  what:
    `${factsOf.events.toLocaleString('en')} events and ${factsOf.streams.toLocaleString('en')} streams, inserted directly: ` +
    'what became of random events, pages of the event log, another client while one searches the log by payload, and the failures of all streams, 100,000 over 200 streams',
  run: async (progress, { events = factsOf.events }) => {
    const onSqlite = await measure(
      'SQLite',
      { tempStore: await createTempStore(), url: undefined },
      events,
      progress,
    );
    const onPostgres = await withPostgres(async (database) => {
      const tempStore = await database.createTempStore();
      return measure('PostgreSQL', { tempStore, url: tempStore.url }, events, progress);
    });
    return [...onSqlite, ...onPostgres];
  },
};

async function measure(
  engine: string,
  store: FactsStore,
  events: number,
  progress: (text: string) => void,
): Promise<Figure[]> {
  await fillFacts(store, events, (text) => progress(`${engine}: ${text}`));
  const leat = await startLeat(store.tempStore);
  try {
    progress(`${engine}: waiting until the server has reported and tidied what was inserted`);
    await atRest(leat.pid);
    progress(`${engine}: reading`);
    return await figuresOf(engine, leat, events);
  } finally {
    await leat.end();
    await store.tempStore.remove();
  }
}

/**
 * Waits until the server has little to do. A store that is filled at once has a week of upkeep to do, and
 * 100,000 failures that no alert has reported.
 */
async function atRest(pid: number): Promise<void> {
  for (let quiet = 0; quiet < quietSeconds;) {
    quiet = (await cpuPercent(pid, 1)) < quietPercent ? quiet + 1 : 0;
  }
}

async function figuresOf(engine: string, leat: Running, events: number): Promise<Figure[]> {
  const random = (): number => 1 + Math.floor(Math.random() * events);
  const readEvent = () => timed(leat, `/event-log/${idOf(random())}`);
  const listTypes = () => timed(leat, `/event-log?event_types=${factTypes[random() % 100] ?? ''}`);
  for (let n = 0; n < warmUps; n += 1) await readEvent();
  const event = await times(reads, readEvent);
  const list = await times(pages, listTypes);
  const groups = await times(pages, () => timed(leat, '/delivery-groups'));
  const failures = await times(pages, () => timed(leat, '/deliveries'));
  const byCause = await times(pages, () => timed(leat, '/deliveries?error_codes=timeout'));
  const other = () => timed(leat, '/event-streams?take=10');
  await times(warmUps, other);
  const [alone, meanwhile]: [number[], number[]] = [[], []];
  let searches = 0;
  for (let round = 0; round < beside.rounds; round += 1) {
    alone.push(...(await times(beside.requests, other)));
    const searching = search(leat);
    meanwhile.push(...(await times(beside.requests, other)));
    searches += await searching.end();
  }
  return [
    figure(`${engine}: event`, event, readMsMax),
    figure(`${engine}: page by type`, list, undefined),
    figure(`${engine}: groups`, groups, groupsMsMax),
    figure(`${engine}: failures`, failures, pageMsMax),
    figure(`${engine}: by cause`, byCause, pageMsMax),
    {
      name: `${engine}: beside`,
      detail: `99 of 100 requests of another client ${quantile(meanwhile, 0.99).toFixed(1)} ms during ${searches} searches against ${quantile(alone, 0.99).toFixed(1)} ms alone; medians ${quantile(meanwhile, 0.5).toFixed(2)} and ${quantile(alone, 0.5).toFixed(2)} ms`,
      values: [quantile(meanwhile, 0.5) / quantile(alone, 0.5)],
      unit: '×',
      must: { kind: 'most', value: 2 },
      goal: undefined,
    },
  ];
}

/** Searches the log again and again for a payload that no event has. */
function search(leat: Running): { end(): Promise<number> } {
  const over = new AbortController();
  const filter = encodeURIComponent('{"data.object.plan":"none"}');
  const run = async (): Promise<number> => {
    let from = '';
    for (let count = 0; ; count += 1) {
      if (over.signal.aborted) return count;
      const { next } = await get(leat, `/event-log?filter=${filter}${from}`);
      from = typeof next === 'string' ? `&from=${next}` : '';
    }
  };
  const running = run();
  return {
    end: () => {
      over.abort();
      return running;
    },
  };
}

async function times(count: number, one: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < count; n += 1) {
    all.push(await one());
    // The client shares two cores with the server and the database.
    if (n % 50 === 0) await wait(0.01);
  }
  return all;
}

async function timed(leat: Running, path: string): Promise<number> {
  const began = performance.now();
  await get(leat, path);
  return performance.now() - began;
}

async function get(leat: Running, path: string): Promise<Readonly<Record<string, unknown>>> {
  const response = await request(`${leat.url}/api/v2${path}`, {
    headers: { authorization: `Bearer ${leat.token}` },
  });
  const body = (await response.body.json()) as Readonly<Record<string, unknown>>;
  if (response.statusCode !== 200) throw new Error(`${path}: ${JSON.stringify(body)}`);
  return body;
}

const idOf = (offset: number): string => `evt_${String(offset).padStart(22, '0')}`;

function figure(name: string, values: readonly number[], most: number | undefined): Figure {
  return {
    name,
    detail: `99 of 100 requests, one at a time; median ${quantile(values, 0.5).toFixed(1)} ms, longest ${quantile(values, 1).toFixed(1)} ms`,
    values: [quantile(values, 0.99)],
    unit: 'ms',
    must: most === undefined ? undefined : { kind: 'most', value: most },
    goal: undefined,
  };
}
