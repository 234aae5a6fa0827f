import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Receiver } from './child.ts';
import { orderData } from './leat.ts';
import { nowMs } from './proc.ts';

/** Where events are posted. */
export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A request with one event, by the monotonic clock of the machine. */
export interface Posted {
  readonly sentMs: number;
  readonly answeredMs: number;
}

interface Load {
  readonly perSecond: number;
  readonly seconds: number;
  readonly type?: string;
  /** `/api/v2/events` by default. */
  readonly path?: string;
  /** A request that is refused counts as this long; it throws by default. */
  readonly refusedMs?: number;
}

/** Posts numbered events, each in a request of its own, at a steady rate to the targets in turn. */
export async function postSteadily(
  targets: readonly Target[],
  { perSecond, seconds, type = 'order.paid', path = '/api/v2/events', refusedMs }: Load,
): Promise<Posted[]> {
  const connections = Math.ceil(64 / targets.length);
  const ways = targets.map(({ url, headers }) => ({
    pool: new Pool(url, { connections, pipelining: 1 }),
    headers: { ...headers },
  }));
  const post = async (seq: number): Promise<Posted> => {
    const { pool, headers } = ways[seq % ways.length] ?? {};
    if (pool === undefined) throw new Error('There is no target.');
    const sentMs = nowMs();
    const body = JSON.stringify({ type, data: orderData(seq) });
    const response = await pool.request({ path, method: 'POST', headers: headers ?? {}, body });
    const answeredMs = nowMs();
    const text = await response.body.text();
    if (response.statusCode < 300) return { sentMs, answeredMs };
    if (refusedMs === undefined) throw new Error(text);
    return { sentMs, answeredMs: sentMs + refusedMs };
  };
  const total = perSecond * seconds;
  const sending: Promise<Posted>[] = [];
  const began = nowMs();
  while (sending.length < total) {
    const due = Math.min(total, ((nowMs() - began) / 1000) * perSecond);
    while (sending.length < due) sending.push(post(sending.length));
    await sleep(1);
  }
  const posted = await Promise.all(sending);
  for (const { pool } of ways) await pool.close();
  return posted;
}

/** Returns how long each request took, in milliseconds; one that is refused counts as ten seconds. */
export async function publishDelays(
  target: Target,
  load: Pick<Load, 'perSecond' | 'seconds'>,
): Promise<number[]> {
  const posted = await postSteadily([target], { ...load, refusedMs: 10_000 });
  return posted.map(({ sentMs, answeredMs }) => answeredMs - sentMs);
}

/**
 * Returns the milliseconds until the events have arrived, in the order of their numbers: from the request or
 * from its response, before which a delivery may arrive. That counts as no delay.
 */
export async function arrivalDelays(
  receiver: Receiver,
  posted: readonly Posted[],
  from: keyof Posted,
): Promise<number[]> {
  const { arrivals } = await receiver.received(posted.length);
  const arrivedMs = new Map(arrivals);
  return posted.map((each, seq) => Math.max(0, (arrivedMs.get(seq) ?? NaN) - each[from]));
}

/** Publishes one request; throws when it is refused. */
export async function publish({ url, headers }: Target, body: string): Promise<void> {
  const response = await fetch(`${url}/api/v2/events`, { method: 'POST', headers, body });
  const text = await response.text();
  if (response.status !== 202) throw new Error(text);
}
