import type { Store } from '../src/store/port/store.ts';
import { bareInsertRate } from './bare-insert.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild, message, startChild, withReceiver } from './child.ts';
import {
  addStreams,
  type Engine,
  makeEvent,
  orderData,
  type Running,
  sqlite,
  withNodes,
} from './leat.ts';
import { load, post } from './load.ts';
import { withPostgres } from './postgres.ts';
import { nodesText, rateFigure } from './report.ts';
import { alternate, inTurn } from './rounds.ts';

/** How long and over how many connections single events are published. */
export const seconds = 4;
export const connections = 64;
export const one = JSON.stringify({ type: 'order.paid', data: orderData(1) });
export const hundred = `[${Array.from({ length: 100 }, () => one).join(',')}]`;
const limit = { least: 0.4, goal: 0.8 };

/** Single publishes over HTTP, against a Fastify route that only parses the same body. */
export const publishOne: Bench = {
  name: 'publish-one',
  what: `single publishes over ${connections} connections; against a Fastify route that only parses the same body`,
  run: async (progress, { rounds }) => {
    const rates = await alternate(rounds, () => publishRate(sqlite, {}), bareRouteRate, progress);
    return [rateFigure('publish one', rates, limit)];
  },
};

/** Arrays of 100 over HTTP, against a bare loop that inserts the same rows, 100 a commit. */
export const publishHundred: Bench = {
  name: 'publish-100',
  what: 'events per second in arrays of 100 over 8 connections; against a bare loop that inserts the same rows, 100 a commit, with the same fsync',
  run: async (progress, { rounds }) => {
    const ours = (): Promise<number> => hundredRate(sqlite);
    const rates = await alternate(rounds, ours, () => insertRate(sqlite), progress);
    return [rateFigure('publish 100', rates, limit)];
  },
};

/** Publishing with 100 subscribed streams that do not send, against one. */
export const fanOut: Bench = {
  name: 'fan-out',
  what: 'publish rate with 100 subscribed streams whose endpoint does not respond, against 1',
  run: async (progress, { rounds }) => {
    const withStreams = (streams: number) => () => publishRate(sqlite, { streams });
    const rates = await alternate(rounds, withStreams(100), withStreams(1), progress);
    return [rateFigure('fan-out', rates, { least: 0.95, goal: 1 })];
  },
};

/** Publishing to a PostgreSQL store, singly and in arrays, through one node or several. */
export const publishPostgres: Bench = {
  name: 'publish-postgres',
  what: 'publishes to a PostgreSQL store; singly against a Fastify route that only parses, in arrays of 100 against a bare loop that inserts the same rows, 100 a commit',
  run: (progress, { rounds, nodes: counts }) =>
    withPostgres((engine) =>
      inTurn(counts, async (nodes): Promise<Figure[]> => {
        const ofOne = nodes === 1 ? limit : undefined;
        const singly = (): Promise<number> => publishRate(engine, { nodes });
        const ones = await alternate(rounds, singly, bareRouteRate, progress);
        const inArrays = (): Promise<number> => hundredRate(engine, nodes);
        const hundreds = await alternate(rounds, inArrays, () => insertRate(engine), progress);
        return [
          rateFigure(`publish one, ${nodesText(nodes)}`, ones, ofOne),
          rateFigure(`publish 100, ${nodesText(nodes)}`, hundreds, ofOne),
        ];
      }),
    ),
};

interface Publishing {
  readonly nodes?: number;
  readonly body?: string;
  /** Connections, which are distributed over the nodes. */
  readonly over?: number;
  /** Subscribed streams that get no response. */
  readonly streams?: number;
}

/** Measures publishes per second to fresh servers. */
export function publishRate(
  engine: Engine,
  { nodes: count = 1, body = one, over = connections, streams = 0 }: Publishing,
): Promise<number> {
  return withReceiver(['--hang'], ({ port }) => {
    const wanted = {
      engine,
      nodes: count,
      fill: (store: Store) =>
        addStreams(
          store,
          port,
          Array.from({ length: streams }, () => ({})),
        ),
      // One attempt per stream is in progress without end: nothing is sent while publishing.
      settings: { LEAT_STREAM_CONCURRENCY: '1', LEAT_ATTEMPT_TIMEOUT_MS: '60000' },
    };
    return withNodes(wanted, async (nodes) => {
      const each = { connections: Math.ceil(over / nodes.length), body };
      const rates = await Promise.all(nodes.map((node) => publishFor(node, each)));
      return rates.reduce((sum, { perSecond }) => sum + perSecond, 0);
    });
  });
}

/** Publishes to a server, after a warm-up, at whose end `warm` is called. */
export async function publishFor(
  { port, token }: Pick<Running, 'port'> & { readonly token?: string },
  { connections: over, body }: { readonly connections: number; readonly body: string },
  warm: () => Promise<void> = async () => {},
): ReturnType<typeof load> {
  const requests = [post('/api/v2/events', port, body, token)];
  await load({ port, connections: over, seconds: 1, requests });
  await warm();
  return load({ port, connections: over, seconds, requests });
}

async function hundredRate(engine: Engine, nodes = 1): Promise<number> {
  return 100 * (await publishRate(engine, { nodes, body: hundred, over: 8 }));
}

async function bareRouteRate(): Promise<number> {
  const route = startChild('./bare-route.ts');
  const { port } = await message<{ port: number }>(route);
  const { perSecond } = await publishFor({ port }, { connections, body: one });
  await endChild(route);
  return perSecond;
}

async function insertRate(engine: Engine): Promise<number> {
  const tempStore = await engine.createTempStore();
  const rate = await bareInsertRate(tempStore.location, makeEvent().body, seconds);
  await tempStore.remove();
  return rate;
}
