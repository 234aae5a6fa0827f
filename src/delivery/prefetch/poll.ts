import type { Clock, Timer } from '../../core/clock.ts';
import { sleep } from '../../core/sleep.ts';
import type { DueTimer } from './due-timer.ts';
import type { Prefetch } from './prefetch.ts';
import { createHeads, type HeadsDeps } from './heads.ts';
import type { Ownership } from '../ownership.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Replays } from '../replays.ts';
import type { Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';

/**
 * Polls needed to refresh every stream once. With very many streams a round takes more: at most
 * `streamsPerPoll.max` are refreshed per poll, so that an idle node stays idle.
 */
const pollsPerRound = 60;
const streamsPerPoll = { min: 16, max: 256 };
/** Cursors in one transaction: a few milliseconds, for which SQLite holds the event loop. */
const cursorsMax = 256;

/** Checks periodically for changes, as hints may be lost. */
export interface Poll {
  start(): void;
  /** Drops all tails and continues each at the head of its log in the store. */
  dropTails(): Promise<void>;
  close(): void;
}

export interface PollDeps extends Pick<HeadsDeps, 'log'> {
  readonly clock: Clock;
  readonly storeRetry: StoreRetry;
  readonly ownership: Pick<Ownership, 'runners' | 'tails' | 'claim' | 'refresh' | 'raiseCursors'>;
  readonly prefetch: Pick<Prefetch, 'skipped' | 'reached' | 'takeReaders' | 'age'>;
  readonly dueTimer: Pick<DueTimer, 'check'>;
  readonly replays: Pick<Replays, 'enqueueAll'>;
  readonly settings: Pick<DeliverySettings, 'pollMs' | 'lagOffsetsMax' | 'lagMs'>;
}

/** Creates the poll: the only timer of a node whose streams are idle. */
export function createPoll(deps: PollDeps): Poll {
  const { clock, ownership, settings } = deps;
  const heads = createHeads(deps);
  let round: Iterator<Runner> = ownership.runners.values();
  let allRaisedMs = clock.elapsedMs();
  let timer: Timer | undefined;
  let closed = false;

  const plan = (): void => {
    if (!closed) timer = clock.after(settings.pollMs, () => void poll().then(plan));
  };
  const poll = async (): Promise<void> => {
    ownership.claim();
    deps.dueTimer.check();
    await heads.checkChanged();
    deps.prefetch.age();
    const passing = ageTails();
    refreshNext();
    deps.replays.enqueueAll();
    await raiseLagging(passing);
  };
  /** Returns the runners that may have passed events since the last poll without sending any. */
  const ageTails = (): Set<Runner> => {
    const passing = deps.prefetch.takeReaders();
    for (const tail of ownership.tails.values()) {
      if (!tail.age()) continue;
      for (const runner of tail.followers) passing.add(runner);
    }
    return passing;
  };
  const refreshNext = (): void => {
    const { size } = ownership.runners;
    const { min, max } = streamsPerPoll;
    const count = Math.min(size, max, Math.max(min, Math.ceil(size / pollsPerRound)));
    for (let refreshed = 0; refreshed < count; refreshed += 1) {
      let next = round.next();
      if (next.done === true) {
        round = ownership.runners.values();
        next = round.next();
      }
      if (next.done !== true) ownership.refresh(next.value);
    }
  };
  /** Writes cursors that no settlement raises, as no event matched; each as rarely as possible. */
  const raiseLagging = async (passing: Iterable<Runner>): Promise<void> => {
    const isTime = clock.elapsedMs() - allRaisedMs >= settings.lagMs;
    const least = isTime ? 1 : settings.lagOffsetsMax;
    const lagging: Runner[] = [];
    for (const runner of isTime ? ownership.runners.values() : passing) {
      if (lagOf(runner) >= least) lagging.push(runner);
    }
    if (isTime) allRaisedMs = clock.elapsedMs();
    for (let index = 0; index < lagging.length; index += cursorsMax) {
      await ownership.raiseCursors(lagging.slice(index, index + cursorsMax));
      await sleep(clock, 0);
    }
  };

  return {
    start: plan,
    dropTails: () => heads.skipToAll(),
    close: () => {
      closed = true;
      timer?.cancel();
    },
  };
}

/** Returns by how many offsets {@link Runner.cursorUpdate} would raise the cursor in the store. */
function lagOf(runner: Runner): number {
  return runner.unsettled === 0 ? runner.cursor() - runner.window.durable : 0;
}
