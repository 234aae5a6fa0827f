import { Pool } from 'undici';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { startReceiver, type Receiver } from './child.ts';
import {
  addStream,
  endNodes,
  onSqlite,
  orderData,
  type Setup,
  startNodes,
  withStore,
} from './leat.ts';
import { signedHeaders } from './drain.ts';
import { quantile } from './rounds.ts';
import { threadSettings, type ThreadSetting } from './threads.ts';

const perSecond = 1000;
const seconds = 5;
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/**
 * Measures the time from the response to the publisher until the arrival at the receiver, at a steady rate, against a bare POST of the same
 * event from this process to the receiver. The clock is the machine's monotonic one, which its
 * processes share.
 */
export const latency: Bench = {
  name: 'latency',
  what: `${perSecond} events a second, from the publish response to the receiver in its own process; against a bare POST to that receiver`,
  run: async (progress, options) => {
    const receiver = await startReceiver('--seq');
    try {
      return await latencyFigures('latency', onSqlite, receiver, options, progress);
    } finally {
      await receiver.end();
    }
  },
};

const bars = { p50: { most: 5, goal: 2 }, p99: { most: 10, goal: undefined } };

/** Returns the ratios of both quantiles. `receiver` records the numbers of the events. */
export async function latencyFigures(
  name: string,
  setup: Setup,
  receiver: Receiver,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const thread of threadSettings(options)) {
    const named = `${name}${thread.suffix}`;
    figures.push(...(await figuresOf(named, setup, receiver, { options, thread, progress })));
  }
  return figures;
}

async function figuresOf(
  name: string,
  setup: Setup,
  receiver: Receiver,
  {
    options,
    thread,
    progress,
  }: {
    readonly options: RunOptions;
    readonly thread: ThreadSetting;
    readonly progress: (text: string) => void;
  },
): Promise<Figure[]> {
  const p50: number[] = [];
  const p99: number[] = [];
  const shown: string[] = [];
  for (let round = 0; round < options.rounds; round++) {
    progress(`round ${round + 1} of ${options.rounds}`);
    const bare = await bareDelays(receiver);
    const ours = await leatDelays(setup, receiver, thread);
    p50.push(quantile(ours, 0.5) / quantile(bare, 0.5));
    p99.push(quantile(ours, 0.99) / quantile(bare, 0.99));
    shown.push(
      `p50 ${quantile(ours, 0.5).toFixed(2)}/${quantile(bare, 0.5).toFixed(2)} ms, ` +
        `p99 ${quantile(ours, 0.99).toFixed(2)}/${quantile(bare, 0.99).toFixed(2)} ms`,
    );
  }
  const detail = shown.at(-1) ?? '';
  const figure = (kind: 'p50' | 'p99', values: readonly number[]): Figure => ({
    name: `${name} ${kind}`,
    detail,
    values,
    unit: '×',
    must: { kind: 'most', value: bars[kind].most },
    goal: bars[kind].goal,
  });
  return [figure('p50', p50), figure('p99', p99)];
}

async function bareDelays(receiver: Receiver): Promise<number[]> {
  const pool = new Pool(`http://127.0.0.1:${receiver.port}`, { connections: 64, pipelining: 1 });
  const starts = new Map<number, number>();
  const delays = await measure(receiver, starts, async (seq) => {
    starts.set(seq, nowMs());
    const body = JSON.stringify({ type: 'order.paid', data: orderData(seq) });
    const response = await pool.request({
      path: '/',
      method: 'POST',
      headers: signedHeaders,
      body,
    });
    await response.body.dump();
  });
  await pool.close();
  return delays;
}

/** Publishes events to the nodes in turn. */
async function leatDelays(
  setup: Setup,
  receiver: Receiver,
  { settings }: ThreadSetting,
): Promise<number[]> {
  const tempStore = await setup.createTempStore();
  await withStore(tempStore, (store) => addStream(store, receiver.port, { name: 'latency' }));
  const nodes = await startNodes(tempStore, setup.nodes, settings);
  const connections = Math.ceil(64 / nodes.length);
  const ways = nodes.map(({ url, token }) => ({
    pool: new Pool(url, { connections, pipelining: 1 }),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  }));
  const starts = new Map<number, number>();
  const delays = await measure(receiver, starts, async (seq) => {
    const way = ways[seq % ways.length];
    if (way === undefined) return;
    const { pool, headers } = way;
    const body = JSON.stringify({ type: 'order.paid', data: orderData(seq) });
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    if (response.statusCode !== 202) throw new Error(await response.body.text());
    starts.set(seq, nowMs());
    await response.body.dump();
  });
  for (const { pool } of ways) await pool.close();
  await endNodes(nodes);
  await tempStore.remove();
  return delays;
}

/** Calls `send` at the rate for warm-up and measurement; returns the delays of the latter. */
async function measure(
  receiver: Receiver,
  starts: ReadonlyMap<number, number>,
  send: (seq: number) => Promise<void>,
): Promise<number[]> {
  const warmUp = perSecond;
  const total = warmUp + perSecond * seconds;
  await receiver.reset();
  const sending: Promise<void>[] = [];
  const began = nowMs();
  while (sending.length < total) {
    const due = Math.min(total, ((nowMs() - began) / 1000) * perSecond);
    while (sending.length < due) sending.push(send(100_000 + sending.length));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(sending);
  const { arrivals } = await receiver.received(total);
  // A delivery may arrive before the response to its publisher; that counts as no delay.
  return arrivals
    .filter(([seq]) => seq >= 100_000 + warmUp)
    .map(([seq, atMs]) => Math.max(0, atMs - (starts.get(seq) ?? NaN)));
}
