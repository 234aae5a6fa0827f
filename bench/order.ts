import type { Bench } from './bench.ts';
import { startReceiver } from './child.ts';
import { drainEvents, drainOnce } from './drain.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

/** Values by which the events are ordered. */
const keys = [10_000, 1_000_000] as const;

/** Waiting events to one webhook, ordered by key; against the same events unordered. */
export const order: Bench = {
  name: 'order',
  what: `${drainEvents} waiting events to one webhook, ordered by a value that is one of ten thousand, or of a million; against the same events unordered`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const events = options.events ?? drainEvents;
    const ordered = { orderBy: '/data/object/seq' };
    const drain =
      (values: number, delivery = {}) =>
      (): Promise<number> =>
        drainOnce(receiver, { events, progress, values, delivery });
    const figures = [];
    try {
      for (const values of keys) {
        const sides = [drain(values, ordered), drain(values)] as const;
        const rounds = await alternate(options.rounds, ...sides, progress);
        figures.push(rateFigure(`order, ${values} keys`, rounds, { least: 0.8, goal: 1 }));
      }
      return figures;
    } finally {
      await receiver.end();
    }
  },
};
