import type { Bench } from './bench.ts';
import { arrivalRate, startReceiver, type Receiver } from './child.ts';
import { addStream, fill, makePlace, startLeat, withStore } from './leat.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

const healthy = 49;
const events = 1000;

/** Whether one endpoint that hangs takes anything from the others. */
export const isolation: Bench = {
  name: 'isolation',
  what: `throughput of ${healthy} healthy streams while a 50th hangs, against without it`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const hanging = await startReceiver('--hang');
    const rounds = await alternate(
      options.rounds,
      () => throughput(receiver, hanging),
      () => throughput(receiver, undefined),
      progress,
    );
    await receiver.end();
    await hanging.end();
    return [rateFigure('isolation', rounds, { least: 0.95, goal: 1 })];
  },
};

async function throughput(receiver: Receiver, hanging: Receiver | undefined): Promise<number> {
  const place = await makePlace();
  await withStore(place, async (store) => {
    if (hanging !== undefined) await addStream(store, hanging.port, { name: 'hanging' });
    for (let i = 0; i < healthy; i++)
      await addStream(store, receiver.port, { name: `healthy-${i}` });
    await fill(store, events, () => undefined);
  });
  await receiver.reset();
  const leat = await startLeat(place);
  const report = await receiver.received(healthy * events);
  await leat.end();
  await place.remove();
  return arrivalRate(report);
}
