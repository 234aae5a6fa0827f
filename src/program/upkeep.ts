import type { Logger } from 'pino';
import type { SystemAlerts } from '../alerting/system-alerts.ts';
import { type Config, limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { dayMs } from '../core/units.ts';
import type { Store } from '../store/port/store.ts';
import { isSkewed } from '../store/port/time.ts';
import { createUpkeep } from '../upkeep/upkeep.ts';

export interface ServiceUpkeepDeps {
  readonly config: Config;
  /** The clock of the store. */
  readonly clock: Clock;
  readonly log: Logger;
  /** Names this process among those that do upkeep on the store. */
  readonly leader: string;
  readonly alerts: SystemAlerts;
}

/** Creates the upkeep of the settings, which pauses while the clock differs from the store's. */
export function createServiceUpkeep(
  store: Store,
  { config, clock, log, leader, alerts }: ServiceUpkeepDeps,
): ReturnType<typeof createUpkeep> {
  return createUpkeep({
    store,
    clock,
    alerts,
    leader,
    mayWork: () => !isSkewed(store.time.skewMs()),
    settings: {
      ...limits.upkeep,
      eventRetentionMs: config.eventRetentionDays * dayMs,
      attemptRetentionMs: config.attemptRetentionDays * dayMs,
      logRetentionMs: config.logRetentionDays * dayMs,
      lagMaxMs: config.lagMaxDays * dayMs,
    },
    log,
    report: (error, what) =>
      log.error({ err: error, what }, 'a step of upkeep failed; the next run continues'),
  });
}
