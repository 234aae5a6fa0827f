import type { Logger } from 'pino';
import { createWatchers, type Watchers } from '../changes/watchers.ts';
import { type Config, limits } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { Store } from '../store/port/store.ts';

export interface ServiceWatchersDeps {
  readonly config: Pick<Config, 'sseMaxConnections'>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Logger;
  /** Unique name of this process. */
  readonly node: string;
}

/** Creates the watchers of the settings; their connections are limited as pulls are. */
export function createServiceWatchers(
  store: Store,
  { config, ...deps }: ServiceWatchersDeps,
): Watchers {
  const settings = {
    ...limits.pull,
    ...limits.changes,
    connectionsMax: config.sseMaxConnections,
  };
  return createWatchers({ ...deps, store, settings });
}
