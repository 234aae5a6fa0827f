import type { Clock } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';

/** Runs store calls and measures how long the store has been unavailable. */
export class StoreCalls {
  readonly #clock: Pick<Clock, 'elapsedMs'>;
  #failingSinceMs: number | undefined;

  constructor(clock: Pick<Clock, 'elapsedMs'>) {
    this.#clock = clock;
  }

  /** Returns how long the last calls have failed; 0 when the last one succeeded. */
  get failingMs(): number {
    const nowMs = this.#clock.elapsedMs();
    return nowMs - (this.#failingSinceMs ?? nowMs);
  }

  /** Runs calls. Ignores an outage, after which the caller retries; another error is a bug. */
  async run(calls: () => Promise<void>, onBug: (error: unknown) => void): Promise<void> {
    try {
      await calls();
      this.#failingSinceMs = undefined;
    } catch (error) {
      if (error instanceof StoreUnavailable) this.#failingSinceMs ??= this.#clock.elapsedMs();
      else onBug(error);
    }
  }
}
