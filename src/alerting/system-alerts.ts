import type { SystemAlert } from './alert.ts';
import type { Clock, Millis } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import { sleep } from '../core/sleep.ts';
import { hourMs } from '../core/units.ts';

/** A condition to report; the monitor adds the tenant's name and the time. */
export type RaisedAlert = Omit<SystemAlert, 'tenant' | 'at'> & {
  /** Id of the tenant; absent where the condition concerns all of them. */
  readonly tenant?: number | undefined;
};

/**
 * Queue of conditions from the code that notices them to the monitor, which stores and sends them.
 * The queue is in memory: raise a condition again while it lasts; its key prevents repeated alerts.
 */
export interface SystemAlerts {
  /**
   * Wakes the monitor. Replaces a queued alert that has the same tenant and key. `onStored` is called
   * once this alert, or a report of its condition within the last hour, is in the store; never when
   * it was dropped or replaced before.
   */
  raise(alert: RaisedAlert, onStored?: () => void): void;
  /** Number of calls of {@link SystemAlerts.raise} so far. */
  readonly raised: number;
  /** Queued for a tenant; those without a tenant are queued for the `first` one. */
  queued(tenant: Tenant, first: boolean): readonly RaisedAlert[];
  /** Removes alerts that are in the store now. */
  stored(alerts: readonly RaisedAlert[]): void;
  /** Ends after `delayMs`, when aborted, or when more was raised than `seen`. */
  wait(
    clock: Pick<Clock, 'after'>,
    delayMs: number,
    seen: number,
    signal: AbortSignal,
  ): Promise<void>;
}

/** Conditions that are queued at most; the oldest are dropped. */
const QUEUED_MAX = 1000;
/** A condition that was reported is not reported again for this long. */
const REPEAT_MS = hourMs;
/** Reported conditions that are remembered per tenant. */
const REMEMBERED_MAX = 200;

export function createSystemAlerts(): SystemAlerts {
  const queue = new Map<string, RaisedAlert>();
  // By the alert: while one is being stored, a newer one may replace it in the queue.
  const listeners = new WeakMap<RaisedAlert, () => void>();
  let raised = 0;
  let wake = new AbortController();
  return {
    raise: (alert, onStored) => {
      if (onStored !== undefined) listeners.set(alert, onStored);
      const name = `${alert.tenant ?? ''} ${alert.key}`;
      queue.delete(name);
      queue.set(name, alert);
      for (const oldest of queue.keys()) {
        if (queue.size <= QUEUED_MAX) break;
        queue.delete(oldest);
      }
      raised += 1;
      wake.abort();
      wake = new AbortController();
    },
    get raised() {
      return raised;
    },
    queued: ({ id }, first) =>
      [...queue.values()].filter(({ tenant }) => tenant === id || (first && tenant === undefined)),
    stored: (alerts) => {
      for (const [name, alert] of queue) if (alerts.includes(alert)) queue.delete(name);
      for (const alert of alerts) {
        listeners.get(alert)?.();
        listeners.delete(alert);
      }
    },
    wait: async (clock, delayMs, seen, signal) => {
      if (raised > seen) return;
      const end = new AbortController();
      const done = (): void => end.abort();
      const woken = wake.signal;
      signal.addEventListener('abort', done, { once: true });
      woken.addEventListener('abort', done, { once: true });
      if (signal.aborted) done();
      await sleep(clock, delayMs, end.signal);
      signal.removeEventListener('abort', done);
      woken.removeEventListener('abort', done);
    },
  };
}

/** When each condition was reported last, by key. A stored format, as JSON. */
export type Reported = Readonly<Record<string, Millis>>;

/** Returns the alerts that are not repeats, and the reported conditions including these. */
export function withoutRepeats(
  raised: readonly RaisedAlert[],
  reported: Reported,
  { name, at }: { readonly name: string; readonly at: Millis },
): { readonly alerts: readonly SystemAlert[]; readonly reported: Reported } {
  const recent = Object.entries(reported).filter(([, then]) => Math.abs(at - then) < REPEAT_MS);
  const known = new Map(recent);
  const alerts: SystemAlert[] = [];
  for (const alert of raised) {
    if (known.has(alert.key)) continue;
    known.set(alert.key, at);
    alerts.push({ ...alert, tenant: name, at });
  }
  return { alerts, reported: Object.fromEntries([...known].slice(-REMEMBERED_MAX)) };
}
