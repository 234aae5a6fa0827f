import type { Logger } from 'pino';
import { limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { StatsRecorder } from '../stats/recorder.ts';
import type { Store } from '../store/port/store.ts';

export interface ServiceStatsDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Unique name of this process. */
  readonly writer: string;
}

/** Creates the recorder of the settings. */
export function createServiceStats(
  store: Store,
  { clock, log, writer }: ServiceStatsDeps,
): StatsRecorder {
  return new StatsRecorder({
    store: store.deliveryStats,
    eventTypes: store.eventTypes,
    clock,
    time: store.time,
    settings: limits.stats,
    writer,
    onError: (error) =>
      log.error(
        { err: error },
        'the statistics could not be written; the next write includes them',
      ),
  });
}
