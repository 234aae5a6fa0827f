import type { Clock } from '../core/clock.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { MaterializeResult, MaterializeRequest, ReplayStore } from '../store/port/replays.ts';
import { FairQueue, type Offer } from './fair-queue.ts';
import type { StoreRetry } from './store-retry.ts';
import type { Scheduler } from './scheduler.ts';
import type { PaceLimits } from './pace.ts';
import { replaySlots, type Runner } from './runner.ts';

/** Streams without room for a replay are passed over, so many at a time. */
const offersAtOnce = 8;

/** Goes on with replays, where streams have slots that nothing else needs. */
export interface Replays {
  /** Whether the store is being asked, or will be. */
  readonly isBusy: boolean;
  /** The runner may have room for events of its replay. */
  enqueue(runner: Runner): void;
  /** The same for each runner that has a replay. */
  enqueueAll(): void;
  /** The node may have room for events of replays; the scheduler says so whenever it pumps. */
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
  /** The runner has rows that are due after so long. */
  readonly note: (runner: Runner, inMs: number) => void;
  /** The store says that the stream is another node's. */
  readonly lost: (runner: Runner) => void;
}

/**
 * Asks the store for as many events as could be sent at once: they become rows, which are claimed
 * as retries are. Asked anew whenever something of the stream was settled or read again, so nothing
 * goes round while there is nothing to do, and one look at a long stretch without a match leads to
 * the next. Of however many streams one is asked for at a time, in turns, so that the results of all
 * others never wait for more than one look; and none while the slots of the node are wanted.
 */
export function createReplays(deps: ReplayDeps): Replays {
  const { clock, serialQueue, storeRetry, settings, store, scheduler } = deps;
  const waiting = new FairQueue<Runner>();
  /** Those that had a replay when they were told of last. */
  const replaying = new Set<Runner>();
  let isAsking = false;
  let closed = false;

  const enqueue = (runner: Runner): void => {
    note(replaying, runner);
    if (!closed && !runner.feeding && runner.replayRoom(settings) > 0) {
      runner.feeding = true;
      waiting.push(runner.tenant, runner);
    }
    pump();
  };
  /** A quarter of a tenant's slots is left to what is fresh, as it is of each stream's. */
  const offer = (runner: Runner): Offer => {
    if (!scheduler.hasSpare(runner)) return 'refused';
    isAsking = true;
    void feedNext(runner);
    return 'taken';
  };
  const pump = (): void => {
    if (closed || isAsking) return;
    waiting.renew();
    waiting.offerNext(offer, offersAtOnce);
  };
  const feedNext = async (runner: Runner): Promise<void> => {
    const more = await serialQueue(() => feed(runner));
    runner.feeding = false;
    if (more) enqueue(runner);
    // Others of the process have their turn: an engine may be synchronous.
    clock.after(0, () => {
      isAsking = false;
      scheduler.dispatch();
    });
  };
  /** Answers whether a further look may find more at once. */
  const feed = async (runner: Runner): Promise<boolean> => {
    const { replay } = runner;
    const take = runner.replayRoom(settings);
    if (closed || take <= 0 || replay === undefined) return false;
    const waitingMax = replaySlots(runner.pace.slots(settings));
    const ask: MaterializeRequest = { ...runner.cursorUpdate(), replay, take, waitingMax };
    let tries = 0;
    const answer = await storeRetry.run(() => {
      tries += 1;
      return store.materialize(ask);
    });
    if (runner.state !== 'gone') hear(runner, ask, answer);
    // The answer to a try that went through may have been lost: its rows are there.
    if (answer.materialized > 0 || tries > 1) deps.note(runner, 0);
    scheduler.dispatch();
    return answer.more;
  };
  const hear = (runner: Runner, ask: MaterializeRequest, answer: MaterializeResult): void => {
    runner.window.commit(Math.min(ask.cursor, answer.cursor));
    if (answer.result === 'lost') deps.lost(runner);
    if (answer.result === 'over' && runner.replay === ask.replay) runner.replay = undefined;
  };

  return {
    get isBusy() {
      return isAsking || waiting.length > 0;
    },
    enqueue,
    enqueueAll: () => replaying.forEach(enqueue),
    pump,
    close: () => {
      closed = true;
      for (const runner of waiting.clear()) runner.feeding = false;
    },
  };
}

/** Keeps those in `replaying` that have a replay. */
function note(replaying: Set<Runner>, runner: Runner): void {
  if (runner.replay === undefined || runner.state === 'gone') replaying.delete(runner);
  else replaying.add(runner);
}
