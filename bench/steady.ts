import { Pool } from 'undici';
import type { Tenant } from '../test/helpers/tenants.ts';
import { orderData } from './leat.ts';

/** Publishes numbered events at a steady rate. */
export interface Steady {
  /** Publishes for some seconds; returns the number of accepted events. Throws on a refusal. */
  run(seconds: number): Promise<number>;
  /** Returns when the request with this event began, by the machine's monotonic clock. */
  sentAtMs(seq: number): number | undefined;
}

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Sends one event per request, over as many connections as needed. */
export function createSteady(
  { url, headers }: Pick<Tenant, 'url' | 'headers'>,
  type: string,
  perSecond: number,
): Steady {
  const sentAt = new Map<number, number>();
  const publish = async (pool: Pool, seq: number): Promise<void> => {
    sentAt.set(seq, nowMs());
    const body = JSON.stringify({ type, data: orderData(seq) });
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    if (response.statusCode !== 202) throw new Error(await response.body.text());
    await response.body.dump();
  };
  return {
    run: async (seconds) => {
      const pool = new Pool(url, { connections: 64, pipelining: 1 });
      const total = seconds * perSecond;
      const sending: Promise<void>[] = [];
      const began = nowMs();
      while (sending.length < total) {
        const due = Math.min(total, ((nowMs() - began) / 1000) * perSecond);
        while (sending.length < due) sending.push(publish(pool, sending.length));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await Promise.all(sending);
      await pool.close();
      return total;
    },
    sentAtMs: (seq) => sentAt.get(seq),
  };
}
