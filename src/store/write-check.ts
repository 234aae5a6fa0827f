import type { Clock, Millis, Timer } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';

/** Finds out whether the store accepts appends, from what publishers meet, and by trial writes. */
export interface WriteCheck {
  /** Passes an append on, and records how it ends. */
  observe<T>(tenant: number, append: Promise<T>): Promise<T>;
  /** Records that the write of appends has taken {@link lateMs}. */
  late(tenant: number): void;
  /**
   * Throws `StoreUnavailable` unless an append would be accepted. Returns whether appends of publishers
   * show that.
   */
  check(): Promise<boolean>;
  /** Returns the first cause for which appends of a tenant have failed for some seconds, if any do. */
  failure(): StoreUnavailable | undefined;
  close(): void;
}

export interface WriteCheckDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Throws `StoreUnavailable` unless the store responds and reports that it is writable. */
  readonly read: () => Promise<unknown>;
  /** Writes as an append of the tenant does, of any one without it, and takes that back. */
  readonly tryWrite: (tenant: number | undefined) => Promise<unknown>;
  /** Receives the first cause once appends have failed for some seconds, and `undefined` when they succeed again. */
  readonly report?: ((failure: StoreUnavailable | undefined) => void) | undefined;
}

/** A write that takes this long is late, and appends that have failed for this long fail. */
export const lateMs: Millis = 3000;
/** A successful append or trial write is valid as proof for this time. */
const proofMs = 10_000;
/**
 * A full disk may accept a small trial write and refuse the next append: its error is valid longer.
 */
const fullMs = 10_000;
/** Between two trial writes while appends fail: publishers may have gone elsewhere. */
const trialMs = 1000;

/** Stands for whichever tenant a trial write took. */
const anyTenant = undefined;

/** What is known of a tenant whose appends fail. */
interface Failing {
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly isFull: boolean;
}

export function createWriteCheck(deps: WriteCheckDeps): WriteCheck {
  return new AppendCheck(deps);
}

class AppendCheck implements WriteCheck {
  readonly #deps: WriteCheckDeps;
  readonly #failing = new Map<number | undefined, Failing>();
  #provenMs = -Infinity;
  #publishedMs = -Infinity;
  #cause: StoreUnavailable | undefined;
  #isReported = false;
  #timer: Timer | undefined;
  #isClosed = false;
  #trial: Promise<unknown> | undefined;

  constructor(deps: WriteCheckDeps) {
    this.#deps = deps;
  }

  async observe<T>(tenant: number, append: Promise<T>): Promise<T> {
    const result = await this.#observe(tenant, append);
    this.#publishedMs = this.#provenMs;
    return result;
  }

  late(tenant: number): void {
    this.#failed(tenant, lateError(), this.#nowMs - lateMs);
  }

  failure(): StoreUnavailable | undefined {
    return this.#isReported ? this.#cause : undefined;
  }

  async check(): Promise<boolean> {
    // Of several tenants one may be blocked while the others publish, as long as they do.
    const isQuiet = this.#nowMs - this.#provenMs >= lateMs;
    const states = [...this.#failing.values()].filter(
      ({ sinceMs }) => isQuiet || sinceMs >= this.#provenMs,
    );
    const isKnown = states.some((state) => this.#isLong(state) || this.#isFull(state));
    if (isKnown && this.#cause !== undefined) throw this.#cause;
    const [tenant] = this.#failing.keys();
    const isProven = states.length === 0 && this.#nowMs - this.#provenMs < proofMs;
    await (isProven ? this.#deps.read() : this.#tryWrite(tenant));
    return this.#nowMs - this.#publishedMs < proofMs;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  get #nowMs(): number {
    return this.#deps.clock.elapsedMs();
  }

  #isLong({ sinceMs }: Failing): boolean {
    return this.#nowMs - sinceMs >= lateMs;
  }

  #isFull({ isFull, lastMs }: Failing): boolean {
    return isFull && this.#nowMs - lastMs < fullMs;
  }

  async #observe<T>(tenant: number | undefined, write: Promise<T>): Promise<T> {
    try {
      const result = await write;
      this.#succeeded(tenant);
      return result;
    } catch (error) {
      if (error instanceof StoreUnavailable) this.#failed(tenant, error, this.#nowMs);
      throw error;
    }
  }

  #succeeded(tenant: number | undefined): void {
    this.#provenMs = this.#nowMs;
    if (this.#failing.size === 0) return;
    this.#failing.delete(tenant);
    this.#failing.delete(anyTenant);
    if (this.#failing.size > 0) return;
    this.#cause = undefined;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#isReported) this.#deps.report?.(undefined);
    this.#isReported = false;
  }

  #failed(tenant: number | undefined, error: StoreUnavailable, sinceMs: number): void {
    this.#cause ??= error;
    const before = this.#failing.get(tenant);
    const isFull = error.reason === 'full' || (before?.isFull ?? false);
    this.#failing.set(tenant, {
      sinceMs: before?.sinceMs ?? sinceMs,
      lastMs: this.#nowMs,
      isFull,
    });
    this.#reportLong();
    if (!this.#isClosed) this.#timer ??= this.#deps.clock.after(trialMs, () => this.#follow());
  }

  #reportLong(): void {
    if (this.#isReported || ![...this.#failing.values()].some((state) => this.#isLong(state)))
      return;
    this.#isReported = true;
    this.#deps.report?.(this.#cause);
  }

  /** Publishers may have gone elsewhere: a trial shows when the failure is over. */
  #follow(): void {
    if (this.#isClosed) return;
    this.#timer = this.#deps.clock.after(trialMs, () => this.#follow());
    this.#reportLong();
    const tried = [...this.#failing].find(([, state]) => !this.#isFull(state));
    if (tried !== undefined) this.#tryWrite(tried[0]).catch(() => undefined);
  }

  #tryWrite(tenant: number | undefined): Promise<unknown> {
    this.#trial ??= this.#observe(tenant, this.#deps.tryWrite(tenant)).finally(() => {
      this.#trial = undefined;
    });
    return this.#trial;
  }
}

function lateError(): StoreUnavailable {
  return new StoreUnavailable(`An append has had no result for ${lateMs / 1000} s.`, {
    reason: 'blocked',
  });
}
