import { once } from 'node:events';
import { deliveryBody } from '../src/core/envelope.ts';
import type { DeliveryOptions } from '../src/core/types.ts';
import { alternate } from './rounds.ts';
import type { Bench, Figure } from './bench.ts';
import { arrivalRate, startChild, startReceiver, type Receiver } from './child.ts';
import { addStream, fill, makeEvent, createTempStore, startLeat, withStore } from './leat.ts';
import { rateFigure } from './report.ts';
import { threadSettings } from './threads.ts';

/** Waiting events by default. */
export const drainEvents = 100_000;
const connections = 64;

/** Waiting events, signed, to one webhook in another process, against a bare undici pool. */
export const drain: Bench = {
  name: 'drain',
  what: `${drainEvents} waiting events, signed, to one webhook; against a bare undici pool with ${connections} connections posting the same bytes`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const events = options.events ?? drainEvents;
    try {
      const figures: Figure[] = [];
      for (const { suffix, settings } of threadSettings(options)) {
        const rounds = await alternate(
          options.rounds,
          () => drainOnce(receiver, { events, progress, settings }),
          () => bareOnce(receiver, events),
          progress,
        );
        figures.push(rateFigure(`drain${suffix}`, rounds, { least: 0.55, goal: 0.9 }));
      }
      return figures;
    } finally {
      await receiver.end();
    }
  },
};

/** Measures deliveries per second of waiting events to one webhook. */
export async function drainOnce(
  receiver: Receiver,
  options: {
    readonly events: number;
    readonly progress: (text: string) => void;
    readonly delivery?: DeliveryOptions;
    /** Values of `data.object.seq`, which is one of them at random. */
    readonly values?: number;
    readonly settings?: Readonly<Record<string, string>>;
  },
): Promise<number> {
  const { events, progress, delivery, values = 1 } = options;
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    await addStream(store, receiver.port, { name: 'drain', delivery });
    const seqOf = (): number => Math.floor(Math.random() * values);
    await fill(store, events, progress, undefined, seqOf);
  });
  await receiver.reset();
  const leat = await startLeat(tempStore, options.settings);
  const report = await receiver.received(events);
  await leat.end();
  await tempStore.remove();
  return arrivalRate(report);
}

/** Measures deliveries per second of the bare pool. */
export async function bareOnce(receiver: Receiver, events: number): Promise<number> {
  await receiver.reset();
  const sender = startChild('./bare-sender.ts', [receiver.port, events, connections].map(String));
  sender.send({ body: deliveredBytes(), headers: signedHeaders });
  await once(sender, 'exit');
  return arrivalRate(await receiver.report());
}

/** Returns the bytes that a delivery posts. */
export function deliveredBytes(): string {
  return deliveryBody(makeEvent().body, 'svc', 'est_MASi45ub7Qe4ZE36UT5G6c');
}

/** Headers of the same length as those of a delivery; the receiver ignores their values. */
export const signedHeaders = {
  'content-type': 'application/json',
  'user-agent': 'Leat/0.1.0',
  authorization: 'Bearer token-of-the-bench',
  'webhook-id': 'evt_U4ud8Fhhe4deS4F3cw9KTA',
  'webhook-timestamp': '1772357400',
  'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
};
