import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Bench, RunOptions } from './bench.ts';
import { endChild, message, startChild, startReceiver } from './child.ts';
import {
  addStream,
  endNodes,
  makeEvent,
  createTempStore,
  onSqlite,
  orderData,
  type Running,
  type Setup,
  startNodes,
  withStore,
} from './leat.ts';
import { load, post } from './load.ts';
import { rateFigure } from './report.ts';
import { alternate, type Rounds } from './rounds.ts';

/** How long and over how many connections single events are published. */
export const seconds = 4;
export const connections = 64;
export const one = JSON.stringify({ type: 'order.paid', data: orderData(1) });
export const hundred = `[${Array.from({ length: 100 }, () => one).join(',')}]`;

/** Single publishes over HTTP, against a Fastify route that only parses the same body. */
export const publishOne: Bench = {
  name: 'publish-one',
  what: `single publishes over ${connections} connections; against a Fastify route that only parses the same body`,
  run: async (progress, options) => {
    const rounds = await publishOneRounds(onSqlite, options, progress);
    return [rateFigure('publish one', rounds, { least: 0.4, goal: 0.8 })];
  },
};

/** Arrays of 100 over HTTP, against a bare loop that inserts the same rows, 100 a commit. */
export const publishHundred: Bench = {
  name: 'publish-100',
  what: 'events per second in arrays of 100 over 8 connections; against a bare loop that inserts the same rows, 100 a commit, with the same fsync',
  run: async (progress, options) => {
    const rounds = await publishHundredRounds(onSqlite, bareInsertRate, options, progress);
    return [rateFigure('publish 100', rounds, { least: 0.4, goal: 0.8 })];
  },
};

/** Publishing with 100 subscribed streams that do not send, against one. */
export const fanOut: Bench = {
  name: 'fan-out',
  what: 'publish rate with 100 subscribed streams whose endpoint does not respond, against 1',
  run: async (progress, options) => {
    const rounds = await alternate(
      options.rounds,
      () => publishRate(onSqlite, one, 100),
      () => publishRate(onSqlite, one, 1),
      progress,
    );
    return [rateFigure('fan-out', rounds, { least: 0.95, goal: 1 })];
  },
};

/** Single publishes per second, and those of the bare route. */
export function publishOneRounds(
  setup: Setup,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Rounds> {
  return alternate(options.rounds, () => publishOneRate(setup), bareRouteRate, progress);
}

/** Events per second in arrays of 100, and those of a bare loop. */
export function publishHundredRounds(
  setup: Setup,
  bare: (seconds: number) => Promise<number>,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Rounds> {
  return alternate(
    options.rounds,
    async () => 100 * (await publishRate(setup, hundred, 0, 8)),
    () => bare(seconds),
    progress,
  );
}

/** Measures single publishes per second to fresh servers without streams. */
export function publishOneRate(setup: Setup): Promise<number> {
  return publishRate(setup, one, 0);
}

/** Measures publishes per second to fresh servers with `streams` subscribed streams that get no response. */
async function publishRate(
  setup: Setup,
  body: string,
  streams: number,
  over = connections,
): Promise<number> {
  const tempStore = await setup.createTempStore();
  const receiver = await startReceiver('--hang');
  await withStore(tempStore, async (store) => {
    for (let i = 0; i < streams; i++)
      await addStream(store, receiver.port, { name: `stream-${i}` });
  });
  // One attempt per stream is in progress without end: nothing is sent while publishing.
  const nodes = await startNodes(tempStore, setup.nodes, {
    LEAT_STREAM_CONCURRENCY: '1',
    LEAT_ATTEMPT_TIMEOUT_MS: '60000',
  });
  await loadNodes(nodes, body, { connections: over, seconds: 1 });
  const rate = await loadNodes(nodes, body, { connections: over, seconds });
  await endNodes(nodes);
  await receiver.end();
  await tempStore.remove();
  return rate;
}

/** Distributes the connections over the nodes. */
async function loadNodes(
  nodes: readonly Running[],
  body: string,
  options: { readonly connections: number; readonly seconds: number },
): Promise<number> {
  const rates = await Promise.all(
    nodes.map(({ port, token }) =>
      load({
        port,
        connections: Math.ceil(options.connections / nodes.length),
        seconds: options.seconds,
        requests: [post('/api/v2/events', port, body, token)],
      }),
    ),
  );
  return rates.reduce((sum, rate) => sum + rate, 0);
}

async function bareRouteRate(): Promise<number> {
  const route = startChild('./bare-route.ts');
  const { port } = await message<{ port: number }>(route);
  const requests = [post('/api/v2/events', port, one)];
  await load({ port, connections, seconds: 1, requests });
  const rate = await load({ port, connections, seconds, requests });
  await endChild(route);
  return rate;
}

async function bareInsertRate(forSeconds: number): Promise<number> {
  const tempStore = await createTempStore();
  const rate = await insertRate('./bare-insert.ts', tempStore.file, forSeconds);
  await tempStore.remove();
  return rate;
}

/** Runs a bare loop of inserts on a file or a database in its own process. */
export async function insertRate(file: string, where: string, forSeconds: number): Promise<number> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const running = promisify(execFile)(process.execPath, [path, where, String(forSeconds)]);
  running.child.stdin?.end(makeEvent().body);
  const { stdout } = await running;
  return Number(stdout);
}
