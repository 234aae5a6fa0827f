import type { Stream, StreamRef } from '../../core/types.ts';
import type { ClaimFilter } from '../../store/port/ownership.ts';

/** Tenants per claim. */
const tenantsMax = 64;

/**
 * The order in which a node claims streams. It matters only while one claim cannot take all free
 * streams, as at the start of a node with very many. Streams that are behind the head of their log
 * come first, then all others; before each of these claims, streams of tenants whose events were
 * published meanwhile.
 */
export class ClaimSweep {
  #isUnderWay = false;
  #behind = true;
  #after: StreamRef | undefined;
  #mustRepeat = false;
  readonly #tenants = new Set<number>();

  /** Whether some free streams may not have been claimed yet. */
  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  /** Returns which streams to claim next. */
  next(): ClaimFilter | undefined {
    if (!this.#isUnderWay) return undefined;
    if (this.#tenants.size === 0) return { after: this.#after, behind: this.#behind };
    return { tenants: [...this.#tenants].slice(0, tenantsMax) };
  }

  /** Notes that events of the tenant were published. */
  appended(tenant: number): void {
    if (this.#isUnderWay) this.#tenants.add(tenant);
  }

  /** Notes that streams may have become free which the present sweep has passed. */
  repeat(): void {
    if (this.#isUnderWay) this.#mustRepeat = true;
  }

  /**
   * Notes the result of a claim; `isFull` when more streams may match its filter. Returns whether
   * to claim again.
   */
  claimed(
    filter: ClaimFilter | undefined,
    streams: readonly Pick<Stream, 'tenant' | 'id'>[],
    isFull: boolean,
  ): boolean {
    if (filter === undefined) {
      this.#isUnderWay = isFull;
      return isFull;
    }
    if ('tenants' in filter) {
      if (!isFull) for (const tenant of filter.tenants) this.#tenants.delete(tenant);
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
    const mustRepeat = this.#mustRepeat;
    this.end();
    return mustRepeat;
  }

  /** Ends the sweep: nothing more is claimed for now. */
  end(): void {
    this.#isUnderWay = false;
    this.#behind = true;
    this.#after = undefined;
    this.#mustRepeat = false;
    this.#tenants.clear();
  }
}
