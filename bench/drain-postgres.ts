import { nodesOf } from '../test/helpers/cluster.ts';
import { waitFor } from '../test/helpers/leat.ts';
import type { Store } from '../src/store/port/store.ts';
import type { Bench, Figure, Progress, RunOptions } from './bench.ts';
import { arrivalRate, type Receiver, withReceiver } from './child.ts';
import { bareOnce, drainEvents } from './drain.ts';
import { addStreams, type Engine, fill, type Running, withNodes, withStore } from './leat.ts';
import { urlOf, withClient, withPostgres } from './postgres.ts';
import { nodesText, rateFigure } from './report.ts';
import { alternate, inTurn } from './rounds.ts';
import { countWrites, type Written, writtenFigures } from './written.ts';

/** The drain on PostgreSQL, by one node or several, and what the server writes for it. */
export const drainPostgres: Bench = {
  name: 'drain-postgres',
  what: `${drainEvents} waiting events on PostgreSQL, signed, to one webhook, in as many streams as there are nodes at most; against a bare undici pool posting the same bytes`,
  run: (progress, options) =>
    withPostgres((engine) =>
      withReceiver([], (receiver) =>
        inTurn(options.nodes, (nodes) => figuresOf({ engine, receiver, nodes }, options, progress)),
      ),
    ),
};

interface Where {
  readonly engine: Engine;
  readonly receiver: Receiver;
  readonly nodes: number;
}

async function figuresOf(
  where: Where,
  { rounds, nodes: counts, events = drainEvents }: RunOptions,
  progress: Progress,
): Promise<Figure[]> {
  // The same streams for each number of nodes: each stream has a cost.
  const streams = Math.max(...counts);
  const written: Written[] = [];
  const rates = await alternate(
    rounds,
    async () => {
      const ended = await drainOnce(where, { events, streams }, progress);
      written.push(ended.written);
      return ended.rate;
    },
    () => bareOnce(where.receiver, events),
    (text) => progress(`${nodesText(where.nodes)}, ${text}`),
  );
  const name = `drain ${nodesText(where.nodes)}`;
  const limit = where.nodes === 1 ? { least: 0.45, goal: 0.75 } : undefined;
  return [rateFigure(name, rates, limit), ...writtenFigures(name, written)];
}

/**
 * Drains a fresh database once. The nodes have claimed their streams before the events are published, and
 * responses are held until all events wait.
 */
export function drainOnce(
  { engine, receiver, nodes }: Where,
  { events, streams }: { readonly events: number; readonly streams: number },
  progress: Progress,
): Promise<Drained> {
  const types = Array.from({ length: streams }, (_, i) => (i === 0 ? 'order.paid' : `order.n${i}`));
  const wanted = {
    engine,
    nodes,
    // Requests that are held while the log is filled must not count as failed.
    settings: { LEAT_ATTEMPT_TIMEOUT_MS: '60000' },
    fill: (store: Store) =>
      addStreams(
        store,
        receiver.port,
        types.map((type) => ({ types: [type] })),
      ),
  };
  return withNodes(wanted, async (running, tempStore) => {
    await shared(running, streams);
    await receiver.hold();
    await withStore(tempStore, (store) => fill(store, events, progress, types));
    return openAndCount(urlOf(tempStore), receiver, events, {
      done: `(select count(*) from attempts) >= ${events}`,
      end: async () => void (await Promise.all(running.map((node) => node.end()))),
    });
  });
}

/** The result of a drain. */
export interface Drained {
  /** Deliveries per second. */
  readonly rate: number;
  readonly written: Written;
}

/**
 * Releases the held deliveries, and waits until all have arrived and are recorded: `done` is SQL that
 * is true then, and `end` stops the senders.
 */
export async function openAndCount(
  url: string,
  receiver: Receiver,
  events: number,
  { done, end }: { readonly done: string; readonly end: () => Promise<void> },
): Promise<Drained> {
  return withClient(url, async (client) => {
    const counting = await countWrites(client);
    await receiver.open();
    const report = await receiver.received(events);
    await counting.stop(done);
    await end();
    return { rate: arrivalRate(report), written: await counting.written(events) };
  });
}

/** Waits until every stream has an owner and no node has more than its share. */
async function shared(nodes: readonly Running[], streams: number): Promise<void> {
  const [first] = nodes;
  if (first === undefined) return;
  const share = Math.ceil(streams / nodes.length);
  await waitFor('the nodes to claim their streams', async () => {
    const shown = await nodesOf(first);
    const owned = shown.reduce((sum, node) => sum + node.streams, 0);
    return owned === streams && shown.every((node) => node.streams <= share);
  });
}
