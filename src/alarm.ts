import type { Logger } from 'pino';
import { type Config, limits } from './config.ts';
import type { Clock } from './core/clock.ts';
import { createCourier, logAlert } from './ops/alert-courier.ts';
import { alertSendersOf } from './ops/alert-senders.ts';
import { createMonitor, type Monitor } from './ops/monitor.ts';
import type { SystemAlerts } from './ops/system-alerts.ts';
import type { Store } from './store/port.ts';

export interface AlarmDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the program, for the `User-Agent` of alerts. */
  readonly version: string;
  /** Conditions of this node and its store that are to be reported. */
  readonly system: SystemAlerts;
}

/** The looks at the failures of a service, with the places that its settings name for alerts. */
export function createAlarm(
  store: Store,
  { config, clock, log, version, system }: AlarmDeps,
): Monitor {
  const senders = alertSendersOf(config, { fetch, log, clock, userAgent: `Leat/${version}` });
  const courier = createCourier({
    clock,
    senders,
    settings: limits.alerts,
    report: (alert, place, reason) => logAlert(log, alert, place, reason),
  });
  return createMonitor({
    store,
    clock,
    courier,
    system,
    limits: { consecutive: config.disableConsecutive, total: config.disableTotal },
    settings: {
      ...limits.monitor,
      everyMs: config.monitorIntervalSeconds * 1000,
      alone: config.store.engine === 'sqlite',
    },
    log,
    report: (error) => log.error({ err: error }, 'a look at the failures was cut short'),
  });
}
