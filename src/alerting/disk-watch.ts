import type { Clock } from '../core/clock.ts';
import { sleep } from '../core/sleep.ts';
import type { Tenant } from '../core/types.ts';
import { hourMs, minuteMs } from '../core/units.ts';
import type { Store } from '../store/port/store.ts';
import type { SystemAlert } from './alert.ts';

export interface DiskWatchDeps {
  readonly store: {
    readonly failure: Store['failure'];
    readonly tenants: Pick<Store['tenants'], 'list'>;
  };
  /** Whether a command of the dispatcher was refused for lack of room and has not succeeded since. */
  readonly isFull: () => boolean;
  /** Names this process in alerts. */
  readonly node: string;
  readonly clock: Clock;
  /** Sends an alert over every channel; returns whether each took it. */
  readonly send: (alert: SystemAlert, tenant: Tenant, signal: AbortSignal) => Promise<boolean>;
}

/** How often the store is asked whether it refuses writes. */
const everyMs = 1000;
/** A full disk is reported again after this time, and this long after an alert that was not sent. */
const [repeatMs, retryMs] = [hourMs, minuteMs];

/**
 * Sends an alert while the disk of the store is full. It does not go through the outbox, as other alerts do:
 * a full disk does not take that. Runs until aborted.
 */
export async function watchDisk(deps: DiskWatchDeps, signal: AbortSignal): Promise<void> {
  const { store, clock } = deps;
  let nextMs = -Infinity;
  while (!signal.aborted) {
    const isFull = store.failure()?.reason === 'full' || deps.isFull();
    if (isFull && clock.elapsedMs() >= nextMs) {
      const isSent = await send(deps, signal);
      nextMs = clock.elapsedMs() + (isSent ? repeatMs : retryMs);
    }
    await sleep(clock, everyMs, signal);
  }
}

async function send(deps: DiskWatchDeps, signal: AbortSignal): Promise<boolean> {
  const { store, node, clock } = deps;
  // A full disk can be read as a rule; where it cannot, the next attempt may.
  const [first] = await store.tenants.list().catch(() => []);
  if (first === undefined) return false;
  const alert: SystemAlert = {
    kind: 'disk_full',
    key: `disk_full ${node}`,
    tenant: first.name,
    sentence:
      'the disk of the store is full: publishers get 503, and deliveries wait until there is room',
    fields: { node },
    at: clock.now(),
  };
  return deps.send(alert, first, signal);
}
