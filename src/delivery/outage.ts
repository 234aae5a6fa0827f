import type { HealthLimits, Offset } from '../core/types.ts';
import type { Outcome } from '../store/port/settlement.ts';
import type { FailureCounters } from './failure-counters.ts';

/** What a stream with a schedule of its own has yet to deliver. */
export interface Undelivered {
  /** Deliveries that began to wait for a retry since the last success. */
  readonly begun: number;
  /** Deliveries that wait or are in progress with a row, those of replays included. */
  readonly waiting: number;
  /** Open failure records. */
  readonly open: number;
}

/**
 * Returns whether the receiver of a stream counts as down: so many deliveries began to wait in a row as
 * failures in a row disable a stream, or the end of all cycles could bring the failures to their
 * limit. The limit is not reached while one success comes between two failures, however many events
 * wait: so events that always fail do not stop the others.
 */
export function isDown(
  { begun, waiting, open }: Undelivered,
  limits: HealthLimits,
  slots: number,
): boolean {
  if (begun === 0) return false;
  return begun >= limits.consecutive || waiting + open >= limits.total - slots;
}

/** A delivery that is tried before its time, while the receiver is down. */
interface Trial {
  readonly eventId: string;
  /** When its schedule lets it begin, by the monotonic clock. */
  readonly dueMs: number;
}

/**
 * Whether the receiver of one stream with a schedule of its own is down, as far as its owner knows. A
 * class, as the parts of the dispatcher share it.
 *
 * `suspected`: a former owner may have stopped, so a success releases what waits; fresh events are
 * taken until one more of them fails. `down`: no fresh events are taken. `releasing`: what waits
 * becomes due, step by step.
 */
export class Outage {
  state: 'up' | 'suspected' | 'down' | 'releasing' = 'up';
  /** It was reported that the receiver is down, and not yet that it is back. */
  isReported = false;
  /** The deliveries that wait were not counted yet: the stream has a new owner, or was changed. */
  isUncounted = true;
  begun = 0;
  readonly #counters: Pick<FailureCounters, 'open'>;
  /** The delivery that was made due for a trial, until its attempt begins. */
  trial: Trial | undefined;
  /** The offset of the last trial; the next delivery after it follows. */
  triedTo: Offset = 0;
  /** The next event, else one of a replay, may be taken as a trial. */
  mayTryEvent = false;
  /** While it releases: a step is on its way to the store. */
  isStepping = false;
  /** While it releases: an attempt has succeeded since the last step. */
  hasSucceeded = false;
  /** The same of one that has failed… */
  hasFailed = false;
  /** …and of one that the node could not make. */
  wasWithdrawn = false;
  /** The range of the log whose deliveries are yet to be released begins after it… */
  releasedTo: Offset = 0;
  /** …and ends here: a release begins where one before was given up, and returns there. */
  releaseEnd: Offset = 0;
  /** While it releases: the rest of the log was released, and the range up to the beginning is left. */
  hasWrapped = false;

  constructor(counters: Pick<FailureCounters, 'open'>) {
    this.#counters = counters;
  }

  /** Whether it may take fresh events. */
  get takesFresh(): boolean {
    return this.state !== 'down' || this.mayTryEvent;
  }

  /** Notes an outcome that is not in the store yet; `isTrial` if it came before its time. */
  ended(outcome: Outcome, isTrial: boolean): void {
    if (outcome.result === 'retry' || outcome.result === 'failed') this.hasFailed = true;
    if (outcome.result === 'delivered') {
      this.begun = 0;
      this.mayTryEvent = false;
      this.hasSucceeded = true;
    } else if (outcome.result === 'retry' && !isTrial && beginsToWait(outcome)) {
      this.begun += 1;
    }
  }

  /** Returns what is undelivered; `waiting` are the rows that wait. */
  undelivered(waiting: number): Undelivered {
    return { begun: this.begun, waiting, open: this.#counters.open };
  }

  /**
   * Counts what waits at the start of an owner, which does not know since when: a further event that
   * begins to wait, or what waits now, may reach the limits.
   */
  count(waiting: number, limits: HealthLimits, slots: number): void {
    this.isUncounted = false;
    this.begun = Math.min(waiting, limits.consecutive - 1);
    this.mayTryEvent = false;
    const mayBeDown = isDown({ ...this.undelivered(waiting), begun: waiting }, limits, slots);
    // After an outage also few deliveries wait for a success: others may have failed meanwhile.
    const isOut = this.state !== 'up' || mayBeDown;
    if (this.state !== 'releasing') this.state = isOut ? 'suspected' : 'up';
  }

  /** Notes that the next event was taken. */
  eventTaken(): void {
    this.mayTryEvent = false;
  }

  /** Begins to release all that waits. */
  beginRelease(): void {
    this.state = 'releasing';
    this.releaseEnd = this.releasedTo;
    this.hasWrapped = false;
  }

  /** The range of the next step of a release; `undefined` after the last one. */
  get releaseRange(): { readonly after: Offset; readonly upTo: Offset } | undefined {
    const upTo = this.hasWrapped ? this.releaseEnd : Number.MAX_SAFE_INTEGER;
    return this.releasedTo < upTo ? { after: this.releasedTo, upTo } : undefined;
  }

  /** Notes that a step begins: nothing of it has ended. */
  beginStep(): void {
    this.isStepping = true;
    this.hasSucceeded = false;
    this.hasFailed = false;
    this.wasWithdrawn = false;
  }

  /**
   * Whether the step says that the receiver is down again, if all of it has ended: none has succeeded, and one has
   * failed, or there was none. Those that the node could not make say nothing.
   */
  get isRefuted(): boolean {
    return !this.hasSucceeded && (this.hasFailed || !this.wasWithdrawn);
  }

  /** Notes that the deliveries up to here are released. */
  released(upTo: Offset): void {
    this.releasedTo = upTo;
    if (this.hasWrapped || upTo < Number.MAX_SAFE_INTEGER) return;
    this.hasWrapped = true;
    this.releasedTo = 0;
  }

  /** Ends a release after its last step. */
  endRelease(): void {
    this.state = 'up';
    this.releasedTo = 0;
  }

  /** Returns when the schedule of a delivery would have let this attempt begin, if it is a trial. */
  takeTrial(eventId: string): number | undefined {
    if (this.trial?.eventId !== eventId) return undefined;
    const { dueMs } = this.trial;
    this.trial = undefined;
    return dueMs;
  }
}

/** A redelivery fails within seconds, and its record is open before. */
function beginsToWait({ kind, attempt }: Outcome): boolean {
  return attempt === 1 && kind !== 'redelivery';
}
