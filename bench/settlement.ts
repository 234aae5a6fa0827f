/**
 * Settles deliveries with the store of a checkout, of this version or another one. Arguments: its folder,
 * a fresh store as JSON, the share of deliveries that fail, and the process id of the database's server or
 * 0. Reports outcomes per second of processor time, that of the server included.
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { LogEvent, Node } from '../src/core/types.ts';
import type { OwnedStream } from '../src/store/port/ownership.ts';
import type { Outcome } from '../src/store/port/settlement.ts';
import type { Store } from '../src/store/port/store.ts';
import type * as ofCheckout from './leat.ts';
import { cpuSeconds } from './proc.ts';

const tenant = 1;
const streams = 8;
/** Outcomes of one settlement, as a busy node has them. */
const batch = 256;
const limits = { consecutive: 1_000_000, total: 1_000_000 };

const [checkout = '', tempStore = '', share = '1', serverPid = '0'] = process.argv.slice(2);
const url = pathToFileURL(resolve(checkout, 'bench/leat.ts')).href;
const { withStore, addStream, makeEvent } = (await import(url)) as typeof ofCheckout;
// Where few fail, each failure counts for less: more of them show the same difference.
const batches = Number(share) < 0.1 ? 1200 : 80;

process.send?.(await withStore(JSON.parse(tempStore) as ofCheckout.TempStore, measure));

async function measure(store: Store): Promise<number> {
  for (let number = 0; number < streams; number += 1) {
    await addStream(store, 1, { name: `stream ${number}` });
  }
  const node: Node = await store.ownership.join('bench', 600_000);
  const wanted = { claim: 1, take: streams, longestWaitMs: 86_400_000 };
  const owned = await store.ownership.claim(node, wanted);
  const events = await publish(store);
  const settle = async (from: number, to: number): Promise<void> => {
    for (let number = from; number < to; number += 1) {
      const perStream = batch / streams;
      const part = events.slice(number * perStream, (number + 1) * perStream);
      const settlements = owned.map((stream, index) =>
        settlementOf(stream, part, number * streams + index),
      );
      const results = await store.deliveries.settle(node, number + 1, settlements, limits);
      if (results.some(({ result }) => result !== 'recorded')) throw new Error('not recorded');
    }
  };
  // The first quarter is for the compiler.
  await settle(0, batches / 4);
  const before = await usedSeconds();
  await settle(batches / 4, batches);
  return ((batches * 3) / 4) * (batch / ((await usedSeconds()) - before));
}

async function usedSeconds(): Promise<number> {
  const { user, system } = process.cpuUsage();
  const ofServer = serverPid === '0' ? 0 : await cpuSeconds(Number(serverPid));
  return (user + system) / 1e6 + ofServer;
}

async function publish(store: Store): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  for (let number = 0; number < batches; number += 1) {
    const made = Array.from({ length: batch / streams }, () => makeEvent());
    const appended = await store.log.append(tenant, made);
    for (const [index, event] of made.entries()) {
      events.push({
        ...event,
        offset: appended[index]?.offset ?? 0,
        publishedAt: event.time,
      });
    }
  }
  return events;
}

function settlementOf(
  { stream, epoch, run }: OwnedStream,
  events: readonly LogEvent[],
  turn: number,
) {
  const every = Math.round(1 / Number(share));
  const base = { kind: 'first', attempt: 1, hasRow: false, agoMs: 5, durationMs: 5 } as const;
  const outcomes = events.map((event, index): Outcome => {
    const fails = (turn * events.length + index) % every === 0;
    return fails
      ? { ...base, event, result: 'failed', status: 503, error: '503 - busy' }
      : { ...base, event, result: 'delivered', status: 204 };
  });
  const cursor = events.at(-1)?.offset ?? 0;
  const { tenant: of, id, version } = stream;
  return { tenant: of, stream: id, epoch, run, version, cursor, outcomes };
}
