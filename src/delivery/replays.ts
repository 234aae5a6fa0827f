import type { Clock } from '../core/clock.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { MaterializeResult, MaterializeRequest, ReplayStore } from '../store/port/replays.ts';
import { FairQueue, type Offer } from './fair-queue.ts';
import type { StoreRetry } from './store-retry.ts';
import type { Scheduler } from './scheduler.ts';
import type { PaceLimits } from './pace.ts';
import { replaySlots, type Runner } from './runner.ts';

/** Streams without free slots that are skipped per call. */
const offersAtOnce = 8;

/** Continues replays in slots that no other work needs. */
export interface Replays {
  /** Whether the store is making rows, or is about to. */
  readonly isBusy: boolean;
  /** Adds a runner that may have free slots for its replay. */
  enqueue(runner: Runner): void;
  /** The same for each runner that has a replay. */
  enqueueAll(): void;
  /** Starts the next runner if slots are free; called after each dispatch. */
  pump(): void;
  close(): void;
}

export interface ReplayDeps {
  readonly store: Pick<ReplayStore, 'materialize'>;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly settings: PaceLimits;
  readonly scheduler: Pick<Scheduler, 'dispatch' | 'hasSpare'>;
  /** The runner has rows that are due in `inMs`. */
  readonly note: (runner: Runner, inMs: number) => void;
  /** Another node owns the stream, as the store reports. */
  readonly lost: (runner: Runner) => void;
}

/**
 * Creates the part that asks the store to materialize as many events of a replay as could be sent
 * at once: they become rows, which are claimed like retries. It asks again whenever outcomes of the
 * stream were settled or the stream was refreshed, so there is no polling; a long stretch without a
 * match takes several steps. One stream is served at a time, in turns, so that the outcomes of
 * others wait for one step at most; none is served while the slots of the node are needed.
 */
export function createReplays(deps: ReplayDeps): Replays {
  const { clock, serialQueue, storeRetry, settings, store, scheduler } = deps;
  const waiting = new FairQueue<Runner>();
  /** Runners that had a replay when they were last enqueued. */
  const replaying = new Set<Runner>();
  let isMaterializing = false;
  let closed = false;

  const enqueue = (runner: Runner): void => {
    note(replaying, runner);
    if (!closed && !runner.isMaterializing && runner.freeReplaySlots(settings) > 0) {
      runner.isMaterializing = true;
      waiting.push(runner.tenant, runner);
    }
    pump();
  };
  /**
   * A quarter of a tenant's slots stays free for fresh events, as does a quarter of each stream's.
   */
  const offer = (runner: Runner): Offer => {
    if (!scheduler.hasSpare(runner)) return 'refused';
    isMaterializing = true;
    void continueNext(runner);
    return 'taken';
  };
  const pump = (): void => {
    if (closed || isMaterializing) return;
    waiting.renew();
    waiting.offerNext(offer, offersAtOnce);
  };
  const continueNext = async (runner: Runner): Promise<void> => {
    const more = await serialQueue(() => materialize(runner));
    runner.isMaterializing = false;
    if (more) enqueue(runner);
    // Lets other work of the process run: an engine may be synchronous.
    clock.after(0, () => {
      isMaterializing = false;
      scheduler.dispatch();
    });
  };
  /**
   * Makes rows for the replay of a runner; returns whether a further step may find more at once.
   */
  const materialize = async (runner: Runner): Promise<boolean> => {
    const { replay } = runner;
    const take = runner.freeReplaySlots(settings);
    if (closed || take <= 0 || replay === undefined) return false;
    const waitingMax = replaySlots(runner.pace.slots(settings));
    const request: MaterializeRequest = { ...runner.cursorUpdate(), replay, take, waitingMax };
    let tries = 0;
    const result = await storeRetry.run(() => {
      tries += 1;
      return store.materialize(request);
    });
    if (runner.state !== 'gone') apply(runner, request, result);
    // A try before may have succeeded and its result have been lost: its rows exist.
    if (result.materialized > 0 || tries > 1) deps.note(runner, 0);
    scheduler.dispatch();
    return result.more;
  };
  const apply = (runner: Runner, request: MaterializeRequest, result: MaterializeResult): void => {
    runner.window.commit(Math.min(request.cursor, result.cursor));
    if (result.result === 'lost') deps.lost(runner);
    if (result.result === 'over' && runner.replay === request.replay) runner.replay = undefined;
  };

  return {
    get isBusy() {
      return isMaterializing || waiting.length > 0;
    },
    enqueue,
    enqueueAll: () => replaying.forEach(enqueue),
    pump,
    close: () => {
      closed = true;
      for (const runner of waiting.clear()) runner.isMaterializing = false;
    },
  };
}

/** Adds the runner to `replaying`, or removes it, by whether it has a replay. */
function note(replaying: Set<Runner>, runner: Runner): void {
  if (runner.replay === undefined || runner.state === 'gone') replaying.delete(runner);
  else replaying.add(runner);
}
