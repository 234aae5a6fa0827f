import type { Millis } from '../core/clock.ts';

/** What is remembered of the failures of one stream that were told lately. */
export interface ReportedFailures {
  /** Every failure opened after this instant that was told is in `told`. */
  readonly from: Millis;
  /** When it was opened, and the id of its event; newest first. */
  readonly told: readonly ReportedFailure[];
}

export type ReportedFailure = readonly [failedAt: Millis, eventId: string];

/**
 * How far a look goes back behind the look before. A failure has the time at which its batch began
 * to be recorded, by the clock of the node that did it, and is seen only after the commit: seconds
 * later where the database is slow or the clocks differ. A look that began where the last one ended
 * would never see it.
 */
export const lookbackMs = 60_000;

/** Failures remembered of one stream. */
export const rememberedPerStream = 200;
/** The same of all streams of a tenant. */
const REMEMBERED_IN_ALL = 5000;

/**
 * The instant after which a look reads failures of streams of which nothing is remembered.
 *
 * @param setBackMs by how much the clock was set back since the last look: what failed then has a
 *   time so much earlier
 */
export function readFrom(lastLookAt: Millis | undefined, clockStepMs = 0): Millis {
  return lastLookAt === undefined ? 0 : lastLookAt - lookbackMs - clockStepMs;
}

/**
 * What the next look has to know of the failures that were told by now. Where there are too many to
 * remember, it goes back less far for that stream: so the memory is bounded and nothing is told
 * twice, unless it has a time after the look.
 *
 * @param told by stream, newest first, those of before included; of more than
 *   {@link rememberedPerStream} the newest and one more are enough
 */
export function rememberReported(
  told: ReadonlyMap<string, readonly ReportedFailure[]>,
  at: Millis,
): Record<string, ReportedFailures> {
  const start = at - lookbackMs;
  const lately = [...told].flatMap(([id, failures]) => {
    const recent = failures.filter(([failedAt]) => failedAt > start);
    return recent.length === 0 ? [] : [[id, recent] as const];
  });
  const fairShare = Math.floor(REMEMBERED_IN_ALL / Math.max(1, lately.length));
  const take = Math.min(rememberedPerStream, fairShare);
  return Object.fromEntries(
    lately.map(([id, recent]) => {
      // Of a clock that is ahead: going by it, the next look would miss all until then.
      const from = Math.min(recent[take]?.[0] ?? start, at);
      return [id, { from, told: recent.slice(0, take).filter(([failedAt]) => failedAt > from) }];
    }),
  );
}
