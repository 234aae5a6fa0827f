import type { Clock } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';

/** Finds out whether the store accepts appends, without a write per query. */
export interface WriteCheck {
  /** Passes an append on, and records how it ends. */
  observe<T>(append: Promise<T>): Promise<T>;
  /** Throws `StoreUnavailable` unless an append would be accepted. */
  check(): Promise<void>;
}

/** A successful append or trial write is valid as proof for this time. */
const proofMs = 10_000;
/**
 * A full disk may accept a small trial write and refuse the next append: its error is valid longer.
 */
const fullMs = 10_000;

export function createWriteCheck(deps: {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Throws `StoreUnavailable` unless the store responds and reports that it is writable. */
  readonly read: () => Promise<unknown>;
  /** Makes a trial write and rolls it back. */
  readonly tryWrite: () => Promise<unknown>;
}): WriteCheck {
  const { clock, read, tryWrite } = deps;
  let provenMs = -Infinity;
  let failed: { readonly error: StoreUnavailable; readonly atMs: number } | undefined;

  const observe = async <T>(write: Promise<T>): Promise<T> => {
    try {
      const result = await write;
      provenMs = clock.elapsedMs();
      failed = undefined;
      return result;
    } catch (error) {
      if (error instanceof StoreUnavailable) failed = { error, atMs: clock.elapsedMs() };
      throw error;
    }
  };
  return {
    observe,
    check: async () => {
      const nowMs = clock.elapsedMs();
      if (failed?.error.reason === 'full' && nowMs - failed.atMs < fullMs) throw failed.error;
      const isProven = failed === undefined && nowMs - provenMs < proofMs;
      await (isProven ? read() : observe(tryWrite()));
    },
  };
}
