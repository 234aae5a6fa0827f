import type { Clock, Millis } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import { sleep } from '../core/sleep.ts';
import type { AlertStateStore } from '../store/port/alert-state.ts';
import { haveSameContent, type SavedState } from './saved-state.ts';

export interface CheckLockDeps {
  readonly alertState: Pick<AlertStateStore, 'record'>;
  readonly clock: Clock;
  readonly leaseMs: number;
}

/**
 * The lease of one node on the check of one tenant. It is renewed while the check runs; when it
 * expires, another node takes over.
 */
export interface CheckLock {
  /** Returns false when another node has the lease. A crash of the store may undo it. */
  acquire(state: SavedState): Promise<boolean>;
  /** Saves the state and renews the lease. Returns false when another node has taken over. */
  save(state: SavedState): Promise<boolean>;
  /** Does the same once a third of the lease is over. */
  renew(state: SavedState): Promise<boolean>;
  /**
   * Saves the state and releases the lease. When it differs from `before` in its times at most, a
   * crash of the store may undo it: the next check then only reads a longer time again.
   */
  release(state: SavedState, before?: SavedState): Promise<boolean>;
  /** Does the same, with retries during a store outage: alerts that were sent must be saved as sent. */
  releaseWithRetries(state: SavedState): Promise<void>;
}

const RETRY_MS = 500;

/**
 * Creates a lock from the instant of the state that was read. Each write requires that the state is
 * the one of the previous write, so only the first of several nodes continues.
 */
export function createCheckLock(
  { alertState, clock, leaseMs }: CheckLockDeps,
  tenant: number,
  readAt: Millis | undefined,
): CheckLock {
  let savedAt = readAt;
  let savedMs = clock.elapsedMs();
  const sinceSavedMs = (): number => clock.elapsedMs() - savedMs;
  const write = async (state: SavedState, mustLast: boolean): Promise<boolean> => {
    const at = Math.max(clock.now(), (savedAt ?? 0) + 1);
    const next = { at, state: JSON.stringify(state) };
    if (!(await alertState.record(tenant, savedAt, next, mustLast))) return false;
    savedAt = at;
    savedMs = clock.elapsedMs();
    return true;
  };
  const leased = (state: SavedState): SavedState => ({
    ...state,
    busyUntil: clock.now() + leaseMs,
  });
  const save = (state: SavedState): Promise<boolean> => write(leased(state), true);
  const release = (
    { busyUntil: _free, ...state }: SavedState,
    before?: SavedState,
  ): Promise<boolean> => write(state, before === undefined || !haveSameContent(state, before));
  return {
    acquire: (state) => write(leased(state), false),
    save,
    renew: async (state) => sinceSavedMs() < leaseMs / 3 || save(state),
    release,
    releaseWithRetries: async (state) => {
      for (;;) {
        try {
          await release(state);
          return;
        } catch (error) {
          if (!(error instanceof StoreUnavailable) || sinceSavedMs() >= leaseMs) throw error;
        }
        await sleep(clock, RETRY_MS);
      }
    },
  };
}
