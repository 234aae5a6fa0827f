import { copyFile, open } from 'node:fs/promises';
import type { Bench } from './bench.ts';
import { arrivalRate, type Receiver, withReceiver } from './child.ts';
import { addStream, fill, sqlite, startLeat, type TempStore, withStore } from './leat.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

const waiting = 1_000_000;
const counted = 50_000;

/** Whether a large backlog makes each delivery more expensive. */
export const backlog: Bench = {
  name: 'backlog',
  what: `drain rate of ${counted} events with ${waiting} waiting, against the same with ${counted} waiting`,
  run: (progress, { rounds, events = waiting }) =>
    withReceiver([], async (receiver) => {
      const filledWith = async (count: number): Promise<TempStore> => {
        const tempStore = await sqlite.createTempStore();
        await withStore(tempStore, async (store) => {
          await addStream(store, receiver.port, { name: 'backlog' });
          await fill(store, count, progress);
        });
        return tempStore;
      };
      const full = await filledWith(events);
      const small = await filledWith(counted);
      const drain = (filled: TempStore) => () => drainSome(filled, receiver);
      const rates = await alternate(rounds, drain(full), drain(small), progress);
      await full.remove();
      await small.remove();
      return [rateFigure('backlog', rates, { least: 0.95, goal: 1 })];
    }),
};

/** Starts a server on a copy, so that every round begins with the same file. */
async function drainSome(filled: TempStore, receiver: Receiver): Promise<number> {
  const tempStore = await sqlite.createTempStore();
  await copyFile(filled.file, tempStore.file);
  // Otherwise a large copy would still be written to the disk while it is read.
  const copy = await open(tempStore.file, 'r+');
  await copy.sync();
  await copy.close();
  await receiver.reset();
  const leat = await startLeat(tempStore);
  const report = await receiver.received(counted);
  await leat.end();
  await tempStore.remove();
  return arrivalRate(report);
}
