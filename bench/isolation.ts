import type { ChildProcess } from 'node:child_process';
import type { Store } from '../src/store/port/store.ts';
import { createStream } from '../test/helpers/api-client.ts';
import { startDns } from '../test/helpers/dns.ts';
import { freePort } from '../test/helpers/leat.ts';
import { createTenant, twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure, Progress } from './bench.ts';
import { endChild, message, type Receiver, startChild, withReceiver } from './child.ts';
import { drainOnce } from './drain.ts';
import { addStreams, fill, type Running, withLeat } from './leat.ts';
import { against, ratioFigure, rateFigure } from './report.ts';
import { alternate, inTurn, median, pick, quantile } from './rounds.ts';
import { arrivalDelays, postSteadily, type Target } from './steady.ts';

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
const seconds = warmUpSeconds + measuredSeconds;
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
  run: async (progress, { rounds, cases }) => {
    const dns = await startDns((name) => (name.startsWith('silent') ? 'silence' : ['127.0.0.1']));
    const figures = await withReceiver(['--hang'], (hanging) =>
      withReceiver(['--slow'], async (slow) => {
        const bad = { hanging, slow, dnsServers: dns.servers };
        const wanted = neighbours.filter(({ name }) => name.includes(cases));
        return [
          ...('throughput'.includes(cases) ? [await throughputFigure(bad, rounds, progress)] : []),
          ...(await inTurn(wanted, (each) => latencyFigures(bad, each, rounds, progress))),
        ];
      }),
    );
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
function throughputFigure(bad: BadReceivers, rounds: number, progress: Progress): Promise<Figure> {
  return withReceiver([], async (receiver) => {
    const streams = (name: string, count: number): { name: string }[] =>
      Array.from({ length: count }, (_, index) => ({ name: `${name}-${index}` }));
    const drainBeside = (count: number) => async (): Promise<number> => {
      const { rate } = await drainOnce(receiver, healthy * backlogEvents, async (store: Store) => {
        await addStreams(store, bad.hanging.port, streams('hanging', count));
        await addStreams(store, bad.slow.port, streams('slow', count));
        await addStreams(store, receiver.port, streams('healthy', healthy));
        await fill(store, backlogEvents, progress);
      });
      return rate;
    };
    const rates = await alternate(rounds, drainBeside(100), drainBeside(0), progress);
    return rateFigure('throughput', rates, { least: 0.95, goal: 1 });
  });
}

function latencyFigures(
  bad: BadReceivers,
  neighbour: Neighbour,
  rounds: number,
  progress: Progress,
): Promise<Figure[]> {
  const flags = ['--seq', ...(neighbour.closes === true ? (['--close'] as const) : [])] as const;
  return withReceiver(flags, (own) =>
    withReceiver(flags, async (other) => {
      const seen = await alternate(
        rounds,
        () => delays(bad, { own, other }, neighbour),
        () => delays(bad, { own, other }, { name: 'nobody' }),
        (text) => progress(`${neighbour.name}, ${text}`),
      );
      const figuresOf = (side: 'own' | 'other', whose: string): Figure[] => {
        const name = `${neighbour.name}: ${whose} tenant`;
        const figure = (named: string, of: (ms: number[]) => number, about: object): Figure => {
          const p99 = pick(seen, (each) => of(each[side]));
          return ratioFigure(named, p99, { detail: `p99 ${against(p99, 'ms', 2)}`, ...about });
        };
        return [
          figure(name, median, { most: mostOf(neighbour), goal: 1 }),
          figure(`${name}, worst second`, (ms) => Math.max(...ms), {}),
        ];
      };
      return [...figuresOf('other', 'other'), ...figuresOf('own', 'same')];
    }),
  );
}

interface Receivers {
  readonly own: Receiver;
  readonly other: Receiver;
}

/**
 * Returns the p99 from publishing to arrival of each second, for a stream of either tenant. A single stall of
 * 100 ms of a disk or a machine determines the p99 of 10 s on either side: neighbours affect the median second.
 */
async function delays(
  bad: BadReceivers,
  receivers: Receivers,
  neighbour: Neighbour,
): Promise<Record<'own' | 'other', number[]>> {
  const settings = {
    ...twoTenantsSettings(await freePort()),
    LEAT_DNS_SERVERS: bad.dnsServers.join(','),
    LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: String(64 * 1024 * 1024),
    // No stream of the neighbour is disabled during the measurement.
    LEAT_DISABLE_CONSECUTIVE: '1000000',
    LEAT_DISABLE_TOTAL: '10000000',
  };
  return withLeat({ settings }, async (main, { file }) => {
    const two = await createTenant(main, file);
    await createStream(main, endpoint('own', receivers.own), { types: [types.own] });
    await createStream(two, endpoint('other', receivers.other), { types: [types.other] });
    await addNeighbour(bad, main, neighbour);
    // A separate tenant: at its byte limit further events are refused, which is not measured.
    const greedy = neighbour.floods === true && (await createTenant(main, file, 'three'));
    const flood = greedy === false ? undefined : await startFlood(greedy);
    await Promise.all([receivers.own.reset(), receivers.other.reset()]);
    const post = (to: Target, type: string, rate: number): ReturnType<typeof postSteadily> =>
      postSteadily([to], { type, seconds, perSecond: rate });
    const [own, other] = await Promise.all([
      post(main, types.own, perSecond),
      post(two, types.other, perSecond),
      post(main, types.neighbour, neighbourPerSecond),
    ]);
    const measured = {
      own: p99s(await arrivalDelays(receivers.own, own, 'sentMs')),
      other: p99s(await arrivalDelays(receivers.other, other, 'sentMs')),
    };
    if (flood !== undefined) await endChild(flood);
    return measured;
  });
}

/** Returns the p99 of each second after the warm-up. */
function p99s(delaysMs: readonly number[]): number[] {
  return Array.from({ length: measuredSeconds }, (_, second) => {
    const from = (warmUpSeconds + second) * perSecond;
    return quantile(delaysMs.slice(from, from + perSecond), 0.99);
  });
}

/** Host names, so that connections use the name servers of the benchmark. */
function endpoint(name: string, { port }: Receiver): string {
  return `http://${name}.test:${port}/`;
}

async function addNeighbour(
  bad: BadReceivers,
  leat: Running,
  { hanging = 0, slow = 0, silent = 0 }: Neighbour,
): Promise<void> {
  const endpoints = [
    ...Array.from({ length: hanging }, () => endpoint('hanging', bad.hanging)),
    ...Array.from({ length: slow }, () => endpoint('slow', bad.slow)),
    ...Array.from({ length: silent }, (_, index) => `http://silent-${index}.test/`),
  ];
  for (const each of endpoints) await createStream(leat, each, { types: [types.neighbour] });
}

async function startFlood({ url, headers }: Target): Promise<ChildProcess> {
  const child = startChild('./flood.ts', [url, JSON.stringify(headers)]);
  await message(child);
  return child;
}
