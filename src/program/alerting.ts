import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { issuerOf } from '../auth/issuer.ts';
import { type Config, limits, usesPlainHttp } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import { createAlertDispatcher, logAlert } from '../alerting/dispatcher.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import { createAlertChannels } from '../alerting/channels.ts';
import type { SystemAlert } from '../alerting/alert.ts';
import { watchDisk } from '../alerting/disk-watch.ts';
import { watchClock } from '../alerting/clock-watch.ts';
import { createMonitor, type Monitor } from '../alerting/monitor.ts';
import type { SystemAlerts } from '../alerting/system-alerts.ts';
import type { Store } from '../store/port/store.ts';
import type { Network } from './network.ts';

export interface AlertingDeps {
  readonly config: Config;
  /** The clock of the store: nodes compare what others saved, and when failures were recorded. */
  readonly clock: Clock;
  readonly log: Logger;
  /** Alerts on conditions of this node and its store. */
  readonly system: SystemAlerts;
  readonly channels: readonly AlertChannel[];
  /** What the dispatcher knows of the disk of the store. */
  readonly disk: { readonly isFull: boolean };
  /** Names this process among those that share the store. */
  readonly nodeId: string;
}

/** Creates the alert channels of the settings. */
export function createServiceChannels(deps: {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Version of the program, for the `User-Agent` of alerts. */
  readonly version: string;
  /** How alerts are sent: name lookups must not delay the service. */
  readonly network: Pick<Network, 'fetch' | 'lookup'>;
}): AlertChannel[] {
  const { config, clock, log, version, network } = deps;
  const { fetch, lookup } = network;
  return createAlertChannels(config, { fetch, lookup, log, clock, userAgent: `Leat/${version}` });
}

/** Creates the monitor of the failures and of the clock of a service. */
export function createAlerting(
  store: Store,
  { config, clock, log, system, disk, nodeId, channels }: AlertingDeps,
): Monitor {
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
  const watchedDisk = {
    store,
    isFull: () => disk.isFull,
    node,
    clock,
    send: async (alert: SystemAlert, { domain }: Tenant, signal: AbortSignal): Promise<boolean> => {
      const outbox = Object.fromEntries(dispatcher.channels.map((name) => [name, [alert]]));
      const left = await dispatcher.startRun(signal).deliver(outbox, domain, async () => false);
      return Object.keys(left).length === 0;
    },
  };
  return {
    run: async (signal) => {
      await Promise.all([
        monitor.run(signal),
        watchClock(watched, signal),
        watchDisk(watchedDisk, signal),
      ]);
    },
  };
}
