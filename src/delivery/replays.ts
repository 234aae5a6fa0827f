import type { Clock, Millis } from '../core/clock.ts';
import type { FeedAnswer, FeedAsk, ReplayStore } from '../store/port-replays.ts';
import type { Lane, Patience } from './patience.ts';
import type { Rota } from './rota.ts';
import { replaySlots, type Runner, type RunnerLimits } from './runner.ts';

/** Goes on with replays, where streams have slots that nothing else needs. */
export interface Replays {
  /** Whether the store is being asked, or will be. */
  readonly isBusy: boolean;
  /** The runner may have room for events of its replay. */
  tell(runner: Runner): void;
  close(): void;
}

export interface ReplayDeps {
  readonly store: Pick<ReplayStore, 'feed'>;
  readonly clock: Clock;
  readonly lane: Lane;
  readonly patience: Patience;
  readonly settings: Pick<RunnerLimits, 'streamConcurrency'>;
  readonly rota: Pick<Rota, 'pump'>;
  /** The runner has rows that are due then. */
  readonly note: (runner: Runner, dueAt: Millis) => void;
  /** The store says that the stream is another node's. */
  readonly lost: (runner: Runner) => void;
}

/**
 * Asks the store for as many events as could be sent at once: they become rows, which are claimed
 * as retries are. Asked anew whenever something of the stream was settled or read again, so nothing
 * goes round while there is nothing to do, and one look at a long stretch without a match leads to
 * the next.
 */
export function createReplays(deps: ReplayDeps): Replays {
  const { clock, lane, patience, settings, store } = deps;
  let asking = 0;
  let closed = false;

  const tell = (runner: Runner): void => {
    if (closed || runner.feeding || runner.replayRoom(settings) <= 0) return;
    runner.feeding = true;
    asking += 1;
    void feedNext(runner);
  };
  const feedNext = async (runner: Runner): Promise<void> => {
    const more = await lane(() => feed(runner));
    // Others of the process have their turn: an engine may be synchronous.
    if (more) clock.after(0, () => end(runner, true));
    else end(runner, false);
  };
  const end = (runner: Runner, more: boolean): void => {
    runner.feeding = false;
    asking -= 1;
    if (more) tell(runner);
    deps.rota.pump();
  };
  /** Answers whether a further look may find more at once. */
  const feed = async (runner: Runner): Promise<boolean> => {
    const { replay } = runner;
    const take = runner.replayRoom(settings);
    if (closed || take <= 0 || replay === undefined) return false;
    const waitingMax = replaySlots(settings.streamConcurrency);
    const ask: FeedAsk = { ...runner.raise(), replay, take, waitingMax };
    let tries = 0;
    const answer = await patience.keepTrying(() => {
      tries += 1;
      return store.feed(ask, clock.now());
    });
    if (runner.state !== 'gone') hear(runner, ask, answer);
    // The answer to a try that went through may have been lost: its rows are there.
    if (answer.fed > 0 || tries > 1) deps.note(runner, clock.now());
    return answer.more;
  };
  const hear = (runner: Runner, ask: FeedAsk, answer: FeedAnswer): void => {
    runner.window.commit(Math.min(ask.cursor, answer.cursor));
    if (answer.result === 'lost') deps.lost(runner);
    if (answer.result === 'over' && runner.replay === ask.replay) runner.replay = undefined;
  };

  return {
    get isBusy() {
      return asking > 0;
    },
    tell,
    close: () => {
      closed = true;
    },
  };
}
