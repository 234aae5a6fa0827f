import { reachedLimit } from '../core/health.ts';
import type { Health, HealthLimits } from '../core/types.ts';
import type { Outcome } from '../store/port/settlement.ts';

/**
 * The failure counters of one stream as its owner knows them: those in the store, and the outcomes that
 * are not recorded yet. A class, as the parts of the dispatcher share it.
 */
export class FailureCounters {
  /** In the store. */
  #stored: Health;
  // Of the outcomes that are not in the store yet.
  #outcomes = 0;
  #delivered = 0;
  #failed = 0;
  /** Failures after the last success among them. */
  #inRow = 0;
  /** Failures that open a record: that of a redelivery is open before. */
  #opened = 0;
  /** Outcomes up to the first that reaches a limit; `undefined` when none does. */
  #untilLimit: number | undefined;

  constructor(stored: Health) {
    this.#stored = stored;
  }

  /** Open failure records; a redelivery that succeeded counts until that is recorded. */
  get open(): number {
    return this.#stored.total + this.#opened;
  }

  /**
   * Whether the stream will be disabled once its outcomes are in the store. A success after the limit
   * changes nothing about that.
   */
  get reachLimit(): boolean {
    return this.#untilLimit !== undefined;
  }

  /** Takes over the counters in the store. */
  update(stored: Health): void {
    this.#stored = stored;
  }

  /** Notes an outcome that is not in the store yet. */
  ended(outcome: Outcome, limits: HealthLimits): void {
    this.#outcomes += 1;
    if (outcome.result === 'delivered') {
      this.#delivered += 1;
      this.#inRow = 0;
    }
    if (outcome.result !== 'failed') return;
    this.#failed += 1;
    this.#inRow += 1;
    if (opensRecord(outcome)) this.#opened += 1;
    const before = this.#delivered > 0 ? 0 : this.#stored.consecutive;
    const health = { consecutive: before + this.#inRow, total: this.open };
    if (reachedLimit(health, limits) !== undefined) this.#untilLimit ??= this.#outcomes;
  }

  /** Notes that the oldest of these outcomes are in the store, with these counters. */
  settled(outcomes: readonly Outcome[], stored: Health): void {
    this.#stored = stored;
    this.#outcomes -= outcomes.length;
    for (const outcome of outcomes) {
      if (outcome.result === 'delivered') this.#delivered -= 1;
      if (outcome.result === 'failed') this.#failed -= 1;
      if (opensRecord(outcome)) this.#opened -= 1;
    }
    this.#inRow = Math.min(this.#inRow, this.#failed);
    if (this.#untilLimit === undefined) return;
    this.#untilLimit -= outcomes.length;
    // The store has the last word: another change may have lowered the counters.
    if (this.#untilLimit <= 0) this.#untilLimit = undefined;
  }
}

function opensRecord({ kind, result }: Outcome): boolean {
  return result === 'failed' && kind !== 'redelivery';
}
