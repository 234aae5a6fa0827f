import type { Clock } from '../../core/clock.ts';
import { RecentTexts } from './recent-texts.ts';

/**
 * The origins that have sent a response without a request in the last ten minutes. On a connection that
 * carries a second request, such a response would be taken for the one to that request.
 */
export class UnaskedOrigins {
  readonly #origins: RecentTexts;
  readonly #found: (origin: string) => void;

  /** @param found receives an origin that was noted here and was unknown */
  constructor(clock: Pick<Clock, 'elapsedMs'>, found: (origin: string) => void = () => undefined) {
    this.#origins = new RecentTexts(clock);
    this.#found = found;
  }

  has(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** Notes an origin that has sent such a response. */
  note(origin: string): void {
    const isNew = !this.has(origin);
    this.learn(origin);
    if (isNew) this.#found(origin);
  }

  /** Notes an origin that was found elsewhere. */
  learn(origin: string): void {
    this.#origins.note(origin);
  }
}
