import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { authority } from '../test/helpers/certificates.ts';
import type { Store } from '../src/store/port/store.ts';
import type { BareOrder } from './bare-sender.ts';
import type { Bench, Figure, Progress } from './bench.ts';
import { arrivalRate, endChild, message, startChild } from './child.ts';
import { deliveredBytes, type Drained, signedHeaders, spentForEach } from './drain.ts';
import { addStream, fill, makeFolder, withLeat } from './leat.ts';
import { spentBy } from './proc.ts';
import { against, figure, rateFigure } from './report.ts';
import { alternate, pick, type Sides } from './rounds.ts';
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
  run: async (progress, { rounds, events = drainEvents }) => {
    const receivers = await startReceivers(events);
    const seen = await alternate(
      rounds,
      () => drainOnce(receivers, events, progress),
      () => bareOnce(receivers, events),
      progress,
    );
    await receivers.end();
    return figuresOf(seen);
  },
};

function figuresOf(seen: Sides<Side>): Figure[] {
  const rate = rateFigure(
    'drain-tls',
    pick(seen, (side) => side.rate),
    { least: 0.7, goal: 0.9 },
  );
  const of = (what: keyof Side, unit: string): string =>
    against(
      pick(seen, (side) => side[what]),
      unit,
      0,
    );
  const time = (name: string, what: 'whole' | 'mainThread'): Figure =>
    figure(
      `drain-tls, ${name}`,
      'µs',
      seen.ours.map((side) => side[what]),
      {
        detail: `of the processor for each event: ${of(what, 'µs')}`,
        better: 'lower',
      },
    );
  const detail = `${rate.detail}; receivers take ${of('receivers', 'µs')}, over ${of('connections', 'connections in all')}`;
  return [{ ...rate, detail }, time('time', 'whole'), time('main thread', 'mainThread')];
}

/** What a side did: first attempts a second, and microseconds of processor time for each. */
interface Side extends Drained {
  /** The time of the receivers. */
  readonly receivers: number;
  /** Connections that were made. */
  readonly connections: number;
}

async function drainOnce(receivers: Receivers, events: number, progress: Progress): Promise<Side> {
  const folder = await makeFolder();
  const authorityFile = join(folder.folder, 'ca.pem');
  await writeFile(authorityFile, authority);
  const ofLeat = {
    settings: { ...settings, NODE_EXTRA_CA_CERTS: authorityFile },
    fill: async (store: Store) => {
      for (const [index, port] of receivers.ports.entries()) {
        const type = types[index] ?? '';
        await addStream(store, port, { name: type, types: [type], protocol: 'https' });
      }
      await fill(store, events, progress, types, (index) => firstSeq + index);
      await receivers.reset();
    },
  };
  const side = await withLeat(ofLeat, ({ pid }) => receivers.drained(pid));
  await folder.remove();
  return side;
}

async function bareOnce(receivers: Receivers, events: number): Promise<Side> {
  await receivers.reset();
  const sender = startChild('./bare-sender.ts');
  sender.send({
    origins: receivers.ports.map((port) => `https://127.0.0.1:${port}`),
    count: events,
    connections,
    timeoutMs,
    retryMs,
    body: deliveredBytes(firstSeq).split(String(firstSeq)),
    headers: signedHeaders,
  } satisfies BareOrder);
  const side = await receivers.drained(sender.pid ?? 0);
  await endChild(sender);
  return side;
}

interface Receivers {
  /** The origin of each stream. */
  readonly ports: readonly number[];
  reset(): Promise<unknown>;
  /** Waits until the first attempts of a process at all events have arrived. */
  drained(pid: number): Promise<Side>;
  end(): Promise<void>;
}

/** Starts the receivers of so many events, all in one process. */
async function startReceivers(events: number): Promise<Receivers> {
  const child = startChild('./tls-receiver.ts');
  const { ports } = await message<{ ports: number[] }>(child);
  const from = Math.floor(events * uncountedShare);
  const ask = (order: TlsOrder) => (): Promise<TlsReport> => {
    child.send(order);
    return message(child);
  };
  const report = ask('report');
  const micros = async (): Promise<number> => (await spentBy(child.pid ?? 0)).whole;
  return {
    ports,
    reset: ask({ reset: from }),
    drained: async (pid) => {
      const before = await micros();
      const spent = await spentForEach(pid, report, { from, total: events });
      const { count, ...seen } = await report();
      return {
        ...spent,
        rate: arrivalRate({ ...seen, count: count - from }),
        receivers: ((await micros()) - before) / events,
        connections: seen.connections,
      };
    },
    end: () => endChild(child),
  };
}
