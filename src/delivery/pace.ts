/** The settings that the slots of a stream depend on. */
export interface PaceLimits {
  /** Slots of a stream whose receiver is quick. */
  readonly streamConcurrency: number;
  /** Slots that a stream has however slow its receiver is. */
  readonly slowSlots: number;
  /** An attempt that takes longer is slow. */
  readonly parkAfterMs: number;
}

/**
 * How an attempt ended: with a response of any status; without one, such as by a refused connection
 * or a name that cannot be resolved; or by a timeout or cancellation.
 */
export type ResponseKind = 'answered' | 'unanswered' | 'cut off';

/** Weight of one attempt in the moving average: some 16 quick ones make up for a timeout. */
const weight = 1 / 8;

/**
 * The recent latency of a stream as a moving average, whether its attempts got a response, and the
 * slots that follow from both. A class, as a node has one per stream.
 */
export class Pace {
  /** Milliseconds; `undefined` before the first result. */
  #latencyMs: number | undefined;
  /** Duration of the last slow attempt. */
  #slowMs: number | undefined;
  /** Slow attempts under way. */
  #slowNow = 0;
  /** Attempts in a row, in the order in which they ended, that failed without a response. */
  #unanswered = 0;

  /** Counts an attempt under way that became slow; until it ends it counts as long as the last. */
  becameSlow(attemptTimeoutMs: number): void {
    this.#slowNow += 1;
    this.#add(this.#slowMs ?? attemptTimeoutMs);
  }

  /** Counts an attempt that ended; `wasSlow` if {@link becameSlow} has counted it already. */
  ended(durationMs: number, wasSlow: boolean, response: ResponseKind): void {
    if (response === 'answered') this.#unanswered = 0;
    else if (response === 'unanswered') this.#unanswered += 1;
    if (wasSlow) {
      this.#slowMs = durationMs;
      this.#slowNow -= 1;
    } else if (response !== 'unanswered') {
      // The duration of a refused connection is not the latency of the receiver.
      this.#add(durationMs);
    }
  }

  /** Counts an attempt that ended without a part of the receiver. */
  withdrawn(wasSlow: boolean): void {
    if (wasSlow) this.#slowNow -= 1;
  }

  /** Whether no attempt has ended or become slow so far. */
  get isUnknown(): boolean {
    return this.#latencyMs === undefined && this.#unanswered === 0;
  }

  /** Whether recent attempts were quick; false while that is unknown, or none gets a response. */
  isQuick(limits: PaceLimits): boolean {
    const { parkAfterMs } = limits;
    const isQuick = this.#latencyMs !== undefined && this.#latencyMs < parkAfterMs;
    return isQuick && !this.#isUnanswered(limits);
  }

  /**
   * Returns whether the stream must pause after the last attempt: when `slowSlots` attempts in a
   * row got no response, or twice as many, and so on.
   */
  mustBackOff(limits: PaceLimits): boolean {
    return this.#isUnanswered(limits) && this.#unanswered % limits.slowSlots === 0;
  }

  /**
   * Returns how many attempts may be under way at once: all slots of a stream while its receiver is
   * quick, then in inverse proportion to the latency, so that a receiver that responds with 204
   * after 9.5 s occupies few although it never fails. A stream has only the slow slots before its
   * first result, while its last attempts all failed without a response, and while more of its
   * attempts are slow than usual: else a receiver that never responds to some requests would fill
   * the slots with those.
   */
  slots(limits: PaceLimits): number {
    const { streamConcurrency, slowSlots, parkAfterMs } = limits;
    const few = Math.min(slowSlots, streamConcurrency);
    if (this.#latencyMs === undefined || this.#isUnanswered(limits)) return few;
    const share = Math.min(1, parkAfterMs / this.#latencyMs);
    const slots = Math.max(few, Math.floor(streamConcurrency * share));
    // Of attempts that take twice the limit, half are slow at any time; a quarter is allowed for
    // chance.
    return this.#slowNow < Math.max(few, slots * (1 - 0.75 * share)) ? slots : few;
  }

  #isUnanswered({ slowSlots }: Pick<PaceLimits, 'slowSlots'>): boolean {
    return this.#unanswered >= slowSlots;
  }

  #add(durationMs: number): void {
    const before = this.#latencyMs;
    this.#latencyMs = before === undefined ? durationMs : before + (durationMs - before) * weight;
  }
}
