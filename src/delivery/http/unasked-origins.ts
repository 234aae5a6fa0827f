import type { Clock } from '../../core/clock.ts';

/** How long an origin is remembered. */
const rememberedMs = 600_000;

/** More are forgotten, those that were noted first. */
const originsMax = 10_000;

/**
 * The origins that have sent a response without a request. On a connection that carries a second request,
 * such a response would be taken for the one to that request.
 */
export class UnaskedOrigins {
  readonly #clock: Pick<Clock, 'elapsedMs'>;
  readonly #found: (origin: string) => void;
  /** When each was noted last, oldest first. */
  readonly #notedMs = new Map<string, number>();

  /** @param found receives an origin that was noted here and was unknown */
  constructor(clock: Pick<Clock, 'elapsedMs'>, found: (origin: string) => void = () => undefined) {
    this.#clock = clock;
    this.#found = found;
  }

  /** Returns whether the origin was noted in the last ten minutes. */
  has(origin: string): boolean {
    const notedMs = this.#notedMs.get(origin);
    return notedMs !== undefined && this.#clock.elapsedMs() - notedMs < rememberedMs;
  }

  /** Notes an origin that has sent such a response. */
  note(origin: string): void {
    const isNew = !this.has(origin);
    this.learn(origin);
    if (isNew) this.#found(origin);
  }

  /** Notes an origin that was found elsewhere. */
  learn(origin: string): void {
    this.#notedMs.delete(origin);
    this.#notedMs.set(origin, this.#clock.elapsedMs());
    const [oldest] = this.#notedMs.size > originsMax ? this.#notedMs.keys() : [];
    if (oldest !== undefined) this.#notedMs.delete(oldest);
  }
}
