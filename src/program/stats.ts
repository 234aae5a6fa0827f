import type { Logger } from 'pino';
import { limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { createStatsRecorder, type StatsRecorder } from '../stats/recorder.ts';
import type { Store } from '../store/port/store.ts';

/** Creates the recorder of the settings. `writer` is a unique name of this process. */
export function createServiceStats(
  store: Store,
  { clock, log, writer }: { readonly clock: Clock; readonly log: Logger; readonly writer: string },
): StatsRecorder {
  return createStatsRecorder({
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
