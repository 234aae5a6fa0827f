import type { Bench, Figure, Progress } from './bench.ts';
import { withReceiver } from './child.ts';
import { type Drained, drainEvents, drainStream } from './drain.ts';
import { withLeat } from './leat.ts';
import { clockTickMs, perUnit, spentBy } from './proc.ts';
import { connections, hundred, one, publishFor, seconds } from './publish.ts';
import { figure } from './report.ts';
import { inTurn, median } from './rounds.ts';

interface Work {
  readonly name: string;
  /** Microseconds of the main thread. */
  readonly goal?: number;
  readonly measure: (progress: Progress) => Promise<Drained>;
}

/**
 * Processor time of the server, of its main thread and of the whole process, which says more than a rate
 * where cores are shared. Linux only: it reads /proc.
 */
export const cost: Bench = {
  name: 'cost',
  what: `processor time of the main thread of a server for each event: of ${drainEvents} waiting ones that it delivers signed to one webhook, and of those published over HTTP for ${seconds} s; in steps of ${clockTickMs} ms for all of them together`,
  run: (progress, { rounds, events = drainEvents }) =>
    withReceiver([], (receiver) => {
      const works: readonly Work[] = [
        {
          name: 'delivered',
          goal: 12,
          measure: (filling) => drainStream(receiver, events, filling),
        },
        { name: 'published', goal: 20, measure: () => publish(one, 1, connections) },
        { name: 'published by 100', measure: () => publish(hundred, 100, 8) },
      ];
      return inTurn(works, async ({ name, goal, measure }): Promise<Figure[]> => {
        const costs: Drained[] = [];
        for (let round = 1; round <= rounds; round += 1) {
          const where = `${name}, round ${round} of ${rounds}`;
          progress(where);
          costs.push(await measure((text) => progress(`${where}: ${text}`)));
        }
        const middle = (of: (each: Drained) => number): number => median(costs.map(of));
        const detail = `each, of the main thread; ${middle(({ whole }) => whole).toFixed(1)} µs of the whole process, ${Math.round(middle(({ rate }) => rate)).toLocaleString('en')}/s`;
        const values = costs.map(({ mainThread }) => mainThread);
        return [figure(name, 'µs', values, { detail, goal, better: 'lower' })];
      });
    }),
};

function publish(body: string, perRequest: number, over: number): Promise<Drained> {
  return withLeat({}, async (leat) => {
    let before = await spentBy(leat.pid);
    const load = await publishFor(leat, { connections: over, body }, async () => {
      before = await spentBy(leat.pid);
    });
    const spent = perUnit(before, await spentBy(leat.pid), load.responses * perRequest);
    return { ...spent, rate: load.perSecond * perRequest };
  });
}
