import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { request } from 'undici';
import type { Bench, Figure } from './bench.ts';
import type { FactsStore } from './facts-store.ts';
import { fillHealth, healthOf } from './health-store.ts';
import { createTempStore, type Running, startLeat } from './leat.ts';
import { withPostgres } from './postgres.ts';
import { wait } from './proc.ts';
import { quantile } from './rounds.ts';

const msMax = 20;
/** Requests of somebody who watches a page, for longer than a value is kept several times. */
const warmReads = { count: 200, everySeconds: 0.1 } as const;
/** Requests of somebody who comes back to it, each after longer than a value is kept. */
const laterReads = { count: 3, everySeconds: 5.2 } as const;
/** Until a node that has just started owns its streams and has read what it needs of them. */
const startSeconds = 15;
/** Longer than values are loaded ahead of requests. */
const firstReads = { count: 1, everySeconds: 66 } as const;

const reads = {
  name: '/stream-health',
  failures: '/stream-health?sort=-open_failures',
  'last failed': '/stream-health?sort=-last_failed_at',
  lag: '/stream-health?sort=-lag',
  'full page': '/stream-health?take=100&sort=-open_failures',
  q: '/stream-health?q=health-77',
  statuses: '/stream-health?statuses=failing,lagging',
  overview: '/overview',
} as const;
/** One for each kind of states, so that none finds those of another. */
const firstOfKinds = ['failures', 'lag', 'statuses', 'overview'] as const;

/** The time of lists over the health of many streams. */
export const health: Bench = {
  name: 'health',
  what: `${healthOf.streams.toLocaleString('en')} streams in all states and 100,000 failures over 200 streams, inserted directly: lists of their health and the overview, while events are published`,
  run: async (progress, { events = healthOf.events }) => {
    const silent = createServer();
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
    const silentPort = (silent.address() as AddressInfo).port;
    const options = { events, silentPort };
    try {
      const onSqlite = await measure(
        'SQLite',
        { tempStore: await createTempStore(), url: undefined },
        options,
        progress,
      );
      const onPostgres = await withPostgres(async (database) => {
        const tempStore = await database.createTempStore();
        return measure('PostgreSQL', { tempStore, url: tempStore.url }, options, progress);
      });
      return [...onSqlite, ...onPostgres];
    } finally {
      silent.close();
    }
  },
};

async function measure(
  engine: string,
  store: FactsStore,
  options: Parameters<typeof fillHealth>[1],
  progress: (text: string) => void,
): Promise<Figure[]> {
  await fillHealth(store, options, (text) => progress(`${engine}: ${text}`));
  // Attempts at the silent receiver stay under way, so that states stay as they are.
  const settings = { LEAT_ATTEMPT_TIMEOUT_MS: '600000', LEAT_CONCURRENCY: '64' };
  const leat = await startLeat(store.tempStore, settings);
  const over = new AbortController();
  const publishing = publish(leat, over.signal);
  try {
    progress(`${engine}: starting`);
    await wait(startSeconds);
    const figures: Figure[] = [];
    for (const [name, path] of Object.entries(reads)) {
      progress(`${engine}: ${name}`);
      figures.push(...(await figuresOf(leat, `${engine}: ${name}`, path)));
    }
    return [...figures, ...(await firstFigures(leat, engine, progress))];
  } finally {
    over.abort();
    await publishing;
    await leat.end();
    await store.tempStore.remove();
  }
}

async function figuresOf(leat: Running, name: string, path: string): Promise<Figure[]> {
  await timed(leat, path);
  const warm = await timedReads(leat, path, warmReads);
  const later = await timedReads(leat, path, laterReads);
  return [
    figure(name, warm, msMax),
    figure(`${name}, every ${laterReads.everySeconds} s`, later, msMax),
  ];
}

async function timedReads(
  leat: Running,
  path: string,
  { count, everySeconds }: { readonly count: number; readonly everySeconds: number },
): Promise<number[]> {
  const took: number[] = [];
  for (let n = 0; n < count; n += 1) {
    await wait(everySeconds);
    took.push(await timed(leat, path));
  }
  return took;
}

/** Measures the requests that have to read all states themselves. */
async function firstFigures(
  leat: Running,
  engine: string,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const took = new Map<string, number[]>(firstOfKinds.map((name) => [name, []]));
  for (let n = 0; n < firstReads.count; n += 1) {
    progress(`${engine}: the first request after ${firstReads.everySeconds} s`);
    await wait(firstReads.everySeconds);
    for (const [name, times] of took) {
      times.push(await timed(leat, reads[name as keyof typeof reads]));
      await wait(0.1);
    }
  }
  return [...took].map(([name, times]) =>
    figure(`${engine}: ${name}, first after ${firstReads.everySeconds} s`, times, undefined),
  );
}

/** Publishes events of a type that no stream has, so that the stored cursors fall behind the head. */
async function publish(leat: Running, signal: AbortSignal): Promise<void> {
  const event = { type: 'bench.other', data: { object: { seq: 1 } } };
  const body = JSON.stringify(Array.from({ length: 20 }, () => event));
  while (!signal.aborted) {
    const response = await request(`${leat.url}/api/v2/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${leat.token}`, 'content-type': 'application/json' },
      body,
    });
    const text = await response.body.text();
    if (response.statusCode !== 202) throw new Error(text);
    await wait(0.05);
  }
}

async function timed(leat: Running, path: string): Promise<number> {
  const began = performance.now();
  const response = await request(`${leat.url}/api/v2${path}`, {
    headers: { authorization: `Bearer ${leat.token}` },
  });
  const text = await response.body.text();
  const tookMs = performance.now() - began;
  if (response.statusCode !== 200) throw new Error(`${path}: ${text}`);
  return tookMs;
}

function figure(name: string, values: readonly number[], most: number | undefined): Figure {
  return {
    name,
    detail: `${values.length < 100 ? `longest of ${values.length}` : '99 of 100'} requests, one at a time; median ${quantile(values, 0.5).toFixed(1)} ms, longest ${quantile(values, 1).toFixed(1)} ms`,
    values: [quantile(values, 0.99)],
    unit: 'ms',
    must: most === undefined ? undefined : { kind: 'most', value: most },
    goal: undefined,
  };
}
