import type { Clock, Millis } from '../../core/clock.ts';
import type { Database } from './database.ts';

export interface UpkeepDeps {
  readonly db: Database;
  readonly clock: Pick<Clock, 'now' | 'elapsedMs'>;
}

/**
 * Returns the instant before which things are older than `olderThanMs`. Age is measured from the
 * clock of this process, but never from later than the newest event of the store: a clock that is
 * ahead must not make everything old at once.
 */
export function horizonOf({ db, clock }: UpkeepDeps, olderThanMs: number): Millis {
  const row = db.get<{ newest: Millis | null }>`
    select nullif(max(last_published_at), 0) as newest from tenants`;
  return Math.min(clock.now(), row?.newest ?? Infinity) - olderThanMs;
}

/** A step yields to other work of the process after this time. */
const stepMs = 5;

/**
 * Calls `part` until it did nothing, did `take` in total, or the time of a step is over. Returns
 * how much was done: 0 only when there was nothing to do, which callers rely on. Parts are small:
 * the time is checked after each of them, so at least one is done even in a busy process.
 */
export function doInStep(
  clock: Pick<Clock, 'elapsedMs'>,
  take: number,
  part: (take: number) => number,
): number {
  const startedMs = clock.elapsedMs();
  let done = 0;
  while (done < take) {
    const more = part(take - done);
    done += more;
    if (more === 0 || clock.elapsedMs() - startedMs >= stepMs) break;
  }
  return done;
}
