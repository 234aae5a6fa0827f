import { copyFile, open } from 'node:fs/promises';
import type { Bench } from './bench.ts';
import { arrivalRate, startReceiver, type Receiver } from './child.ts';
import { addStream, fill, createTempStore, startLeat, withStore, type TempStore } from './leat.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

const waiting = 1_000_000;
const counted = 50_000;

/** Whether a large backlog makes each delivery more expensive. */
export const backlog: Bench = {
  name: 'backlog',
  what: `drain rate of ${counted} events with ${waiting} waiting, against the same with ${counted} waiting`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const full = await makeFilled(receiver, waiting, progress);
    const small = await makeFilled(receiver, counted, progress);
    const rounds = await alternate(
      options.rounds,
      () => drainSome(full, receiver),
      () => drainSome(small, receiver),
      progress,
    );
    await receiver.end();
    await full.remove();
    await small.remove();
    return [rateFigure('backlog', rounds, { least: 0.95, goal: 1 })];
  },
};

async function makeFilled(
  receiver: Receiver,
  count: number,
  progress: (text: string) => void,
): Promise<TempStore> {
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    await addStream(store, receiver.port, { name: 'backlog' });
    await fill(store, count, progress);
  });
  return tempStore;
}

/** Starts a server on a copy, so that every round begins with the same file. */
async function drainSome(filled: TempStore, receiver: Receiver): Promise<number> {
  const tempStore = await createTempStore();
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
