import type { Clock, Millis } from '../../core/clock.ts';
import { isSkewed, type StoreTime } from '../port/time.ts';
import type { Queries } from './database.ts';

/** The time of the server: for all that is stored, and the same for all nodes. */
export async function storeNow(tx: Queries): Promise<Millis> {
  const row = await tx.get<{ now: Millis }>`select leat_now() as now`;
  if (row === undefined) throw new Error('A query that returns a row returned none.');
  return row.now;
}

/** What this process knows of the server's clock. */
export interface ServerTime extends StoreTime {
  /** Learns from a reading that was asked for and answered at these monotonic instants. */
  learn(now: Millis, askedMs: number, answeredMs: number): void;
}

/**
 * The server read its clock somewhere between question and answer, so a reading is right to half of
 * that time: a difference within it is none. Between readings the monotonic clock carries it on; that
 * one stands still while the machine sleeps, so the time may be behind until the next heartbeat.
 */
export function createServerTime(clock: Pick<Clock, 'now' | 'elapsedMs'>): ServerTime {
  /** Of the server, less the monotonic clock. */
  let aheadMs = clock.now() - clock.elapsedMs();
  let skewMs = 0;
  let skews = 0;
  return {
    now: () => Math.floor(aheadMs + clock.elapsedMs()),
    skewMs: () => skewMs,
    get skews() {
      return skews;
    },
    learn: (now, askedMs, answeredMs) => {
      const unsureMs = (answeredMs - askedMs) / 2;
      aheadMs = now - (askedMs + unsureMs);
      const measured = clock.now() - (now + unsureMs + (clock.elapsedMs() - answeredMs));
      const before = skewMs;
      skewMs = Math.round(Math.sign(measured) * Math.max(0, Math.abs(measured) - unsureMs));
      if (isSkewed(skewMs) && !isSkewed(before)) skews += 1;
    },
  };
}

/** Reads the server's clock, before anything is judged by it. */
export async function readTime(
  db: Queries,
  time: ServerTime,
  clock: Pick<Clock, 'elapsedMs'>,
): Promise<void> {
  const askedMs = clock.elapsedMs();
  time.learn(await storeNow(db), askedMs, clock.elapsedMs());
}
