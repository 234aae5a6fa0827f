import type { Clock, Timer } from '../core/clock.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { DeliveryStore } from '../store/port/deliveries.ts';
import type { Outcome } from '../store/port/settlement.ts';
import { isDown, type Outage } from './outage.ts';
import type { DueTimer } from './prefetch/due-timer.ts';
import type { DeliveryReport } from './report.ts';
import { runFor } from './culprits.ts';
import type { Runner, RunnerLimits } from './runner.ts';
import type { Scheduler } from './scheduler.ts';
import type { DeliverySettings } from './settings.ts';
import type { StoreRetry } from './store-retry.ts';

/**
 * Retries that become due at once when a receiver is back. The next step follows when these were sent
 * and one of them succeeded: a receiver that is overloaded does not use up the schedules of all.
 */
const releaseMax = 256;

/**
 * Acts on the outages of streams with a schedule of their own: while a receiver is down one delivery is
 * tried once a minute, and after a success all that wait become due.
 */
export interface Outages {
  /** Whether a command to the store is under way. */
  readonly isBusy: boolean;
  /** Counts what waits for a runner that has read its stream, if it was not counted yet. */
  read(runner: Runner): void;
  /** Notes an outcome of the runner; `isTrial` if its attempt came before its time. */
  ended(runner: Runner, outcome: Outcome, isTrial: boolean): void;
  /** Tries nothing more for the runner. */
  forget(runner: Runner): void;
  /** Cancels the timer. */
  close(): void;
}

export interface OutageDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly settings: RunnerLimits & Pick<DeliverySettings, 'trialMs'>;
  readonly deliveries: Pick<DeliveryStore, 'bringForward' | 'releaseWaiting'>;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: Pick<StoreRetry, 'runRefusable'>;
  readonly dueTimer: Pick<DueTimer, 'note'>;
  readonly scheduler: Pick<Scheduler, 'dispatch'>;
  /** The next event of the runner, else one of its replay, may be tried. */
  readonly ended: (runner: Runner) => void;
  /** The store refuses to make a delivery of the runner due, with this code. */
  readonly abandon: (runner: Runner, code: string) => void;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link Outages}. */
export function createOutages(deps: OutageDeps): Outages {
  return new TimedOutages(deps);
}

/** One timer for all runners; none is set while every receiver is up. */
class TimedOutages implements Outages {
  readonly #deps: OutageDeps;
  /** When the next trial of each runner is, by the monotonic clock; the earliest first. */
  readonly #trials = new Map<Runner, number>();
  #timer: Timer | undefined;
  /** Commands to the store that are queued or under way. */
  #pending = 0;
  #isClosed = false;

  constructor(deps: OutageDeps) {
    this.#deps = deps;
  }

  get isBusy(): boolean {
    return this.#pending > 0;
  }

  read(runner: Runner): void {
    const { outage } = runner;
    const { settings } = this.#deps;
    if (!outage?.isUncounted) return;
    outage.count(runner.waiting, settings.disable, runner.slots(settings));
    if (outage.state === 'suspected') this.#plan(runner);
  }

  ended(runner: Runner, outcome: Outcome, isTrial: boolean): void {
    const { outage } = runner;
    if (outage === undefined) return;
    const { settings } = this.#deps;
    outage.ended(outcome, isTrial);
    if (outcome.result === 'delivered' && outage.state !== 'up')
      return this.#succeeded(runner, outage);
    const undelivered = outage.undelivered(runner.waiting);
    if (isDown(undelivered, settings.disable, runner.slots(settings))) this.#stop(runner, outage);
    else if (outage.state === 'releasing') this.#goOn(runner, outage);
  }

  forget(runner: Runner): void {
    this.#trials.delete(runner);
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #stop(runner: Runner, outage: Outage): void {
    if (outage.state === 'down') return;
    outage.state = 'down';
    if (!outage.isReported) this.#report(runner, 'receiver_down');
    outage.isReported = true;
    this.#plan(runner);
  }

  /** Runs a command in the serial queue: no settlement is on its way to the store meanwhile. */
  async #enqueue(command: () => Promise<void>): Promise<void> {
    this.#pending += 1;
    await this.#deps.serialQueue(command);
    this.#pending -= 1;
  }

  #report({ tenant, id: stream }: Runner, kind: 'receiver_down' | 'receiver_up'): void {
    this.#deps.report({ kind, tenant, stream });
  }

  // Trials

  #plan(runner: Runner): void {
    this.#trials.delete(runner);
    const { clock, settings } = this.#deps;
    this.#trials.set(runner, clock.elapsedMs() + settings.trialMs);
    this.#setTimer();
  }

  #setTimer(): void {
    const [first] = this.#trials.values();
    if (this.#timer !== undefined || first === undefined || this.#isClosed) return;
    const { clock } = this.#deps;
    this.#timer = clock.after(Math.max(0, first - clock.elapsedMs()), () => {
      this.#timer = undefined;
      this.#tryDue();
      this.#setTimer();
    });
  }

  #tryDue(): void {
    const nowMs = this.#deps.clock.elapsedMs();
    for (const [runner, atMs] of this.#trials) {
      // A runner that is planned again is among the last.
      if (atMs > nowMs) return;
      this.#trials.delete(runner);
      const { outage } = runner;
      if (outage === undefined || outage.state === 'up') continue;
      this.#plan(runner);
      if (outage.state === 'releasing') this.#goOn(runner, outage);
      else if (mayTry(runner, outage)) void this.#try(runner, outage);
    }
  }

  /**
   * Makes the next delivery due that waits, after the one that was tried before: an event that always
   * fails does not hide that the receiver is back. After the last one the next event is tried.
   */
  async #try(runner: Runner, outage: Outage): Promise<void> {
    const { clock, scheduler } = this.#deps;
    await this.#enqueue(async () => {
      if (!mayTry(runner, outage)) return;
      outage.trial = undefined;
      outage.mayTryEvent = false;
      const mayTryEvent = this.#mayTryEvent(runner, outage);
      let found = await this.#bringForward(runner, outage.triedTo);
      const mayTryFirst = runner.state !== 'gone' && (runner.queue.length === 0 || !mayTryEvent);
      if (found === undefined && mayTryFirst) found = await this.#bringForward(runner, 0);
      if (runner.state === 'gone') return;
      outage.triedTo = found?.offset ?? 0;
      if (found === undefined) {
        outage.mayTryEvent = mayTryEvent;
        return this.#deps.ended(runner);
      }
      const { eventId, waitMs } = found;
      outage.trial = { eventId, dueMs: clock.elapsedMs() + waitMs };
    });
    scheduler.dispatch();
  }

  #bringForward(runner: Runner, after: number) {
    const { tenant, id: stream, epoch } = runner;
    const { deliveries } = this.#deps;
    return this.#makeDue(
      runner,
      () => deliveries.bringForward({ tenant, stream, epoch, after }),
      (found) => found !== undefined,
    );
  }

  /** Runs a command that makes deliveries due, and has them claimed; see {@link runFor}. */
  async #makeDue<R>(
    runner: Runner,
    command: () => Promise<R>,
    madeAny: (result: R) => boolean,
  ): Promise<R | undefined> {
    let tries = 0;
    const result = await runFor(this.#deps, runner, () => {
      tries += 1;
      return command();
    });
    if (runner.state === 'gone') return undefined;
    // A try before may have succeeded and its result have been lost.
    if (tries > 1 || (result !== undefined && madeAny(result))) this.#deps.dueTimer.note(runner, 0);
    return result;
  }

  /** Returns whether an event may be tried: while others wait, it must not bring the stream to its limit. */
  #mayTryEvent(runner: Runner, outage: Outage): boolean {
    const { waiting, open } = outage.undelivered(runner.waiting);
    return waiting === 0 || waiting + open + 1 < this.#deps.settings.disable.total;
  }

  // Releasing

  #succeeded(runner: Runner, outage: Outage): void {
    if (outage.state === 'releasing') return this.#goOn(runner, outage);
    if (outage.isReported) this.#report(runner, 'receiver_up');
    outage.isReported = false;
    outage.beginRelease();
    this.#plan(runner);
    // A step of a release that was given up is still on its way: the next one follows it.
    if (!outage.isStepping) void this.#release(runner, outage);
  }

  /**
   * Continues when the deliveries of the last step have been claimed. While the stream is paused they are
   * not, so that none succeeds says nothing about the receiver.
   */
  #goOn(runner: Runner, outage: Outage): void {
    if (outage.isStepping || runner.dueWaits || !runner.sends) return;
    if (outage.hasSucceeded) {
      if (outage.releaseRange !== undefined) return void this.#release(runner, outage);
      outage.endRelease();
      this.forget(runner);
    } else if (runner.dueInFlight === 0 && outage.isRefuted) {
      this.#stop(runner, outage);
    }
  }

  async #release(runner: Runner, outage: Outage): Promise<void> {
    const { deliveries, scheduler } = this.#deps;
    const range = outage.releaseRange;
    if (range === undefined) return;
    outage.beginStep();
    const { tenant, id: stream, epoch } = runner;
    const request = { tenant, stream, epoch, ...range, take: releaseMax };
    await this.#enqueue(async () => {
      if (runner.state === 'gone') return;
      const step = await this.#makeDue(
        runner,
        () => deliveries.releaseWaiting(request),
        ({ due: rows }) => rows > 0,
      );
      if (step === undefined) return;
      const { due, upTo } = step;
      outage.released(upTo);
      // Nothing was sent, so nothing more has to succeed.
      outage.hasSucceeded ||= due === 0;
    });
    outage.isStepping = false;
    if (outage.state === 'releasing' && runner.state !== 'gone') this.#goOn(runner, outage);
    scheduler.dispatch();
  }
}

/**
 * Returns whether a trial may begin; none does while the last one waits for a slot. One whose delivery
 * is gone, as after the end of its replay, does not. An event that none came for does not either:
 * another delivery may have begun to wait.
 */
function mayTry(runner: Runner, outage: Outage): boolean {
  const mayBegin = runner.state === 'active' && runner.sends && !runner.leaving;
  const isClaiming = runner.dueWaits || runner.dueInFlight > 0;
  const isTrying = outage.trial !== undefined && isClaiming;
  const isOut = outage.state === 'down' || outage.state === 'suspected';
  return isOut && mayBegin && !isTrying && !runner.isBackingOff;
}
