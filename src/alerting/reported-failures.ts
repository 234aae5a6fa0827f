import type { Millis } from '../core/clock.ts';

/** Recently reported failures of one stream, so that none is reported twice. A stored format. */
export interface ReportedFailures {
  /** Every reported failure that was recorded after this instant is in `told`. */
  readonly from: Millis;
  /** Newest first. */
  readonly told: readonly ReportedFailure[];
}

export type ReportedFailure = readonly [failedAt: Millis, eventId: string];

/**
 * Time before the start of the last check that a check reads again. `failedAt` is the time at which a
 * node began to record a batch, by the clock of that node. The failure is visible only after the
 * commit: seconds later when the database is slow or the clocks differ. A check that started where
 * the last one ended would never read it.
 */
export const reportedWindowMs = 60_000;

/** Failures remembered of one stream. */
export const rememberedPerStream = 200;
/** Failures remembered of all streams of a tenant. */
const REMEMBERED_TOTAL = 5000;

/**
 * Returns the instant after which a check reads the failures of streams of which none is remembered.
 *
 * @param clockStepMs by how much the clock was set back since the last check: later failures have
 *   times that are earlier by as much
 */
export function readFrom(lastCheckAt: Millis | undefined, clockStepMs = 0): Millis {
  return lastCheckAt === undefined ? 0 : lastCheckAt - reportedWindowMs - clockStepMs;
}

/**
 * Returns the reported failures that the next check may read again. Memory is bounded: of a stream
 * with too many, the next check reads a shorter time again. No failure is reported twice, unless its
 * time is later than the check.
 *
 * @param reported by stream, newest first, with those of earlier checks; of more than
 *   {@link rememberedPerStream} the newest and one more are enough
 * @param at when the check began
 */
export function rememberReported(
  reported: ReadonlyMap<string, readonly ReportedFailure[]>,
  at: Millis,
): Record<string, ReportedFailures> {
  const start = at - reportedWindowMs;
  const recent = [...reported].flatMap(([id, failures]) => {
    const readAgain = failures.filter(([failedAt]) => failedAt > start);
    return readAgain.length === 0 ? [] : [[id, readAgain] as const];
  });
  const fairShare = Math.floor(REMEMBERED_TOTAL / Math.max(1, recent.length));
  const take = Math.min(rememberedPerStream, fairShare);
  return Object.fromEntries(
    recent.map(([id, failures]) => {
      // A node whose clock is ahead records times after `at`: reading only after those would miss
      // everything until then.
      const from = Math.min(failures[take]?.[0] ?? start, at);
      const told = failures.slice(0, take).filter(([failedAt]) => failedAt > from);
      return [id, { from, told }];
    }),
  );
}
