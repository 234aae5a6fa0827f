import type { Clock } from '../../../core/clock.ts';
import type { Database } from './database.ts';

export interface UpkeepDeps {
  readonly db: Database;
  readonly clock: Pick<Clock, 'elapsedMs'>;
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
