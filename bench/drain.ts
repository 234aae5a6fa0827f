import { availableParallelism } from 'node:os';
import { deliveryBody } from '../src/core/envelope.ts';
import type { DeliveryOptions } from '../src/core/types.ts';
import type { Store } from '../src/store/port/store.ts';
import type { BareOrder } from './bare-sender.ts';
import type { Bench, Progress } from './bench.ts';
import {
  arrivalRate,
  arrived,
  endChild,
  type Receiver,
  startChild,
  withReceiver,
} from './child.ts';
import { addStream, fill, makeEvent, withLeat } from './leat.ts';
import { perUnit, type Spent, spentBy } from './proc.ts';
import { rateFigure } from './report.ts';
import { alternate, inTurn, pick } from './rounds.ts';

/** Waiting events by default. */
export const drainEvents = 100_000;
const connections = 64;

/** Waiting events, signed, to one webhook in another process, against a bare undici pool. */
export const drain: Bench = {
  name: 'drain',
  what: `${drainEvents} waiting events, signed, to one webhook; against a bare undici pool with ${connections} connections posting the same bytes`,
  run: (progress, { rounds, events = drainEvents }) =>
    withReceiver([], async (receiver) => {
      const rates = await alternate(
        rounds,
        async () => (await drainStream(receiver, events, progress)).rate,
        () => bareOnce(receiver, events),
        progress,
      );
      return [rateFigure('drain', rates, { least: 0.55, goal: 0.9 })];
    }),
};

/** Two ways to deliver the same waiting events to one webhook. */
interface Ways {
  readonly name: string;
  readonly ours: DeliveryOptions;
  readonly theirs?: DeliveryOptions;
  /** How many values `data.object.seq` has. */
  readonly values?: number;
  readonly limit?: { readonly least: number; readonly goal: number } | undefined;
}

function drainInWays(name: string, what: string, ways: readonly Ways[]): Bench {
  return {
    name,
    what: `${drainEvents} waiting events to one webhook, ${what}`,
    run: (progress, { rounds, events = drainEvents }) =>
      withReceiver([], (receiver) =>
        inTurn(ways, async ({ name: figure, ours, theirs, values, limit }) => {
          const drainBy = (delivery?: DeliveryOptions) => () =>
            drainStream(receiver, events, progress, { delivery, values });
          const seen = await alternate(rounds, drainBy(ours), drainBy(theirs), progress);
          return [rateFigure(figure, pick(seen, rateOf), limit)];
        }),
      ),
  };
}

const rateOf = ({ rate }: Drained): number => rate;
const orderBy = '/data/object/seq';
const ofOrder = { ours: { orderBy }, limit: { least: 0.8, goal: 1 } };

export const order = drainInWays(
  'order',
  'ordered by a value that is one of ten thousand, or of a million; against the same events unordered',
  [
    { ...ofOrder, name: 'order, 10000 keys', values: 10_000 },
    { ...ofOrder, name: 'order, 1000000 keys', values: 1_000_000 },
  ],
);

export const signature = drainInWays(
  'signature',
  'signed with the key of the tenant (v1a); against the signing secret (v1)',
  [
    {
      name: 'signature',
      ours: { signature: 'v1a' },
      theirs: { signature: 'v1' },
      // A signature takes 45 µs of another core. Two cores are busy with Leat and the receiver.
      limit: availableParallelism() < 4 ? undefined : { least: 0.9, goal: 1 },
    },
  ],
);

/** Deliveries per second, and processor time of the sender for each. */
export interface Drained extends Spent {
  readonly rate: number;
}

/** Drains waiting events of one stream. */
export function drainStream(
  receiver: Receiver,
  events: number,
  progress: Progress,
  {
    delivery,
    values = 1,
  }: { delivery?: DeliveryOptions | undefined; values?: number | undefined } = {},
): Promise<Drained> {
  const seqOf = (): number => Math.floor(Math.random() * values);
  return drainOnce(receiver, events, async (store) => {
    await addStream(store, receiver.port, { name: 'drain', delivery });
    await fill(store, events, progress, undefined, seqOf);
  });
}

/** Drains a store that has `events` deliveries to make. */
export function drainOnce(
  receiver: Receiver,
  events: number,
  filled: (store: Store) => Promise<unknown>,
): Promise<Drained> {
  const fillAndReset = async (store: Store): Promise<void> => {
    await filled(store);
    await receiver.reset();
  };
  return withLeat({ fill: fillAndReset }, async ({ pid }) => {
    const spent = await spentForEach(pid, receiver.report, { total: events });
    return { ...spent, rate: arrivalRate(await receiver.report()) };
  });
}

/** Waits until all have arrived; returns what the process spent for each after the first ones. */
export async function spentForEach(
  pid: number,
  report: () => Promise<{ readonly count: number }>,
  { from = 1, total }: { readonly from?: number; readonly total: number },
): Promise<Spent> {
  const { count } = await arrived(from, report);
  const before = await spentBy(pid);
  const { count: all } = await arrived(total, report);
  return perUnit(before, await spentBy(pid), all - count);
}

/** Measures deliveries per second of the bare pool. */
export async function bareOnce(receiver: Receiver, events: number): Promise<number> {
  await receiver.reset();
  const sender = startChild('./bare-sender.ts');
  const origins = [`http://127.0.0.1:${receiver.port}`];
  const body = [deliveredBytes()];
  sender.send({
    origins,
    count: events,
    connections,
    body,
    headers: signedHeaders,
  } satisfies BareOrder);
  const report = await receiver.received(events);
  await endChild(sender);
  return arrivalRate(report);
}

/** Returns the bytes that a delivery posts. */
export function deliveredBytes(seq = 0): string {
  return deliveryBody(makeEvent(seq).body, 'svc', 'est_MASi45ub7Qe4ZE36UT5G6c');
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
