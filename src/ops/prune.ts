import type { Clock, Millis } from '../core/clock.ts';
import type { Store } from '../store/port.ts';
import { pause } from './pause.ts';

export interface PruneSettings {
  /**
   * Events published longer ago leave the log, once every enabled stream has passed them; replays
   * that were over longer ago are forgotten.
   */
  readonly eventRetentionMs: number;
  /** Attempts of delivered events made longer ago are forgotten, day by day. */
  readonly attemptRetentionMs: number;
  /** From the end of one look to the next. */
  readonly everyMs: number;
  /** Rows removed by one command, so that other work never waits long. */
  readonly take: number;
}

export interface PruneDeps {
  readonly store: {
    readonly tenants: Pick<Store['tenants'], 'list'>;
    readonly log: Pick<Store['log'], 'prune'>;
    readonly deliveries: Pick<Store['deliveries'], 'pruneAttempts'>;
    readonly replays: Pick<Store['replays'], 'prune'>;
  };
  readonly clock: Clock;
  readonly settings: PruneSettings;
  /** Hears why a look was cut short; the next one goes on. */
  readonly report: (error: unknown) => void;
}

/** Keeps the log and the history within their retention. */
export interface Pruner {
  /** Looks at once and then from time to time, until aborted. Ends after the command under way. */
  run(signal: AbortSignal): Promise<void>;
}

export function createPruner({ store, clock, settings, report }: PruneDeps): Pruner {
  /** Removes in small commands and lets other work run between them. */
  const removeAll = async (
    signal: AbortSignal,
    prune: (take: number) => Promise<number>,
  ): Promise<void> => {
    while (!signal.aborted) {
      if ((await prune(settings.take)) < settings.take) return;
      await pause(clock, 1, signal);
    }
  };
  const look = async (signal: AbortSignal): Promise<void> => {
    for (const { id } of await store.tenants.list()) {
      const eventsBefore = clock.now() - settings.eventRetentionMs;
      const attemptsBefore = startOfDay(clock.now() - settings.attemptRetentionMs);
      await removeAll(signal, (take) => store.log.prune(id, { before: eventsBefore, take }));
      await removeAll(signal, (take) =>
        store.deliveries.pruneAttempts(id, { before: attemptsBefore, take }),
      );
      // The record of a replay is kept as long as the events that it sent.
      await removeAll(signal, (take) => store.replays.prune(id, { before: eventsBefore, take }));
    }
  };
  return {
    run: async (signal) => {
      while (!signal.aborted) {
        await look(signal).catch(report);
        await pause(clock, settings.everyMs, signal);
      }
    },
  };
}

/** Whole days (UTC) go at once where the engine keeps them apart. */
function startOfDay(at: Millis): Millis {
  return at - (at % 86_400_000);
}
