import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createSerialQueue } from '../../src/core/serial-queue.ts';
import { createAgeWatch } from '../../src/delivery/age-watch.ts';
import { FetchQueue } from '../../src/delivery/http/fetch-queue.ts';
import { createTextQueue } from '../../src/delivery/text-queue.ts';
import { ReadLimiter } from '../../src/log/read-limiter.ts';
import { createHints } from '../../src/store/hints.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';

/** Queues that run work of others; `number` is that of the work. */
const queues: Record<string, (clock: ManualClock) => (work: () => void, number: number) => void> = {
  'reads of pages': (clock) => {
    const limiter = new ReadLimiter(clock);
    return (work) =>
      limiter.enqueue(() => {
        work();
        return Promise.resolve();
      });
  },
  'fetches of tokens': () => {
    const queue = new FetchQueue({ perEndpoint: 1, perTenant: 2, total: 3 });
    return (work, number) =>
      queue.enqueue(number % 3, `${number % 5}`, () => {
        work();
        return Promise.resolve();
      });
  },
  'texts of receivers': (clock) => {
    const queue = createTextQueue(clock);
    return (work, number) =>
      queue.run(number % 3, () => {
        clock.move(1);
        work();
      });
  },
  'tasks in series': () => {
    const run = createSerialQueue();
    return (work) => {
      void run(() => {
        work();
        return Promise.resolve();
      });
    };
  },
  hints: () => {
    const hints = createHints({ report: assert.ifError });
    const waiting: (() => void)[] = [];
    hints.watch(() => waiting.shift()?.());
    return (work) => {
      waiting.push(work);
      hints.emit({ kind: 'free' });
    };
  },
  'watched ages': (clock) => {
    const watch = createAgeWatch<{ readonly beganMs: number; readonly work: () => void }>({
      clock,
      ageMs: 10,
      beganMs: ({ beganMs }) => beganMs,
      isOver: () => false,
      expired: ({ work }) => work(),
    });
    return (work) => watch.watch({ beganMs: clock.elapsedMs(), work });
  },
};

describe('queues that are entered by their own work', () => {
  for (const [name, open] of Object.entries(queues)) {
    test(`${name}: all work is done once, and the stack stays small`, async () => {
      const clock = createManualClock();
      const enter = open(clock);
      const worksMax = 12_000;
      let entered = 0;
      let done = 0;
      const add = (): void => {
        if (entered >= worksMax) return;
        entered += 1;
        enter(() => {
          done += 1;
          assert.ok(done <= worksMax);
          add();
          add();
        }, entered);
      };
      add();
      await clock.advance(100_000);
      assert.deepEqual([entered, done], [worksMax, worksMax]);
    });
  }
});
