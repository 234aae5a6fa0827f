import type { Bench, Figure, RunOptions } from './bench.ts';
import { arrivalRate, startReceiver, type Receiver } from './child.ts';
import { createProbe } from './hostile-requests.ts';
import { filterCases, type FilterCase } from './filter-cases.ts';
import {
  addStream,
  createTempStore,
  makeEvent,
  orderData,
  type Running,
  startLeat,
  type TempStore,
  withStore,
} from './leat.ts';
import { load, post } from './load.ts';
import { cpuSeconds, wait } from './proc.ts';
import { rateFigure } from './report.ts';
import { alternate, median } from './rounds.ts';

const streams = 100;
const publishSeconds = 5;
const drainEvents = 50_000;
const hostileStreams = 1000;
const hostileSeconds = 8;
const holdMsMax = 50;

/**
 * Streams that receive one event in a hundred, by their filter or by a type of their own: both
 * sides have the same events, deliveries and streams, but only those with a filter evaluate all events.
 */
export const filter: Bench = {
  name: 'filter',
  what:
    `${streams} streams whose filters match 1 % of the events each; against ${streams} streams without, ` +
    'of which each has 1 % of the events by their type: the same deliveries. And the longest hold of the ' +
    `event loop with ${hostileStreams} hostile filters and events of 255 KiB`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    try {
      const { cases: part = '' } = options;
      const cases = filterCases.filter(({ name }) => name.includes(part));
      return [
        ...('fan-out'.includes(part) ? await comparison(receiver, options, progress) : []),
        ...(await hostileFigures(cases, options.rounds, progress)),
      ];
    } finally {
      await receiver.end();
    }
  },
};

type Side = 'filters' | 'types';

const typeOf = (side: Side, part: number): string =>
  side === 'filters' ? 'order.paid' : `order.paid_${part}`;

async function comparison(
  receiver: Receiver,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const publish = (side: Side) => (): Promise<number> => publishRate(receiver, side);
  const published = await alternate(options.rounds, publish('filters'), publish('types'), progress);
  const seconds: Record<Side, number[]> = { filters: [], types: [] };
  const events = options.events ?? drainEvents;
  const drain = (side: Side) => async (): Promise<number> => {
    const { rate, cpu } = await drainOnce(receiver, side, events, progress);
    seconds[side].push(cpu);
    return rate;
  };
  const drained = await alternate(options.rounds, drain('filters'), drain('types'), progress);
  const micros = seconds.filters.map(
    (cpu, round) => ((cpu - (seconds.types[round] ?? NaN)) / events / streams) * 1e6,
  );
  return [
    rateFigure('fan-out', published, { least: 0.9, goal: 1 }),
    rateFigure('waiting events', drained, undefined),
    {
      name: 'an event and stream',
      detail: `processor time of ${events.toLocaleString('en')} events to ${streams} streams: ${median(seconds.filters).toFixed(1)} against ${median(seconds.types).toFixed(1)} s`,
      values: micros,
      unit: 'µs',
      must: { kind: 'most', value: 2 },
      goal: undefined,
    },
  ];
}

/** Adds the streams of a side. */
async function addStreams(tempStore: TempStore, receiver: Receiver, side: Side): Promise<void> {
  await withStore(tempStore, async (store) => {
    for (let part = 0; part < streams; part += 1) {
      await addStream(store, receiver.port, {
        name: `stream-${part}`,
        types: [typeOf(side, part)],
        ...(side === 'filters' && { filter: JSON.stringify({ 'data.object.seq': part }) }),
      });
    }
  });
}

/** Measures publishes per second, one event per request, while the streams receive their events. */
async function publishRate(receiver: Receiver, side: Side): Promise<number> {
  const tempStore = await createTempStore();
  await addStreams(tempStore, receiver, side);
  await receiver.reset();
  const leat = await startLeat(tempStore);
  const requests = Array.from({ length: streams }, (_, part) => {
    const body = JSON.stringify({ type: typeOf(side, part), data: orderData(part) });
    return post('/api/v2/events', leat.port, body, leat.token);
  });
  const publishing = { port: leat.port, connections: streams, requests };
  await load({ ...publishing, seconds: 1 });
  const rate = await load({ ...publishing, seconds: publishSeconds });
  await leat.end();
  await tempStore.remove();
  return rate;
}

/** Measures the deliveries per second of waiting events, and the processor time of the server. */
async function drainOnce(
  receiver: Receiver,
  side: Side,
  events: number,
  progress: (text: string) => void,
): Promise<{ readonly rate: number; readonly cpu: number }> {
  const tempStore = await createTempStore();
  await addStreams(tempStore, receiver, side);
  await withStore(tempStore, async (store) => {
    for (let done = 0; done < events; done += 1000) {
      progress(`filling the log: ${done} of ${events}`);
      const chunk = Array.from({ length: Math.min(1000, events - done) }, (_, index) => {
        const part = (done + index) % streams;
        return makeEvent(part, typeOf(side, part));
      });
      await store.log.append(1, chunk);
    }
  });
  await receiver.reset();
  const leat = await startLeat(tempStore);
  const report = await receiver.received(events);
  const cpu = await cpuSeconds(leat.pid);
  await leat.end();
  await tempStore.remove();
  return { rate: arrivalRate(report), cpu };
}

async function hostileFigures(
  cases: readonly FilterCase[],
  rounds: number,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const one of cases) {
    const seen: Hold[] = [];
    for (let round = 0; round < rounds; round += 1) {
      progress(`${one.name}, round ${round + 1} of ${rounds}`);
      seen.push(await holdOf(one));
    }
    const middle = (of: (hold: Hold) => number): number => median(seen.map(of));
    figures.push({
      name: one.name,
      detail: `at most ${middle(({ computedMs }) => computedMs).toFixed(1)} ms of computation, against ${middle(({ aloneMs }) => aloneMs).toFixed(1)} ms before the events`,
      values: seen.map(({ longestMs }) => longestMs),
      unit: 'ms',
      // A disk or a machine that stalls for longer does so without filters too.
      must: {
        kind: 'most',
        value: Math.ceil(
          Math.max(
            holdMsMax,
            middle(({ aloneMs }) => aloneMs),
          ),
        ),
      },
      goal: undefined,
    });
  }
  return figures;
}

interface Hold {
  readonly longestMs: number;
  readonly computedMs: number;
  readonly aloneMs: number;
}

/** Measures the longest hold while a thousand streams filter the events of a case; none of them matches. */
async function holdOf(one: FilterCase): Promise<Hold> {
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    for (let index = 0; index < hostileStreams; index += 1) {
      const condition = JSON.stringify(one.condition(index));
      await addStream(store, 9, { name: `stream-${index}`, filter: condition });
    }
  });
  const loopFile = `${tempStore.folder}/loop.json`;
  const leat = await startLeat(tempStore, {
    NODE_OPTIONS: `--import=${new URL('./loop-probe.ts', import.meta.url).pathname}`,
    BENCH_LOOP_FILE: loopFile,
  });
  const probe = createProbe(leat.pid, loopFile);
  await wait(2);
  await probe.longest();
  await wait(2);
  const { longestMs: aloneMs } = await probe.longest();
  await publishTwoASecond(leat, `{"type":"order.paid","data":{"object":${one.object}}}`);
  const hold = await probe.longest();
  await leat.end();
  await tempStore.remove();
  return { ...hold, aloneMs };
}

async function publishTwoASecond({ url, token }: Running, body: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  for (let sent = 0; sent < 2 * hostileSeconds; sent += 1) {
    const response = await fetch(`${url}/api/v2/events`, { method: 'POST', headers, body });
    if (response.status !== 202) throw new Error(await response.text());
    await wait(0.5);
  }
}
