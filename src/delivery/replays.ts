import type { Clock } from '../core/clock.ts';
import { sleep } from '../core/sleep.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { LogStore } from '../store/port/log.ts';
import type {
  FilteredStretch,
  MaterializeResult,
  MaterializeRequest,
  ReplayStore,
  UnfilteredStretch,
} from '../store/port/replays.ts';
import { runFor } from './culprits.ts';
import { FairQueue, type Offer } from './fair-queue.ts';
import { type EventFilters, filteredPage } from './prefetch/event-filters.ts';
import type { DeliveryReport } from './report.ts';
import type { StoreRetry } from './store-retry.ts';
import type { Scheduler } from './scheduler.ts';
import type { DueTimer } from './prefetch/due-timer.ts';
import type { Runner, RunnerLimits } from './runner.ts';

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
  readonly log: Pick<LogStore, 'page'>;
  readonly filters: Pick<EventFilters, 'select'>;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly settings: RunnerLimits;
  readonly scheduler: Pick<Scheduler, 'dispatch' | 'hasSpare'>;
  readonly dueTimer: Pick<DueTimer, 'note'>;
  /** Another node owns the stream, as the store reports. */
  readonly refresh: (runner: Runner) => void;
  /** The store refuses to make rows for the runner, with this code. */
  readonly abandon: (runner: Runner, code: string) => void;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link Replays}. */
export function createReplays(deps: ReplayDeps): Replays {
  return new FairReplays(deps);
}

/**
 * Asks the store to materialize as many events of a replay as could be sent at once: they become rows,
 * which are claimed like retries. It asks again whenever outcomes of the stream were settled or the
 * stream was refreshed, so there is no polling; a long stretch without a match takes several steps.
 *
 * One stream is served at a time, in turns, so that the outcomes of others wait for one step at most;
 * none is served while the slots of the node are needed.
 */
class FairReplays implements Replays {
  readonly #deps: ReplayDeps;
  readonly #waiting = new FairQueue<Runner>();
  /** Runners that had a replay when they were last enqueued. */
  readonly #replaying = new Set<Runner>();
  #isMaterializing = false;
  #isClosed = false;

  constructor(deps: ReplayDeps) {
    this.#deps = deps;
  }

  get isBusy(): boolean {
    return this.#isMaterializing || this.#waiting.length > 0;
  }

  enqueue(runner: Runner): void {
    if (runner.replay === undefined || runner.state === 'gone') this.#replaying.delete(runner);
    else this.#replaying.add(runner);
    const hasFreeSlots = runner.freeReplaySlots(this.#deps.settings) > 0;
    if (!this.#isClosed && !runner.isMaterializing && hasFreeSlots) {
      runner.isMaterializing = true;
      this.#waiting.push(runner.tenant, runner);
    }
    this.pump();
  }

  enqueueAll(): void {
    for (const runner of this.#replaying) this.enqueue(runner);
  }

  pump(): void {
    if (this.#isClosed || this.#isMaterializing) return;
    this.#waiting.renew();
    this.#waiting.offerNext((runner) => this.#offer(runner), offersAtOnce);
  }

  close(): void {
    this.#isClosed = true;
    for (const runner of this.#waiting.clear()) runner.isMaterializing = false;
  }

  /** A quarter of a tenant's slots stays free for fresh events, as does a quarter of each stream's. */
  #offer(runner: Runner): Offer {
    if (!this.#deps.scheduler.hasSpare(runner)) return 'refused';
    this.#isMaterializing = true;
    void this.#continue(runner);
    return 'taken';
  }

  async #continue(runner: Runner): Promise<void> {
    const { clock, serialQueue, scheduler } = this.#deps;
    let step = await serialQueue(() => this.#materialize(runner));
    if (step.unfiltered !== undefined) {
      // Outside of the queue: settlements do not wait for filters.
      const filtered = await this.#filter(runner, step.unfiltered);
      step = await serialQueue(() => this.#materialize(runner, filtered));
    }
    runner.isMaterializing = false;
    // A filter that changed meanwhile needs another try.
    if (step.more || step.unfiltered !== undefined) this.enqueue(runner);
    // Lets other work of the process run: an engine may be synchronous.
    await sleep(clock, 0);
    this.#isMaterializing = false;
    scheduler.dispatch();
  }

  /** Reads and filters as much of a stretch as can be sent at once. */
  async #filter(
    runner: Runner,
    { after, upTo, types, filter: text }: UnfilteredStretch,
  ): Promise<FilteredStretch> {
    const { log, storeRetry, filters, settings } = this.#deps;
    const filter = runner.filterOf(text);
    const query = { after, upTo, types, ...filteredPage };
    const page = await storeRetry.run(() => log.page(runner.tenant, query));
    const eventsMax = Math.max(1, runner.freeReplaySlots(settings));
    const isOver = (): boolean => this.#isClosed || runner.state === 'gone';
    const selected = filter && (await filters.select({ filter, eventsMax, isOver }, page));
    const { events, scannedTo } = selected ?? page;
    const offsets = events.map(({ offset }) => offset);
    return { after, upTo: scannedTo, types, filter: text, offsets };
  }

  /** Makes rows for the replay of a runner. */
  async #materialize(
    runner: Runner,
    filtered?: FilteredStretch,
  ): Promise<Pick<MaterializeResult, 'more' | 'unfiltered'>> {
    const { settings, store, scheduler, dueTimer } = this.#deps;
    const { replay } = runner;
    const take = runner.freeReplaySlots(settings);
    if (this.#isClosed || take <= 0 || replay === undefined) return { more: false };
    const waitingMax = runner.replayWaitingMax(settings);
    const request: MaterializeRequest = {
      ...runner.cursorUpdate(),
      replay,
      take,
      waitingMax,
      filtered,
    };
    let tries = 0;
    const result = await runFor(this.#deps, runner, () => {
      tries += 1;
      return store.materialize(request);
    });
    if (result === undefined) return { more: false };
    if (runner.state !== 'gone') this.#apply(runner, request, result);
    // A try before may have succeeded and its result have been lost: its rows exist.
    if (result.materialized > 0 || tries > 1) dueTimer.note(runner, 0);
    scheduler.dispatch();
    return result;
  }

  #apply(runner: Runner, request: MaterializeRequest, result: MaterializeResult): void {
    runner.window.commit(Math.min(request.cursor, result.cursor));
    runner.replayRows += result.materialized;
    if (result.materialized > 0) runner.outage?.eventTaken();
    if (result.result === 'lost') this.#deps.refresh(runner);
    if (result.result === 'over' && runner.replay === request.replay) runner.replay = undefined;
  }
}
