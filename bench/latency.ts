import { Pool } from 'undici';
import type { Bench } from './bench.ts';
import { startReceiver, type Receiver } from './child.ts';
import { addStream, makePlace, orderData, startLeat, withStore } from './leat.ts';
import { signedHeaders } from './drain.ts';
import { quantile } from './rounds.ts';

const perSecond = 1000;
const seconds = 5;
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/**
 * From the publisher's answer to the receiver, at a steady rate, against a bare POST of the same
 * event from this process to the receiver. The clock is the machine's monotonic one, which its
 * processes share.
 */
export const latency: Bench = {
  name: 'latency',
  what: `${perSecond} events a second, publish answer to receiver in its own process; against a bare POST to that receiver`,
  run: async (progress) => {
    const receiver = await startReceiver('--seq');
    const p50: number[] = [];
    const p99: number[] = [];
    const shown: string[] = [];
    for (let round = 0; round < 5; round++) {
      progress(`round ${round + 1} of 5`);
      const bare = await bareDelays(receiver);
      const ours = await leatDelays(receiver);
      p50.push(quantile(ours, 0.5) / quantile(bare, 0.5));
      p99.push(quantile(ours, 0.99) / quantile(bare, 0.99));
      shown.push(
        `p50 ${quantile(ours, 0.5).toFixed(2)}/${quantile(bare, 0.5).toFixed(2)} ms, ` +
          `p99 ${quantile(ours, 0.99).toFixed(2)}/${quantile(bare, 0.99).toFixed(2)} ms`,
      );
    }
    await receiver.end();
    const detail = shown.at(-1) ?? '';
    return [
      {
        name: 'latency p50',
        detail,
        values: p50,
        unit: '×',
        must: { kind: 'most', value: 5 },
        goal: 2,
      },
      {
        name: 'latency p99',
        detail,
        values: p99,
        unit: '×',
        must: { kind: 'most', value: 10 },
        goal: undefined,
      },
    ];
  },
};

async function bareDelays(receiver: Receiver): Promise<number[]> {
  const pool = new Pool(`http://127.0.0.1:${receiver.port}`, { connections: 64, pipelining: 1 });
  const starts = new Map<number, number>();
  const delays = await measure(receiver, starts, async (seq) => {
    starts.set(seq, nowMs());
    const body = JSON.stringify({ type: 'order.paid', data: orderData(seq) });
    const answer = await pool.request({ path: '/', method: 'POST', headers: signedHeaders, body });
    await answer.body.dump();
  });
  await pool.close();
  return delays;
}

async function leatDelays(receiver: Receiver): Promise<number[]> {
  const place = await makePlace();
  await withStore(place, (store) => addStream(store, receiver.port, { name: 'latency' }));
  const leat = await startLeat(place);
  const pool = new Pool(`http://127.0.0.1:${leat.port}`, { connections: 64, pipelining: 1 });
  const headers = { authorization: `Bearer ${leat.token}`, 'content-type': 'application/json' };
  const starts = new Map<number, number>();
  const delays = await measure(receiver, starts, async (seq) => {
    const body = JSON.stringify({ type: 'order.paid', data: orderData(seq) });
    const answer = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    if (answer.statusCode !== 202) throw new Error(await answer.body.text());
    starts.set(seq, nowMs());
    await answer.body.dump();
  });
  await pool.close();
  await leat.end();
  await place.remove();
  return delays;
}

/** Calls `send` at the rate for warm-up and measurement; answers the delays of the latter. */
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
  // A delivery may overtake the answer to its publisher; that counts as no delay at all.
  return arrivals
    .filter(([seq]) => seq >= 100_000 + warmUp)
    .map(([seq, atMs]) => Math.max(0, atMs - (starts.get(seq) ?? NaN)));
}
