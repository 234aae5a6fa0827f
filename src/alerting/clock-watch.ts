import type { Clock } from '../core/clock.ts';
import { isSkewed, type StoreTime } from '../store/port/time.ts';
import { sleep } from '../core/sleep.ts';
import type { RaisedAlert, SystemAlerts } from './system-alerts.ts';
import type { Log } from '../core/log.ts';

export interface ClockWatchDeps {
  readonly time: StoreTime;
  /** Names this process in alerts. */
  readonly node: string;
  /** Whether the time of the store is this process's own clock, guarded against steps. */
  readonly guarded: boolean;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly alerts: Pick<SystemAlerts, 'raise'>;
}

/** How often the two clocks are compared. */
const EVERY_MS = 1000;

/**
 * Reports, once per episode, that the wall clock of this process differs from the store's, and that
 * it no longer does. Runs until aborted.
 */
export async function watchClock(deps: ClockWatchDeps, signal: AbortSignal): Promise<void> {
  let seen = 0;
  let isOpen = false;
  while (!signal.aborted) {
    ({ seen, isOpen } = compare(deps, seen, isOpen));
    await sleep(deps.clock, EVERY_MS, signal);
  }
}

interface Episode {
  /** Differences that were reported. */
  readonly seen: number;
  /** Whether the last one has not ended. */
  readonly isOpen: boolean;
}

function compare(deps: ClockWatchDeps, seen: number, isOpen: boolean): Episode {
  const { time, log, alerts } = deps;
  const skewMs = time.skewMs();
  const { skews } = time;
  if (skews > seen) {
    const alert = alertOf(deps, skewMs);
    log.warn({ skewMs }, alert.sentence);
    alerts.raise(alert);
  }
  const isWrong = isSkewed(skewMs);
  if ((isOpen || skews > seen) && !isWrong) {
    log.info({ skewMs }, 'the clocks of this node and of the store agree again');
  }
  return { seen: skews, isOpen: isWrong };
}

function alertOf({ node, guarded }: ClockWatchDeps, skewMs: number): RaisedAlert {
  const seconds = Math.round(skewMs / 1000);
  const fields = { node, skew_seconds: seconds };
  if (guarded) {
    const how = isSkewed(skewMs)
      ? `, it is ${differenceOf(seconds)} Leat's`
      : ' and is right again';
    return {
      kind: 'clock_step',
      sentence:
        `The clock of ${node} was set by more than a minute${how}: ` +
        'Leat follows a step once it has lasted for 3 minutes, and removes nothing before.',
      fields,
      key: `clock_step ${node}`,
    };
  }
  return {
    kind: 'clock_skew',
    sentence:
      `The clock of ${node} is ${differenceOf(seconds)} that of the database: ` +
      'the node removes nothing, and leaves its work to others; check its time service.',
    fields,
    key: `clock_skew ${node}`,
  };
}

function differenceOf(seconds: number): string {
  return `${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'}`;
}
