import type { Bench, Figure } from './bench.ts';
import { arrivalRate, startReceiver, type Receiver } from './child.ts';
import { drainEvents } from './drain.ts';
import { addStream, createTempStore, fill, startLeat, withStore } from './leat.ts';
import { loadCounted, post } from './load.ts';
import { clockTickMs } from './proc.ts';
import { connections, hundred, one, seconds } from './publish.ts';
import { median } from './rounds.ts';
import { perUnit, spentBy, spentPerUnit, type Spent } from './spent.ts';
import { threadSettings, type ThreadSetting } from './threads.ts';

/** One measurement: units of work per second, and the processor time for each. */
interface Cost extends Spent {
  readonly perSecond: number;
}

interface Work {
  readonly name: string;
  /** Microseconds of the main thread. */
  readonly goal: number | undefined;
  readonly measure: (thread: ThreadSetting, progress: (text: string) => void) => Promise<Cost>;
}

/**
 * Processor time of the server, of its main thread and of the whole process, which says more than a rate
 * where cores are shared. Linux only: it reads /proc.
 */
export const cost: Bench = {
  name: 'cost',
  what: `processor time of the main thread of a server for each event: of ${drainEvents} waiting ones that it delivers signed to one webhook, and of those published over HTTP for ${seconds} s; in steps of ${clockTickMs} ms for all of them together`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const events = options.events ?? drainEvents;
    const works: readonly Work[] = [
      {
        name: 'delivered',
        goal: 12,
        measure: (thread, filling) => deliver(receiver, events, thread, filling),
      },
      {
        name: 'published',
        goal: 20,
        measure: (thread) => publish(thread, { body: one, perRequest: 1, over: connections }),
      },
      {
        name: 'published by 100',
        goal: undefined,
        measure: (thread) => publish(thread, { body: hundred, perRequest: 100, over: 8 }),
      },
    ];
    try {
      const figures: Figure[] = [];
      for (const work of works) {
        figures.push(...(await measureWork(work, { ...options, progress })));
      }
      return figures;
    } finally {
      await receiver.end();
    }
  },
};

/** Measures with each number of threads in turn, so that a slow minute of the machine affects all of them. */
async function measureWork(
  { name, goal, measure }: Work,
  options: Parameters<Bench['run']>[1] & { readonly progress: (text: string) => void },
): Promise<Figure[]> {
  const sides = threadSettings(options).map((thread) => ({ thread, costs: [] as Cost[] }));
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const { thread, costs } of round % 2 === 0 ? sides.toReversed() : sides) {
      const where = `${name}${thread.suffix}, round ${round} of ${options.rounds}`;
      options.progress(where);
      costs.push(await measure(thread, (text) => options.progress(`${where}: ${text}`)));
    }
  }
  return sides.map(({ thread, costs }) => {
    const middle = (of: (each: Cost) => number): number => median(costs.map(of));
    return {
      name: `${name}${thread.suffix}`,
      detail: `each, of the main thread; ${middle(({ whole }) => whole).toFixed(1)} µs of the whole process, ${Math.round(middle(({ perSecond }) => perSecond)).toLocaleString('en')}/s`,
      values: costs.map(({ mainThread }) => mainThread),
      unit: 'µs',
      must: undefined,
      goal,
      better: 'lower',
    };
  });
}

async function deliver(
  receiver: Receiver,
  events: number,
  { settings }: ThreadSetting,
  progress: (text: string) => void,
): Promise<Cost> {
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    await addStream(store, receiver.port, { name: 'cost' });
    await fill(store, events, progress);
  });
  await receiver.reset();
  const leat = await startLeat(tempStore, settings);
  const spent = await spentPerUnit(leat.pid, async () => (await receiver.report()).count, {
    total: events,
  });
  const perSecond = arrivalRate(await receiver.report());
  await leat.end();
  await tempStore.remove();
  return { ...spent, perSecond };
}

async function publish(
  { settings }: ThreadSetting,
  { body, perRequest, over }: { body: string; perRequest: number; over: number },
): Promise<Cost> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, settings);
  const requests = [post('/api/v2/events', leat.port, body, leat.token)];
  await loadCounted({ port: leat.port, connections: over, seconds: 1, requests });
  const before = await spentBy(leat.pid);
  const load = await loadCounted({ port: leat.port, connections: over, seconds, requests });
  const spent = perUnit(before, await spentBy(leat.pid), load.responses * perRequest);
  await leat.end();
  await tempStore.remove();
  return { ...spent, perSecond: (load.responses * perRequest) / load.seconds };
}
