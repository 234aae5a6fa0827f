import { nextHealth, reachedLimit } from '../core/health.ts';
import type { Health, HealthLimits } from '../core/types.ts';
import type { Outcome } from '../store/port/settlement.ts';

/**
 * The failure counters of one stream as its owner knows them: those in the store, and the outcomes that
 * are not recorded yet. A class, as the parts of the dispatcher share it.
 */
export class FailureCounters {
  /** In the store. */
  #stored: Health;
  /** Outcomes that are not in the store yet, the oldest first. */
  readonly #pending: Outcome[] = [];
  /** Failures among them that open a record: that of a redelivery is open before. */
  #opened = 0;
  /** How many of them the next two include. */
  #counted = 0;
  #health: Health;
  #isLimitReached = false;

  constructor(stored: Health) {
    this.#stored = stored;
    this.#health = stored;
  }

  /** Open failure records; a redelivery that succeeded counts until that is recorded. */
  get open(): number {
    return this.#stored.total + this.#opened;
  }

  /**
   * Returns whether the stream will be disabled once its outcomes are in the store. A success after the
   * limit changes nothing about that.
   */
  reachLimit(limits: HealthLimits): boolean {
    for (; this.#counted < this.#pending.length; this.#counted += 1) {
      const outcome = this.#pending[this.#counted];
      if (outcome?.result === 'delivered')
        this.#health = nextHealth(this.#health, 'delivered', false);
      if (outcome?.result !== 'failed') continue;
      this.#health = nextHealth(this.#health, 'failed', !opensRecord(outcome));
      const isGone = outcome.goneVersion !== undefined;
      this.#isLimitReached ||= isGone || reachedLimit(this.#health, limits) !== undefined;
    }
    return this.#isLimitReached;
  }

  /**
   * Takes over the counters in the store. It has the last word, as other changes raise and lower them: the
   * outcomes that are not recorded are counted from there again.
   */
  update(stored: Health): void {
    this.#stored = stored;
    this.#health = stored;
    this.#counted = 0;
    this.#isLimitReached = false;
  }

  /** Notes an outcome that is not in the store yet. */
  ended(outcome: Outcome): void {
    this.#pending.push(outcome);
    if (opensRecord(outcome)) this.#opened += 1;
  }

  /** Notes that the oldest of these outcomes are in the store, with these counters. */
  settled(outcomes: readonly Outcome[], stored: Health): void {
    this.#pending.splice(0, outcomes.length);
    this.#opened -= outcomes.filter(opensRecord).length;
    this.update(stored);
  }
}

function opensRecord({ kind, result }: Outcome): boolean {
  return result === 'failed' && kind !== 'redelivery';
}
