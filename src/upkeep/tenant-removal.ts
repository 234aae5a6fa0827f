import type { Logger } from 'pino';
import type { Clock } from '../core/clock.ts';
import type { Store } from '../store/port/store.ts';
import { sleep } from '../core/sleep.ts';

/** A step aims at this time: publishing and delivering wait no longer for it. */
const stepMs = 5;
const takeMin = 10;
const takeMax = 2000;
/** Between steps, so that the rest of the service has at least half of the time. */
const restMs = 5;
/** Before the last step is tried again. */
const waitMs = 500;

/**
 * Removes everything of a tenant that is leaving, step by step, until nothing is left; returns the
 * number of rows. Can be cut off and repeated. Rejects with the signal's reason when aborted.
 */
export async function removeTenant(
  { store, clock }: { readonly store: Pick<Store, 'tenants'>; readonly clock: Clock },
  tenant: number,
  progress: (removed: number) => void,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  let take = takeMin;
  for (;;) {
    signal.throwIfAborted();
    const began = clock.elapsedMs();
    const step = await store.tenants.removeStep(tenant, take);
    take = nextTake(take, clock.elapsedMs() - began);
    removed += step.removed;
    progress(removed);
    if (step.isDone) return removed;
    await sleep(clock, step.removed === 0 ? waitMs : restMs, signal);
  }
}

/** Twice as many rows while steps are short, half as many when one was long. */
function nextTake(take: number, tookMs: number): number {
  if (tookMs > stepMs) return Math.max(takeMin, Math.floor(take / 2));
  return tookMs < stepMs / 2 ? Math.min(takeMax, take * 2) : take;
}

/** Goes on with tenants whose deletion was cut off. */
export async function removeLeaving(
  store: Pick<Store, 'tenants'>,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  try {
    for (const { id, name } of await store.tenants.leaving()) {
      const removed = await removeTenant({ store, clock }, id, () => {}, signal);
      log.info({ tenant: name, removed }, 'a tenant was deleted');
    }
  } catch (error) {
    // The next start, or the command, goes on.
    if (!signal.aborted) log.error({ err: error }, 'deleting a tenant was cut short');
  }
}
