import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { deliveryBody } from '../src/core/envelope.ts';
import { authority } from '../test/helpers/certificates.ts';
import type { BareTlsOrder } from './bare-tls-sender.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { arrivalRate, endChild, message, startChild } from './child.ts';
import { signedHeaders } from './drain.ts';
import { addStream, createTempStore, fill, makeEvent, startLeat, withStore } from './leat.ts';
import { processMicros } from './proc.ts';
import { rateFigure } from './report.ts';
import { alternate, median } from './rounds.ts';
import { type Spent, spentPerUnit } from './spent.ts';
import { threadSettings, type ThreadSetting } from './threads.ts';
import { firstSeq, streams } from './tls-plan.ts';
import type { TlsOrder, TlsReport } from './tls-receiver.ts';

const drainEvents = 60_000;
/**
 * Connections to each origin, and slots of each stream. Responses after 40 ms, and one of a hundred never, allow
 * 26,000 deliveries a second over all of them: more than a core sends, so that no side waits for receivers.
 */
const connections = 8;
/** The share of events until which connections are made and code is compiled; it is not counted. */
const uncountedShare = 1 / 6;
const timeoutMs = 2000;
const retryMs = 1000;
/** A machine with more cores has cores left for several. */
const receiverProcesses = Math.max(1, Math.min(4, Math.floor(availableParallelism() / 2)));

const settings = {
  LEAT_STREAM_CONCURRENCY: String(connections),
  LEAT_CONCURRENCY: String(streams * connections),
  LEAT_ATTEMPT_TIMEOUT_MS: String(timeoutMs),
  LEAT_RETRY_DELAYS_MS: `${retryMs},2000,4000`,
};

const types = Array.from({ length: streams }, (_, n) => `order.n${String(n).padStart(3, '0')}`);

/** Waiting events to many origins over TLS whose receivers take their time, and some of them fail. */
export const drainTls: Bench = {
  name: 'drain-tls',
  what: `${drainEvents} waiting events, signed, of ${streams} streams to ${streams} origins over TLS with ${connections} connections each (LEAT_STREAM_CONCURRENCY; LEAT_CONCURRENCY ${streams * connections}); responses after 20 to 60 ms, 1 % with 500 and 1 % never (timeout ${timeoutMs} ms), both sent again after ${retryMs} ms; without the first sixth, in which connections are made; against bare undici pools with as many connections, the same bytes, failures and timeouts`,
  run: async (progress, options) => {
    const receivers = await startReceivers();
    try {
      const figures: Figure[] = [];
      for (const thread of threadSettings(options)) {
        figures.push(...(await measure(receivers, thread, options, progress)));
      }
      return figures;
    } finally {
      await receivers.end();
    }
  },
};

async function measure(
  receivers: Receivers,
  thread: ThreadSetting,
  { rounds, events = drainEvents }: RunOptions,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const [ours, theirs]: [Drained[], Drained[]] = [[], []];
  const rates = await alternate(
    rounds,
    async () => {
      const drained = await drainOnce(receivers, events, thread, progress);
      ours.push(drained);
      return drained.rate;
    },
    async () => {
      const drained = await bareOnce(receivers, events);
      theirs.push(drained);
      return drained.rate;
    },
    progress,
  );
  const name = `drain-tls${thread.suffix}`;
  const middle = (of: (each: Drained) => number, sides = ours): string =>
    median(sides.map(of)).toFixed(0);
  const rate = rateFigure(name, rates, { least: 0.7, goal: 0.9 });
  const time = {
    unit: 'µs',
    must: undefined,
    goal: undefined,
    better: 'lower',
  } as const;
  return [
    {
      ...rate,
      detail: `${rate.detail}; receivers take ${middle((each) => each.receivers)} against ${middle((each) => each.receivers, theirs)} µs, over ${middle((each) => each.connections)} against ${middle((each) => each.connections, theirs)} connections in all`,
    },
    {
      ...time,
      name: `${name}, time`,
      values: ours.map(({ whole }) => whole),
      detail: `of the processor for each event, against ${middle(({ whole }) => whole, theirs)} µs`,
    },
    {
      ...time,
      name: `${name}, main thread`,
      values: ours.map(({ mainThread }) => mainThread),
      detail: `of it, against ${middle(({ mainThread }) => mainThread, theirs)} µs`,
    },
  ];
}

/** What a side did: first attempts a second, and microseconds of processor time for each. */
interface Drained extends Spent {
  readonly rate: number;
  /** The time of the receivers. */
  readonly receivers: number;
  /** Connections that were made. */
  readonly connections: number;
}

async function drainOnce(
  receivers: Receivers,
  events: number,
  { settings: ofThread }: ThreadSetting,
  progress: (text: string) => void,
): Promise<Drained> {
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    for (const [index, port] of receivers.ports.entries()) {
      const type = types[index] ?? '';
      await addStream(store, port, { name: type, types: [type], protocol: 'https' });
    }
    await fill(store, events, progress, types, (index) => firstSeq + index);
  });
  const authorityFile = join(tempStore.folder, 'ca.pem');
  await writeFile(authorityFile, authority);
  await receivers.reset(events);
  const leat = await startLeat(tempStore, {
    ...settings,
    ...ofThread,
    NODE_EXTRA_CA_CERTS: authorityFile,
  });
  const drained = await receivers.drained(leat.pid, events);
  await leat.end();
  await tempStore.remove();
  return drained;
}

async function bareOnce(receivers: Receivers, events: number): Promise<Drained> {
  await receivers.reset(events);
  const sender = startChild('./bare-tls-sender.ts');
  const event = makeEvent(firstSeq, types[0]);
  const [before = '', after = ''] = deliveryBody(
    event.body,
    'svc',
    'est_MASi45ub7Qe4ZE36UT5G6c',
  ).split(String(firstSeq));
  const order: BareTlsOrder = {
    ports: receivers.ports,
    count: events,
    connections,
    timeoutMs,
    retryMs,
    body: [before, after],
    headers: signedHeaders,
  };
  sender.send(order);
  const drained = await receivers.drained(sender.pid ?? 0, events);
  await endChild(sender);
  return drained;
}

interface Receivers {
  /** The origin of each stream. */
  readonly ports: readonly number[];
  /** Prepares for so many events. */
  reset(events: number): Promise<void>;
  /** Waits until so many first attempts of a process have arrived. */
  drained(pid: number, events: number): Promise<Drained>;
  end(): Promise<void>;
}

async function startReceivers(): Promise<Receivers> {
  const each = Math.ceil(streams / receiverProcesses);
  const children = Array.from({ length: receiverProcesses }, () =>
    startChild('./tls-receiver.ts', [String(each)]),
  );
  const ready = await Promise.all(children.map((child) => message<{ ports: number[] }>(child)));
  const ask = async (order: TlsOrder): Promise<TlsReport> => {
    const reports = children.map(async (child) => {
      const report = message<TlsReport>(child);
      child.send(order);
      return report;
    });
    return sumOf(await Promise.all(reports));
  };
  const micros = async (): Promise<number> => {
    const all = await Promise.all(children.map(({ pid }) => processMicros(pid ?? 0)));
    return all.reduce((sum, value) => sum + value, 0);
  };
  return {
    ports: ready.flatMap(({ ports }) => ports).slice(0, streams),
    reset: async (events) => {
      await ask({ reset: Math.floor((events * uncountedShare) / receiverProcesses) });
    },
    drained: async (pid, events) => {
      const before = await micros();
      const from = Math.floor(events * uncountedShare);
      const count = async (): Promise<number> => (await ask('report')).count;
      const spent = await spentPerUnit(pid, count, { from, total: events });
      const report = await ask('report');
      return {
        ...spent,
        rate: arrivalRate({ ...report, count: report.count - from }),
        receivers: ((await micros()) - before) / events,
        connections: report.connections,
      };
    },
    end: async () => {
      await Promise.all(children.map(endChild));
    },
  };
}

function sumOf(reports: readonly TlsReport[]): TlsReport {
  const sum = (of: (report: TlsReport) => number): number =>
    reports.reduce((total, report) => total + of(report), 0);
  const begun = reports.filter(({ count }) => count > 0);
  return {
    count: sum(({ count }) => count),
    firstAtMs: Math.min(...begun.map(({ firstAtMs }) => firstAtMs)),
    lastAtMs: Math.max(...begun.map(({ lastAtMs }) => lastAtMs)),
    requests: sum(({ requests }) => requests),
    connections: sum((report) => report.connections),
  };
}
