import type { Clock, Millis } from '../../../core/clock.ts';
import { isSkewed, type StoreTime } from '../../port/time.ts';
import type { Queries } from './database.ts';

/** The time of the server: for everything that is stored, and the same for all nodes. */
async function storeNow(tx: Queries): Promise<Millis> {
  const row = await tx.get<{ now: Millis }>`select leat_now() as now`;
  if (row === undefined) throw new Error('A query that returns a row returned none.');
  return row.now;
}

/** Tracks the server's clock. */
export interface ServerTime extends StoreTime {
  /** Updates it from a reading that was requested and received at these monotonic instants. */
  learn(now: Millis, askedMs: number, answeredMs: number): void;
}

/**
 * The server read its clock between request and response, so a reading is accurate to half of that
 * time: a smaller difference is ignored. Between readings the monotonic clock extrapolates; it
 * stops while the machine sleeps, so the time may be late until the next heartbeat.
 */
export function createServerTime(clock: Pick<Clock, 'now' | 'elapsedMs'>): ServerTime {
  /** The server's clock minus the monotonic clock. */
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

/** Reads the server's clock before the first decision that depends on it. */
export async function readTime(
  db: Queries,
  time: ServerTime,
  clock: Pick<Clock, 'elapsedMs'>,
): Promise<void> {
  const askedMs = clock.elapsedMs();
  time.learn(await storeNow(db), askedMs, clock.elapsedMs());
}
