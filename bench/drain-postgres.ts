import { nodesOf } from '../test/helpers/cluster.ts';
import { waitFor } from '../test/helpers/leat.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { arrivalRate, startReceiver, type Receiver } from './child.ts';
import { bareOnce, drainEvents } from './drain.ts';
import { addStream, endNodes, fill, type Running, startNodes, withStore } from './leat.ts';
import { type Database, withClient, withPostgres } from './postgres.ts';
import { nodesText, rateFigure } from './report.ts';
import { alternate } from './rounds.ts';
import { countWrites, type Written, writtenFigures } from './written.ts';

/** The drain on PostgreSQL, by one node or several, and what the server writes for it. */
export const drainPostgres: Bench = {
  name: 'drain-postgres',
  what: `${drainEvents} waiting events on PostgreSQL, signed, to one webhook, in as many streams as there are nodes at most; against a bare undici pool posting the same bytes`,
  run: (progress, options) =>
    withPostgres(async (database) => {
      const receiver = await startReceiver();
      try {
        const figures: Figure[] = [];
        for (const nodes of options.nodes) {
          figures.push(...(await drainFigures(database, receiver, nodes, options, progress)));
        }
        return figures;
      } finally {
        await receiver.end();
      }
    }),
};

async function drainFigures(
  database: Database,
  receiver: Receiver,
  nodes: number,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const events = options.events ?? drainEvents;
  // The same streams for each number of nodes: each stream has a cost.
  const streams = Math.max(...options.nodes);
  const written: Written[] = [];
  const rounds = await alternate(
    options.rounds,
    async () => {
      const ended = await drainOnce(database, receiver, { events, nodes, streams }, progress);
      written.push(ended.written);
      return ended.rate;
    },
    () => bareOnce(receiver, events),
    (text) => progress(`${nodesText(nodes)}, ${text}`),
  );
  const name = `drain ${nodesText(nodes)}`;
  const limit = nodes === 1 ? { least: 0.45, goal: 0.75 } : undefined;
  return [rateFigure(name, rounds, limit), ...writtenFigures(name, written)];
}

/**
 * Drains a fresh database once. The nodes have claimed their streams before the events are published, and
 * responses are held until all events wait.
 */
export async function drainOnce(
  database: Database,
  receiver: Receiver,
  { events, nodes, streams }: { events: number; nodes: number; streams: number },
  progress: (text: string) => void,
): Promise<Drained> {
  const tempStore = await database.createTempStore();
  const types = Array.from({ length: streams }, (_, i) => (i === 0 ? 'order.paid' : `order.n${i}`));
  await withStore(tempStore, async (store) => {
    for (const type of types) await addStream(store, receiver.port, { name: type, types: [type] });
  });
  // Requests that are held while the log is filled must not count as failed.
  const running = await startNodes(tempStore, nodes, { LEAT_ATTEMPT_TIMEOUT_MS: '60000' });
  await shared(running, streams);
  await receiver.hold();
  await withStore(tempStore, (store) => fill(store, events, progress, types));
  const done = `(select count(*) from attempts) >= ${events}`;
  const drained = await openAndCount(tempStore.url, receiver, events, {
    done,
    end: () => endNodes(running),
  });
  await tempStore.remove();
  return drained;
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
