import type { ChildProcess } from 'node:child_process';
import type { Bench, Figure } from './bench.ts';
import { endChild, message, startChild } from './child.ts';
import {
  fill,
  makeEvent,
  createTempStore,
  orderData,
  type Running,
  startLeat,
  withStore,
} from './leat.ts';
import { cpuPercent, residentMegabytes, wait } from './proc.ts';
import { rateFigure } from './report.ts';
import { alternate, type Rounds } from './rounds.ts';

const idleReaders = 1000;
const watchSeconds = 30;
const readers = 100;
const liveEvents = 20_000;
/** Published before, so that code is compiled. */
const warmUpEvents = 10_000;
const waitingEvents = 10_000;
const perRequest = 100;
/** Requests that publish at the same time: one publisher waits for each response. */
const publishers = 4;
/** One client may hold half of the connections. */
const settings = {
  LEAT_SSE_MAX_CONNECTIONS: String(2 * idleReaders),
  LEAT_MAX_CONNECTIONS_PER_ADDRESS: String(2 * idleReaders),
};

/** The cost of idle readers, and the rate of events to many readers. */
export const pull: Bench = {
  name: 'pull',
  what: `CPU and memory of ${idleReaders} idle readers; events delivered to ${readers} readers as they are published, and from the log, against a bare server that writes the same bytes`,
  run: async (progress, options) => {
    const idle = await idleFigures(progress);
    const live = await alternate(options.rounds, liveRate, bareRate('/live', liveEvents), progress);
    const waiting = await waitingRounds(options.rounds, progress);
    return [
      ...idle,
      rateFigure('pull, published', live, { least: 0.3, goal: 0.5 }),
      rateFigure('pull, from the log', waiting, { least: 0.3, goal: 0.5 }),
    ];
  },
};

async function idleFigures(progress: (text: string) => void): Promise<Figure[]> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  progress(`connecting ${idleReaders} readers`);
  const clients = await startReaders(leat.port, idleReaders, '/api/v2/events', leat.token);
  await wait(5);
  progress(`watching for ${watchSeconds} s`);
  const percent = await cpuPercent(leat.pid, watchSeconds);
  const megabytes = await residentMegabytes(leat.pid);
  await endChild(clients);
  await leat.end();
  await tempStore.remove();
  const detail = `${idleReaders} readers`;
  return [
    {
      name: 'idle readers, CPU',
      detail,
      values: [percent],
      unit: '% of a core',
      must: { kind: 'most', value: 1 },
      goal: undefined,
    },
    {
      name: 'idle readers, memory',
      detail,
      values: [megabytes],
      unit: 'MB resident',
      must: { kind: 'most', value: 250 },
      goal: undefined,
    },
  ];
}

/** Measures deliveries per second to readers at the end of the log, from the first publish on. */
async function liveRate(): Promise<number> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  const clients = await startReaders(leat.port, readers, '/api/v2/events', leat.token);
  const warm = message(clients);
  await publishAll(leat, warmUpEvents);
  await publish(leat, JSON.stringify({ type: 'bench.warm', data: {} }));
  await warm;
  const done = message<{ atMs: number }>(clients);
  const startedMs = Date.now();
  await publishAll(leat, liveEvents);
  await publish(leat, JSON.stringify({ type: 'bench.end', data: {} }));
  const { atMs } = await done;
  await endChild(clients);
  await leat.end();
  await tempStore.remove();
  return ((liveEvents + 1) * readers) / ((atMs - startedMs) / 1000);
}

async function publishAll(leat: Running, events: number): Promise<void> {
  const event = { type: 'order.paid', data: orderData(1) };
  const body = JSON.stringify(Array.from({ length: perRequest }, () => event));
  let begun = 0;
  const publishNext = async (): Promise<void> => {
    while (begun < events) {
      begun += perRequest;
      await publish(leat, body);
    }
  };
  await Promise.all(Array.from({ length: publishers }, publishNext));
}

async function publish({ url, token }: Running, body: string): Promise<void> {
  const response = await fetch(`${url}/api/v2/events`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
  });
  if (response.status !== 202) throw new Error(await response.text());
  await response.arrayBuffer();
}

/** Readers that begin at the oldest event, against the same bytes from memory. */
async function waitingRounds(rounds: number, progress: (text: string) => void): Promise<Rounds> {
  const tempStore = await createTempStore();
  const path = '/api/v2/events?from_timestamp=2020-01-01T00:00:00Z';
  await withStore(tempStore, async (store) => {
    await fill(store, waitingEvents, progress);
    await store.log.append(1, [makeEvent(0, 'bench.end')]);
  });
  const leat = await startLeat(tempStore, settings);
  const rate = async (): Promise<number> => {
    const startedMs = Date.now();
    const clients = await startReaders(leat.port, readers, path, leat.token);
    const { atMs } = await message<{ atMs: number }>(clients);
    await endChild(clients);
    return ((waitingEvents + 1) * readers) / ((atMs - startedMs) / 1000);
  };
  const figures = await alternate(rounds, rate, bareRate('/waiting', waitingEvents), progress);
  await leat.end();
  await tempStore.remove();
  return figures;
}

/** Measures the same on a server that only writes. */
function bareRate(path: '/live' | '/waiting', events: number): () => Promise<number> {
  return async () => {
    const warmUp = path === '/live' ? warmUpEvents : 0;
    const server = startChild('./bare-pull.ts', [warmUp, events, perRequest].map(String));
    const { port } = await message<{ port: number }>(server);
    let startedMs = Date.now();
    const clients = await startReaders(port, readers, path, '');
    if (path === '/live') {
      server.send('warm up');
      await message(clients);
      startedMs = Date.now();
      server.send('go');
    }
    const { atMs } = await message<{ atMs: number }>(clients);
    await endChild(clients);
    await endChild(server);
    return ((events + 1) * readers) / ((atMs - startedMs) / 1000);
  };
}

/** Starts clients in their own process and waits until all are connected. */
async function startReaders(
  port: number,
  count: number,
  path: string,
  token: string,
): Promise<ChildProcess> {
  const child = startChild('./pull-readers.ts', [String(port), String(count), path, token]);
  const { kind } = await message<{ kind: string }>(child);
  if (kind !== 'connected') throw new Error(`readers reported ${kind}`);
  return child;
}
