import type { Bench, Figure, Progress } from './bench.ts';
import { healthOf, withHealth } from './health-store.ts';
import type { Engine, Running } from './leat.ts';
import { onBoth } from './postgres.ts';
import { wait } from './proc.ts';
import { readFigure, readTimes } from './reads.ts';
import { inTurn } from './rounds.ts';
import { publish } from './steady.ts';

const msMax = 20;
/** Requests of somebody who watches a page, for longer than a value is kept several times. */
const warmReads = { count: 200, everySeconds: 0.1 } as const;
/** Requests of somebody who comes back to it, each after longer than a value is kept. */
const laterReads = { count: 3, everySeconds: 5.2 } as const;
/** Longer than values are loaded ahead of requests. */
const firstSeconds = 66;

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
  run: (progress, { events = healthOf.events }) =>
    onBoth((engine) =>
      withHealth(engine, { events, progress }, async (leat) => {
        const over = new AbortController();
        const publishing = publishUntil(leat, over.signal);
        const figures = await figuresOf(leat, engine, progress);
        over.abort();
        await publishing;
        return figures;
      }),
    ),
};

async function figuresOf(
  leat: Running,
  { name: engine }: Engine,
  progress: Progress,
): Promise<Figure[]> {
  const kept = await inTurn(Object.entries(reads), async ([name, path]) => {
    progress(`${engine}: ${name}`);
    await readTimes(leat, path, { count: 1 });
    const warm = await readTimes(leat, path, warmReads);
    const later = await readTimes(leat, path, laterReads);
    return [
      readFigure(`${engine}: ${name}`, warm, msMax),
      readFigure(`${engine}: ${name}, every ${laterReads.everySeconds} s`, later, msMax),
    ];
  });
  progress(`${engine}: the first request after ${firstSeconds} s`);
  await wait(firstSeconds);
  // These have to read all states themselves.
  const first = await inTurn(firstOfKinds, async (name) => {
    const took = await readTimes(leat, reads[name], { count: 1, everySeconds: 0.1 });
    return [readFigure(`${engine}: ${name}, first after ${firstSeconds} s`, took)];
  });
  return [...kept, ...first];
}

/** Publishes events of a type that no stream has, so that the stored cursors fall behind the head. */
async function publishUntil(leat: Running, signal: AbortSignal): Promise<void> {
  const event = { type: 'bench.other', data: { object: { seq: 1 } } };
  const body = JSON.stringify(Array.from({ length: 20 }, () => event));
  while (!signal.aborted) {
    await publish(leat, body);
    await wait(0.05);
  }
}
