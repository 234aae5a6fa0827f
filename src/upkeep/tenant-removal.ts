import type { Logger } from 'pino';
import type { Clock } from '../core/clock.ts';
import type { Store } from '../store/port/store.ts';
import type { RemovalPlace } from '../store/port/tenants.ts';
import { sleep } from '../core/sleep.ts';

/**
 * Target time of a step, of the server where there is one: publishing and delivering wait for it, and
 * not for the way to the server.
 */
const stepMs = 5;
const takeMin = 100;
const takeMax = 2000;
/** Pause between steps, so that the service has at least half of the time. */
const pauseMs = 5;
/** Pause before a step that removed nothing is repeated. */
const retryMs = 500;

/**
 * Removes all rows of a tenant that is being deleted, in steps; returns their number. Can be interrupted
 * and repeated. Rejects with the signal's reason when aborted.
 */
export async function removeTenant(
  { store, clock }: { readonly store: Pick<Store, 'tenants'>; readonly clock: Clock },
  tenant: number,
  progress: (removed: number) => void,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  let take = takeMin;
  let from: RemovalPlace | undefined;
  for (;;) {
    signal.throwIfAborted();
    const startedMs = clock.elapsedMs();
    const step = await store.tenants.removeStep(tenant, { take, from });
    take = nextTake(take, step.tookMs ?? clock.elapsedMs() - startedMs);
    from = step.next;
    removed += step.removed;
    progress(removed);
    if (step.isDone) return removed;
    await sleep(clock, step.removed === 0 ? retryMs : pauseMs, signal);
  }
}

/** Doubles the rows after a short step, and halves them after a long one. */
function nextTake(take: number, tookMs: number): number {
  if (tookMs > stepMs) return Math.max(takeMin, Math.floor(take / 2));
  return tookMs < stepMs / 2 ? Math.min(takeMax, take * 2) : take;
}

/** Resumes deletions of tenants that were interrupted. */
export async function removeLeaving(
  store: Pick<Store, 'tenants'>,
  { clock, log }: { readonly clock: Clock; readonly log: Pick<Logger, 'info' | 'error'> },
  signal: AbortSignal,
): Promise<void> {
  try {
    for (const { id, name } of await store.tenants.leaving()) {
      const removed = await removeTenant({ store, clock }, id, () => {}, signal);
      log.info({ tenant: name, removed }, 'a tenant was deleted');
    }
  } catch (error) {
    // The next start, or the command, resumes it.
    if (!signal.aborted) log.error({ err: error }, 'deleting a tenant was interrupted');
  }
}
