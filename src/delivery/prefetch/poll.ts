import type { Clock, Timer } from '../../core/clock.ts';
import type { DueTimer } from './due-timer.ts';
import type { Prefetch } from './prefetch.ts';
import { createHeads, type HeadsDeps } from './heads.ts';
import type { Ownership } from '../ownership.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Replays } from '../replays.ts';
import type { Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';

/**
 * Looks until every stream was read again; few streams are read again at each. More than the most
 * would keep a node busy that has nothing to do: with very many streams a round takes longer.
 */
const pollsPerRound = 60;
const streamsPerPoll = { min: 16, max: 256 };
/** Cursors in one statement. */
const cursorsMax = 1000;

/** What a node does by itself from time to time, because wake-ups may get lost. */
export interface Poll {
  start(): void;
  /** Goes on after every tail where the store says that the log ends. */
  dropTails(): Promise<void>;
  close(): void;
}

export interface PollDeps extends Pick<HeadsDeps, 'log'> {
  readonly clock: Clock;
  readonly storeRetry: StoreRetry;
  readonly ownership: Pick<Ownership, 'runners' | 'tails' | 'claim' | 'refresh' | 'raise'>;
  readonly prefetch: Pick<Prefetch, 'skipped' | 'reached' | 'takeReaders'>;
  readonly due: Pick<DueTimer, 'check'>;
  readonly replays: Pick<Replays, 'enqueueAll'>;
  readonly settings: Pick<DeliverySettings, 'pollMs' | 'lagOffsetsMax' | 'lagMs'>;
}

/** The one timer of a node whose streams are idle. */
export function createPoll(deps: PollDeps): Poll {
  const { clock, ownership, settings } = deps;
  const heads = createHeads(deps);
  let round: Iterator<Runner> = ownership.runners.values();
  let raisedMs = clock.elapsedMs();
  let timer: Timer | undefined;
  let closed = false;

  const plan = (): void => {
    if (!closed) timer = clock.after(settings.pollMs, () => void poll().then(plan));
  };
  const poll = async (): Promise<void> => {
    ownership.claim();
    deps.due.check();
    await heads.checkChanged();
    const passing = ageTails();
    lookAtNext();
    deps.replays.enqueueAll();
    await raiseLagging(passing);
  };
  /** Returns the runners that may have passed events since the last time without sending any. */
  const ageTails = (): Set<Runner> => {
    const passing = deps.prefetch.takeReaders();
    for (const tail of ownership.tails.values()) {
      if (!tail.age()) continue;
      for (const runner of tail.followers) passing.add(runner);
    }
    return passing;
  };
  const lookAtNext = (): void => {
    const { size } = ownership.runners;
    const { min, max } = streamsPerPoll;
    const count = Math.min(size, max, Math.max(min, Math.ceil(size / pollsPerRound)));
    for (let looked = 0; looked < count; looked += 1) {
      let next = round.next();
      if (next.done === true) {
        round = ownership.runners.values();
        next = round.next();
      }
      if (next.done !== true) ownership.refresh(next.value);
    }
  };
  /** Cursors that no settle raises, as nothing matched: each as seldom as can be. */
  const raiseLagging = async (passing: Iterable<Runner>): Promise<void> => {
    const isTime = clock.elapsedMs() - raisedMs >= settings.lagMs;
    const least = isTime ? 1 : settings.lagOffsetsMax;
    const lagging: Runner[] = [];
    for (const runner of isTime ? ownership.runners.values() : passing) {
      if (lagOf(runner) >= least) lagging.push(runner);
    }
    if (isTime) raisedMs = clock.elapsedMs();
    for (let index = 0; index < lagging.length; index += cursorsMax) {
      await ownership.raise(lagging.slice(index, index + cursorsMax));
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

/** Returns how many offsets a write would raise the cursor in the store by, as {@link Runner.cursorUpdate} says. */
function lagOf(runner: Runner): number {
  return runner.unsettled === 0 ? runner.cursor() - runner.window.durable : 0;
}
