import type { Clock } from '../../core/clock.ts';

/** How long a text is remembered. */
const rememberedMs = 600_000;

/** More are forgotten, those that were noted first. */
const textsMax = 10_000;

/** Texts that were noted in the last ten minutes. */
export class RecentTexts {
  readonly #clock: Pick<Clock, 'elapsedMs'>;
  /** When each was noted last, oldest first. */
  readonly #notedMs = new Map<string, number>();

  constructor(clock: Pick<Clock, 'elapsedMs'>) {
    this.#clock = clock;
  }

  has(text: string): boolean {
    const notedMs = this.#notedMs.get(text);
    return notedMs !== undefined && this.#clock.elapsedMs() - notedMs < rememberedMs;
  }

  all(): readonly string[] {
    return [...this.#notedMs.keys()].filter((text) => this.has(text));
  }

  note(text: string): void {
    this.#notedMs.delete(text);
    this.#notedMs.set(text, this.#clock.elapsedMs());
    const [oldest] = this.#notedMs.size > textsMax ? this.#notedMs.keys() : [];
    if (oldest !== undefined) this.#notedMs.delete(oldest);
  }
}
