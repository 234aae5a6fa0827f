import type { Stream, StreamRef } from '../../core/types.ts';
import type { ClaimFilter } from '../../store/port/ownership.ts';

/** Tenants in one claim. */
const tenantsMax = 64;

/**
 * The order in which a node claims streams. While one claim takes all that are free, there is none.
 * Where there are more, as at the start of a node with very many streams, those come first whose log
 * goes on after their cursor, then all others, and before each of these claims the streams of tenants
 * whose events were published meanwhile.
 */
export class ClaimSweep {
  #isUnderWay = false;
  #behind = true;
  #after: StreamRef | undefined;
  #isAskedAgain = false;
  readonly #tenants = new Set<number>();

  /** Whether streams may be free that were not looked at. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** Which streams to claim next. */
  next(): ClaimFilter | undefined {
    if (!this.#isUnderWay) return undefined;
    if (this.#tenants.size === 0) return { after: this.#after, behind: this.#behind };
    return { tenants: [...this.#tenants].slice(0, tenantsMax) };
  }

  /** Events of the tenant were published. */
  appended(tenant: number): void {
    if (this.#isUnderWay) this.#tenants.add(tenant);
  }

  /** Streams may have become free that the present sweep has passed. */
  again(): void {
    if (this.#isUnderWay) this.#isAskedAgain = true;
  }

  /**
   * Streams were claimed; `isFull` when there may be more of those that were asked for. Answers
   * whether to claim again.
   */
  claimed(
    asked: ClaimFilter | undefined,
    streams: readonly Pick<Stream, 'tenant' | 'id'>[],
    isFull: boolean,
  ): boolean {
    if (asked === undefined) {
      this.#isUnderWay = isFull;
      return isFull;
    }
    if ('tenants' in asked) {
      if (!isFull) for (const tenant of asked.tenants) this.#tenants.delete(tenant);
      return true;
    }
    const last = streams.at(-1);
    if (isFull && last !== undefined) {
      this.#after = { tenant: last.tenant, stream: last.id };
      return true;
    }
    this.#after = undefined;
    if (this.#behind) {
      this.#behind = false;
      return true;
    }
    const isAskedAgain = this.#isAskedAgain;
    this.end();
    return isAskedAgain;
  }

  /** Nothing more is claimed for now. */
  end(): void {
    this.#isUnderWay = false;
    this.#behind = true;
    this.#after = undefined;
    this.#isAskedAgain = false;
    this.#tenants.clear();
  }
}
