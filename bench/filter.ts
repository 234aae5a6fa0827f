import type { Store } from '../src/store/port/store.ts';
import type { Bench, Figure, Progress, RunOptions } from './bench.ts';
import { type Receiver, withReceiver } from './child.ts';
import { type Drained, drainOnce } from './drain.ts';
import { type FilterCase, filterCases } from './filter-cases.ts';
import { createProbe, holdFigure, type Holds } from './holds.ts';
import { addStreams, fill, makeFolder, orderData, withLeat } from './leat.ts';
import { load, post } from './load.ts';
import { wait } from './proc.ts';
import { against, figure, rateFigure } from './report.ts';
import { alternate, inTurn, pick } from './rounds.ts';
import { publish } from './steady.ts';

const streams = 100;
const publishSeconds = 5;
const drainEvents = 50_000;
const hostileStreams = 1000;
const hostileSeconds = 8;

/**
 * Streams that receive one event in a hundred, by their filter or by a type of their own: both
 * sides have the same events, deliveries and streams, but only those with a filter evaluate all events.
 */
export const filter: Bench = {
  name: 'filter',
  what:
    `${streams} streams whose filters match 1 % of the events each; against ${streams} streams without, ` +
    'of which each has 1 % of the events by their type: the same deliveries. And the longest hold of the ' +
    `event loop with ${hostileStreams} hostile filters and events of 255 KiB`,
  run: (progress, options) =>
    withReceiver([], async (receiver) => {
      const cases = filterCases.filter(({ name }) => name.includes(options.cases));
      const fanOut = 'fan-out'.includes(options.cases);
      return [
        ...(fanOut ? await comparison(receiver, options, progress) : []),
        ...(await inTurn(cases, (each) => hostileFigures(each, options.rounds, progress))),
      ];
    }),
};

type Side = 'filters' | 'types';

const parts = Array.from({ length: streams }, (_, part) => part);

const typesOf = (side: Side): string[] =>
  parts.map((part) => (side === 'filters' ? 'order.paid' : `order.paid_${part}`));

async function comparison(
  receiver: Receiver,
  { rounds, events = drainEvents }: RunOptions,
  progress: Progress,
): Promise<Figure[]> {
  const publishing = (side: Side) => () => publishRate(receiver, side);
  const published = await alternate(rounds, publishing('filters'), publishing('types'), progress);
  const draining = (side: Side) => (): Promise<Drained> =>
    drainOnce(receiver, events, async (store) => {
      await addSide(store, receiver, side);
      await fill(store, events, progress, typesOf(side), (index) => index % streams);
    });
  const drained = await alternate(rounds, draining('filters'), draining('types'), progress);
  const cpu = pick(drained, ({ whole }) => (whole * events) / 1e6);
  const micros = drained.ours.map(
    ({ whole }, round) => (whole - (drained.theirs[round]?.whole ?? NaN)) / streams,
  );
  return [
    rateFigure('fan-out', published, { least: 0.9, goal: 1 }),
    rateFigure(
      'waiting events',
      pick(drained, ({ rate }) => rate),
    ),
    figure('an event and stream', 'µs', micros, {
      detail: `processor time of ${events.toLocaleString('en')} events to ${streams} streams: ${against(cpu, 's')}`,
      most: 2,
    }),
  ];
}

/** Adds the streams of a side. */
function addSide(store: Store, { port }: Receiver, side: Side): Promise<void> {
  const all = typesOf(side).map((type, part) => ({
    types: [type],
    ...(side === 'filters' && { filter: JSON.stringify({ 'data.object.seq': part }) }),
  }));
  return addStreams(store, port, all);
}

/** Measures publishes per second, one event per request, while the streams receive their events. */
function publishRate(receiver: Receiver, side: Side): Promise<number> {
  const filled = async (store: Store): Promise<void> => {
    await addSide(store, receiver, side);
    await receiver.reset();
  };
  return withLeat({ fill: filled }, async ({ port, token }) => {
    const requests = typesOf(side).map((type, part) =>
      post('/api/v2/events', port, JSON.stringify({ type, data: orderData(part) }), token),
    );
    const publishing = { port, connections: streams, requests };
    await load({ ...publishing, seconds: 1 });
    return (await load({ ...publishing, seconds: publishSeconds })).perSecond;
  });
}

async function hostileFigures(
  one: FilterCase,
  rounds: number,
  progress: Progress,
): Promise<Figure[]> {
  const seen: { readonly alone: Holds; readonly underLoad: Holds }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    progress(`${one.name}, round ${round + 1} of ${rounds}`);
    seen.push(await holdsOf(one));
  }
  const alone = seen.map((each) => each.alone.longestMs);
  return [
    holdFigure(
      one.name,
      seen.map(({ underLoad }) => underLoad),
      alone,
    ),
  ];
}

/** Measures the longest hold while a thousand streams filter the events of a case; none of them matches. */
async function holdsOf(one: FilterCase): Promise<{ alone: Holds; underLoad: Holds }> {
  const { folder, remove } = await makeFolder();
  const probe = createProbe(folder);
  const all = Array.from({ length: hostileStreams }, (_, index) => ({
    filter: JSON.stringify(one.condition(index)),
  }));
  const wanted = { settings: probe.settings, fill: (store: Store) => addStreams(store, 9, all) };
  const holds = await withLeat(wanted, async (leat) => {
    await wait(2);
    await probe.longest(leat);
    await wait(2);
    const alone = await probe.longest(leat);
    for (let sent = 0; sent < 2 * hostileSeconds; sent += 1) {
      await publish(leat, `{"type":"order.paid","data":{"object":${one.object}}}`);
      await wait(0.5);
    }
    return { alone, underLoad: await probe.longest(leat) };
  });
  await remove();
  return holds;
}
