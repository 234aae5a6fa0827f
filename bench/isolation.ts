import type { ChildProcess } from 'node:child_process';
import { startDns } from '../test/helpers/dns.ts';
import { freePort } from '../test/helpers/leat.ts';
import { createStream } from '../test/helpers/api-client.ts';
import { createTenant, type Tenant, twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure } from './bench.ts';
import {
  arrivalRate,
  endChild,
  message,
  startChild,
  startReceiver,
  type Receiver,
} from './child.ts';
import { addStream, fill, createTempStore, type Running, startLeat, withStore } from './leat.ts';
import { rateFigure } from './report.ts';
import { alternate, median, quantile, ratios } from './rounds.ts';
import { createSteady, type Steady } from './steady.ts';

/** Receivers of a tenant that may slow down other streams. */
interface Neighbour {
  readonly name: string;
  /** Streams whose receiver never responds. */
  readonly hanging?: number;
  /** Streams whose receiver responds with 204 after 9.5 s. */
  readonly slow?: number;
  /** Streams whose name servers are silent. */
  readonly silent?: number;
  /** At the same time a third tenant publishes large events as fast as permitted. */
  readonly floods?: boolean;
  /** Receivers end each connection, so that every attempt needs a name. */
  readonly closes?: boolean;
}

const neighbours: readonly Neighbour[] = [
  { name: 'hanging', hanging: 100 },
  { name: 'slow', slow: 100 },
  { name: 'silent names', silent: 20, closes: true },
  { name: 'together', hanging: 100, slow: 100, silent: 20, closes: true },
  { name: 'byte limit', floods: true },
  { name: 'all of them', hanging: 100, slow: 100, silent: 20, floods: true, closes: true },
];

/** The limit of the p99 with a neighbour. For a flood of large events it follows from SQLite: ADR 29. */
const mostOf = ({ floods = false }: Neighbour): number => (floods ? 8 : 2);

const perSecond = 200;
const measuredSeconds = 15;
/** Longer than a timeout, so that the first hanging attempts have ended. */
const warmUpSeconds = 15;
/** Each event goes to every stream of the neighbour. */
const neighbourPerSecond = 20;
const types = { neighbour: 'neighbour.made', own: 'own.made', other: 'other.made' };

/** The effect of slow, silent and greedy neighbours on a quick stream. */
export const isolation: Bench = {
  name: 'isolation',
  what:
    'throughput and p99 from publishing to arrival of quick streams, of the same tenant and of ' +
    'another one, with 100 receivers that hang, 100 that take 9.5 s, 20 silent names and a ' +
    'publisher of 64 MiB/s; against without them',
  run: async (progress, { rounds, cases = '' }) => {
    const bad = { hanging: await startReceiver('--hang'), slow: await startReceiver('--slow') };
    const dns = await startDns((name) => (name.startsWith('silent') ? 'silence' : ['127.0.0.1']));
    const badReceivers: BadReceivers = { ...bad, dnsServers: dns.servers };
    const figures: Figure[] = [];
    if ('throughput'.includes(cases)) {
      figures.push(await throughputFigure(badReceivers, rounds, progress));
    }
    for (const neighbour of neighbours.filter(({ name }) => name.includes(cases))) {
      figures.push(...(await latencyFigures(badReceivers, neighbour, rounds, progress)));
    }
    await bad.hanging.end();
    await bad.slow.end();
    await dns.close();
    return figures;
  },
};

interface BadReceivers {
  readonly hanging: Receiver;
  readonly slow: Receiver;
  readonly dnsServers: readonly string[];
}

const healthy = 49;
const backlogEvents = 1000;

/** Drains the waiting events of 49 streams, with 100 streams that hang and 100 slow ones, and without. */
async function throughputFigure(
  badReceivers: BadReceivers,
  rounds: number,
  progress: (text: string) => void,
): Promise<Figure> {
  const receiver = await startReceiver();
  const drain = async (isBeside: boolean): Promise<number> => {
    const tempStore = await createTempStore();
    await withStore(tempStore, async (store) => {
      for (let i = 0; i < (isBeside ? 100 : 0); i += 1) {
        await addStream(store, badReceivers.hanging.port, { name: `hanging-${i}` });
        await addStream(store, badReceivers.slow.port, { name: `slow-${i}` });
      }
      for (let i = 0; i < healthy; i += 1)
        await addStream(store, receiver.port, { name: `healthy-${i}` });
      await fill(store, backlogEvents, () => undefined);
    });
    await receiver.reset();
    const leat = await startLeat(tempStore);
    const report = await receiver.received(healthy * backlogEvents);
    await leat.end();
    await tempStore.remove();
    return arrivalRate(report);
  };
  const figures = await alternate(
    rounds,
    () => drain(true),
    () => drain(false),
    progress,
  );
  await receiver.end();
  return rateFigure('throughput', figures, { least: 0.95, goal: 1 });
}

async function latencyFigures(
  badReceivers: BadReceivers,
  neighbour: Neighbour,
  rounds: number,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const closes = neighbour.closes === true ? (['--close'] as const) : [];
  const receivers = {
    own: await startReceiver('--seq', ...closes),
    other: await startReceiver('--seq', ...closes),
  };
  const tails = { own: noTails(), other: noTails() };
  for (let round = 0; round < rounds; round += 1) {
    progress(`${neighbour.name}, round ${round + 1} of ${rounds}`);
    const alone = await delays(badReceivers, receivers, { name: 'nobody' });
    const underLoad = await delays(badReceivers, receivers, neighbour);
    for (const side of ['own', 'other'] as const) {
      tails[side].ours.push(tailOf(underLoad[side]));
      tails[side].theirs.push(tailOf(alone[side]));
    }
  }
  await receivers.own.end();
  await receivers.other.end();
  return [
    ...tailFigures(`${neighbour.name}: other tenant`, tails.other, mostOf(neighbour)),
    ...tailFigures(`${neighbour.name}: same tenant`, tails.own, mostOf(neighbour)),
  ];
}

/** Returns the p99 of each second in ms: of the median second, and of the worst. */
interface Tail {
  readonly typicalMs: number;
  readonly worstMs: number;
}

interface Tails {
  readonly ours: Tail[];
  readonly theirs: Tail[];
}

const noTails = (): Tails => ({ ours: [], theirs: [] });

/**
 * A single stall of 100 ms of a disk or a machine determines the p99 of 10 s on either side: neighbours
 * affect the median second.
 */
function tailOf(seconds: readonly number[][]): Tail {
  const p99s = seconds.map((delaysMs) => quantile(delaysMs, 0.99));
  return { typicalMs: median(p99s), worstMs: Math.max(...p99s) };
}

function tailFigures(name: string, { ours, theirs }: Tails, most: number): Figure[] {
  const figure = (of: keyof Tail): Omit<Figure, 'name' | 'must' | 'goal'> => {
    const [our, their] = [ours.map((tail) => tail[of]), theirs.map((tail) => tail[of])];
    return {
      detail: `p99 ${median(our).toFixed(2)} against ${median(their).toFixed(2)} ms`,
      values: ratios({ ours: our, theirs: their }),
      unit: '×',
    };
  };
  return [
    { name, ...figure('typicalMs'), must: { kind: 'most', value: most }, goal: 1 },
    { name: `${name}, worst second`, ...figure('worstMs'), must: undefined, goal: undefined },
  ];
}

interface Receivers {
  readonly own: Receiver;
  readonly other: Receiver;
}

/**
 * Returns the milliseconds from publishing to arrival of each event, for a stream of either tenant, by
 * the second in which they were published.
 */
async function delays(
  badReceivers: BadReceivers,
  receivers: Receivers,
  neighbour: Neighbour,
): Promise<Record<'own' | 'other', number[][]>> {
  const tempStore = await createTempStore();
  const leat = await startLeat(tempStore, {
    ...twoTenantsSettings(await freePort()),
    LEAT_DNS_SERVERS: badReceivers.dnsServers.join(','),
    LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: String(64 * 1024 * 1024),
    // No stream of the neighbour is disabled during the measurement.
    LEAT_DISABLE_CONSECUTIVE: '1000000',
    LEAT_DISABLE_TOTAL: '10000000',
  });
  const two = await createTenant(leat, tempStore.file);
  const main = tenantOf(leat);
  await createStream(main, endpoint('own', receivers.own), { types: [types.own] });
  await createStream(two, endpoint('other', receivers.other), { types: [types.other] });
  await addNeighbour(badReceivers, main, neighbour);
  // A separate tenant: at its byte limit further events are refused, which is not measured.
  const greedy = neighbour.floods === true && (await createTenant(leat, tempStore.file, 'three'));
  const flood = greedy === false ? undefined : await startFlood(greedy);
  const underLoad = createSteady(main, types.neighbour, neighbourPerSecond);
  const own = createSteady(main, types.own, perSecond);
  const other = createSteady(two, types.other, perSecond);
  await Promise.all([receivers.own.reset(), receivers.other.reset()]);
  const seconds = warmUpSeconds + measuredSeconds;
  const sent = await Promise.all([own.run(seconds), other.run(seconds), underLoad.run(seconds)]);
  const measured = {
    own: await arrivalsOf(receivers.own, own, sent[0]),
    other: await arrivalsOf(receivers.other, other, sent[1]),
  };
  if (flood !== undefined) await endChild(flood);
  await leat.end();
  await tempStore.remove();
  return measured;
}

/** Host names, so that connections use the name servers of the benchmark. */
function endpoint(name: string, { port }: Receiver): string {
  return `http://${name}.test:${port}/`;
}

function tenantOf({ url, port, token }: Running): Tenant {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return {
    url,
    port,
    token,
    headers,
    send: (method, path, body) =>
      fetch(url + path, { method, headers, body: JSON.stringify(body) }),
  };
}

async function addNeighbour(
  badReceivers: BadReceivers,
  tenant: Tenant,
  neighbour: Neighbour,
): Promise<void> {
  const { hanging = 0, slow = 0, silent = 0 } = neighbour;
  const options = { types: [types.neighbour] };
  for (let i = 0; i < hanging; i += 1) {
    await createStream(tenant, endpoint('hanging', badReceivers.hanging), options);
  }
  for (let i = 0; i < slow; i += 1)
    await createStream(tenant, endpoint('slow', badReceivers.slow), options);
  for (let i = 0; i < silent; i += 1) {
    await createStream(tenant, `http://silent-${i}.test/`, options);
  }
}

async function startFlood({ url, headers }: Tenant): Promise<ChildProcess> {
  const child = startChild('./flood.ts', [url, JSON.stringify(headers)]);
  await message(child);
  return child;
}

/** Returns the delays of events after the warm-up, by the second in which they were published. */
async function arrivalsOf(receiver: Receiver, steady: Steady, count: number): Promise<number[][]> {
  const { arrivals } = await receiver.received(count);
  const seconds: number[][] = Array.from({ length: measuredSeconds }, () => []);
  for (const [seq, atMs] of arrivals) {
    const second = Math.floor(seq / perSecond) - warmUpSeconds;
    seconds[second]?.push(atMs - (steady.sentAtMs(seq) ?? NaN));
  }
  return seconds;
}
