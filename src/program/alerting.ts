import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, limits, usesPlainHttp } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { createAlertDispatcher, logAlert } from '../alerting/dispatcher.ts';
import { type AlertChannelsDeps, createAlertChannels } from '../alerting/channels.ts';
import { watchClock } from '../alerting/clock-watch.ts';
import { createMonitor, type Monitor } from '../alerting/monitor.ts';
import type { SystemAlerts } from '../alerting/system-alerts.ts';
import type { Store } from '../store/port/store.ts';

export interface AlertingDeps {
  readonly config: Config;
  /** The clock of the store: nodes compare what others saved, and when failures were recorded. */
  readonly clock: Clock;
  readonly log: Logger;
  /** Version of the program, for the `User-Agent` of alerts. */
  readonly version: string;
  /** Alerts on conditions of this node and its store. */
  readonly system: SystemAlerts;
  /** How alerts are sent: name lookups must not delay the service. */
  readonly fetch: AlertChannelsDeps['fetch'];
  readonly lookup: AlertChannelsDeps['lookup'];
  /** Names this process among those that share the store. */
  readonly nodeId: string;
}

/**
 * Creates the monitor of the failures and of the clock of a service, with the alert channels of its
 * settings.
 */
export function createAlerting(
  store: Store,
  { config, clock, log, version, system, nodeId, fetch, lookup }: AlertingDeps,
): Monitor {
  const channels = createAlertChannels(config, {
    fetch,
    lookup,
    log,
    clock,
    userAgent: `Leat/${version}`,
  });
  const dispatcher = createAlertDispatcher({
    clock,
    channels,
    settings: limits.alerts,
    urlOf: (domain) => issuerOf(domain, usesPlainHttp(config, domain)),
    report: (alert, channel, reason) => logAlert(log, alert, channel, reason),
  });
  const monitor = createMonitor({
    store,
    clock,
    dispatcher,
    system,
    limits: { consecutive: config.disableConsecutive, total: config.disableTotal },
    settings: {
      ...limits.monitor,
      everyMs: config.monitorIntervalSeconds * 1000,
      alone: config.store.engine === 'sqlite',
    },
    log,
    report: (error) => log.error({ err: error }, 'a check of the failures failed'),
  });
  const guarded = config.store.engine === 'sqlite';
  const node = guarded ? hostname() : nodeId;
  const watched = { time: store.time, node, guarded, clock, log, alerts: system };
  return {
    run: async (signal) => {
      await Promise.all([monitor.run(signal), watchClock(watched, signal)]);
    },
  };
}
