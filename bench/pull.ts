import type { ChildProcess } from 'node:child_process';
import type { Bench, Figure, Progress } from './bench.ts';
import { endChild, message, startChild } from './child.ts';
import { watch } from './idle.ts';
import { fill, makeEvent, orderData, type Running, withLeat } from './leat.ts';
import { wait } from './proc.ts';
import { rateFigure } from './report.ts';
import { alternate, type Rounds } from './rounds.ts';
import { publish } from './steady.ts';

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
  run: async (progress, { rounds }) => {
    const idle = await idleFigures(progress);
    const live = await alternate(rounds, liveRate, bareRate('/live', liveEvents), progress);
    const waiting = await waitingRounds(rounds, progress);
    return [
      ...idle,
      rateFigure('pull, published', live, { least: 0.3, goal: 0.5 }),
      rateFigure('pull, from the log', waiting, { least: 0.3, goal: 0.5 }),
    ];
  },
};

function idleFigures(progress: Progress): Promise<Figure[]> {
  return withLeat({ settings }, async (leat) => {
    progress(`connecting ${idleReaders} readers, watching for ${watchSeconds} s`);
    const clients = await startReaders(leat, idleReaders, '/api/v2/events');
    await wait(5);
    const figures = await watch(leat, ['idle readers, CPU', 'idle readers, memory'], {
      seconds: watchSeconds,
      percent: 1,
      megabytes: 250,
    });
    await endChild(clients);
    return figures;
  });
}

/** Measures deliveries per second to readers at the end of the log, from the first publish on. */
function liveRate(): Promise<number> {
  return withLeat({ settings }, async (leat) => {
    const clients = await startReaders(leat, readers, '/api/v2/events');
    const warm = message(clients);
    await publishAll(leat, warmUpEvents);
    await publish(leat, JSON.stringify({ type: 'bench.warm', data: {} }));
    await warm;
    const startedMs = Date.now();
    const rate = rateOf(clients, startedMs, liveEvents);
    await publishAll(leat, liveEvents);
    await publish(leat, JSON.stringify({ type: 'bench.end', data: {} }));
    return rate;
  });
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

/** Readers that begin at the oldest event, against the same bytes from memory. */
function waitingRounds(rounds: number, progress: Progress): Promise<Rounds> {
  const path = '/api/v2/events?from_timestamp=2020-01-01T00:00:00Z';
  const wanted = {
    settings,
    fill: async (store: Parameters<typeof fill>[0]) => {
      await fill(store, waitingEvents, progress);
      await store.log.append(1, [makeEvent(0, 'bench.end')]);
    },
  };
  return withLeat(wanted, (leat) => {
    const rate = async (): Promise<number> => {
      const startedMs = Date.now();
      return rateOf(await startReaders(leat, readers, path), startedMs, waitingEvents);
    };
    return alternate(rounds, rate, bareRate('/waiting', waitingEvents), progress);
  });
}

/** Measures the same on a server that only writes. */
function bareRate(path: '/live' | '/waiting', events: number): () => Promise<number> {
  return async () => {
    const warmUp = path === '/live' ? warmUpEvents : 0;
    const server = startChild('./bare-pull.ts', [warmUp, events, perRequest]);
    const { port } = await message<{ port: number }>(server);
    let startedMs = Date.now();
    const clients = await startReaders({ port, token: '' }, readers, path);
    if (path === '/live') {
      server.send('warm up');
      await message(clients);
      startedMs = Date.now();
      server.send('go');
    }
    const rate = await rateOf(clients, startedMs, events);
    await endChild(server);
    return rate;
  };
}

/** Waits until the readers have all events, and ends them. */
async function rateOf(clients: ChildProcess, startedMs: number, events: number): Promise<number> {
  const { atMs } = await message<{ atMs: number }>(clients);
  await endChild(clients);
  return ((events + 1) * readers) / ((atMs - startedMs) / 1000);
}

/** Starts clients in their own process and waits until all are connected. */
async function startReaders(
  { port, token }: Pick<Running, 'port' | 'token'>,
  count: number,
  path: string,
): Promise<ChildProcess> {
  const child = startChild('./pull-readers.ts', [port, count, path, token]);
  const { kind } = await message<{ kind: string }>(child);
  if (kind !== 'connected') throw new Error(`readers reported ${kind}`);
  return child;
}
