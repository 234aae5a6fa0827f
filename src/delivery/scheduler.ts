import type { Clock, Timer } from '../core/clock.ts';
import { FairQueue, type Offer } from './fair-queue.ts';
import type { Runner, RunnerLimits } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import { type Expectation, Holding, Shares, type Slot } from './shares.ts';
import type { Work } from './slots.ts';

/**
 * Grants the slots of the node one at a time: round robin over the tenants, then over the streams
 * of each, within the shares of `shares.ts`.
 */
export interface Scheduler {
  /** Slots in use. */
  readonly inFlight: number;
  /** Bytes of bodies under way. */
  readonly inFlightBytes: number;
  /** Streams that wait for a slot. */
  readonly waiting: number;
  /** Streams that wait for a name lookup. */
  readonly preparing: number;
  /** Adds a runner that may have work; it begins at the next {@link dispatch}. */
  enqueue(runner: Runner): void;
  /** Grants free slots. */
  dispatch(): void;
  /** Whether the runner's tenant uses less than three quarters of the slots that it may have. */
  hasSpare(runner: Runner): boolean;
  /** Sets the size of the body of the attempt in the slot. */
  resize(slot: Slot, bytes: number): void;
  /** Counts the attempt in the slot as slow. */
  markSlow(slot: Slot): void;
  /** Frees the slot. */
  release(slot: Slot): void;
  /** Stops granting slots. */
  close(): void;
}

/** The attempts begun without yielding to the event loop. */
interface Turn {
  readonly startedMs: number;
  /** Runners are left for the next turn. */
  isOver: boolean;
  /** Attempts begun in it that are not expected to be quick. */
  unproven: number;
  readonly end: Timer;
}

export interface SchedulerDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly settings: RunnerLimits &
    Pick<DeliverySettings, 'concurrency' | 'inflightBytesMax' | 'claimedBytes'>;
  /** Whether several tenants have streams on this node. */
  readonly isShared: () => boolean;
  /** Whether attempts may begin; false while too many outcomes wait for the store. */
  readonly mayBegin: () => boolean;
  /**
   * Returns `true` if an attempt for the runner need not wait for a name lookup; otherwise a
   * promise that resolves when the lookup has ended.
   */
  readonly prepare: (runner: Runner) => true | Promise<void>;
  /** Returns whether {@link prepare} would return `true`; starts nothing. */
  readonly isReady: (runner: Runner) => boolean;
  /** Begins an attempt in the slot, which {@link Scheduler.release} frees. */
  readonly begin: (runner: Runner, work: Work, slot: Slot) => void;
  /** Called after each {@link Scheduler.dispatch}. */
  readonly dispatched: () => void;
}

/** See {@link Scheduler}. */
export function createScheduler(deps: SchedulerDeps): Scheduler {
  return new FairScheduler(deps);
}

class FairScheduler implements Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #shares: Shares;
  /** Slots reserved for streams that have none. */
  readonly #reserved: number;
  /** Slots and bytes of each tenant that has any. */
  readonly #holdings = new Map<number, Holding>();
  /** One queue per expectation, as slow streams may have to wait for longer. */
  readonly #queues: Readonly<Record<Expectation, FairQueue<Runner>>> = {
    quick: new FairQueue(),
    probe: new FairQueue(),
    slow: new FairQueue(),
  };
  #isTurnOfQuick = false;
  #waiting = 0;
  #turn: Turn | undefined;
  #preparing = 0;
  #isClosed = false;

  constructor(deps: SchedulerDeps) {
    const { concurrency, inflightBytesMax, slowSlots } = deps.settings;
    const capacity = { slots: concurrency, bytes: inflightBytesMax };
    this.#reserved = Math.floor(concurrency / 16);
    this.#deps = deps;
    const few = Math.max(1, Math.min(slowSlots, this.#reserved));
    this.#shares = new Shares(capacity, few, deps.isShared);
  }

  get inFlight(): number {
    return this.#shares.slots;
  }

  get inFlightBytes(): number {
    return this.#shares.bytes;
  }

  get waiting(): number {
    return this.#waiting;
  }

  get preparing(): number {
    return this.#preparing;
  }

  enqueue(runner: Runner): void {
    const { settings } = this.#deps;
    if (runner.nextWork(settings) === undefined) return;
    if (runner.preparing && !this.#deps.isReady(runner)) return;
    const expectation = expectationOf(runner, settings);
    if (runner.waitsAs === expectation) return;
    if (runner.waitsAs === undefined) this.#waiting += 1;
    // Its expectation may have changed since it was enqueued: the former entry is void.
    runner.waitsAs = expectation;
    if ((runner.entries & bitOf[expectation]) !== 0) return;
    runner.entries |= bitOf[expectation];
    this.#queues[expectation].push(runner.tenant, runner);
  }

  dispatch(): void {
    this.#dispatch(offersAtOnce);
    this.#deps.dispatched();
  }

  hasSpare(runner: Runner): boolean {
    const holding = this.#holdings.get(runner.tenant) ?? nothingHeld;
    return this.#shares.room(holding) * 3 > holding.all.slots;
  }

  resize(slot: Slot, bytes: number): void {
    this.#shares.change(slot, { bytes });
    this.#renew();
  }

  markSlow(slot: Slot): void {
    this.#shares.change(slot, { expectation: 'slow' });
  }

  release(slot: Slot): void {
    this.#shares.release(slot);
    const { tenant, all } = slot.holding;
    if (all.slots === 0) this.#holdings.delete(tenant);
    this.#renew();
  }

  close(): void {
    this.#isClosed = true;
    this.#turn?.end.cancel();
  }

  /** Offers slots to waiting streams; the rest are offered one in the next turn. */
  #dispatch(offersMax: number): void {
    let idleTurns = 0;
    while (idleTurns < 2 && this.#mayBegin()) {
      this.#isTurnOfQuick = !this.#isTurnOfQuick;
      const began = this.#isTurnOfQuick
        ? this.#offerTo('quick', offersMax)
        : this.#mayBeginUnproven() &&
          (this.#offerTo('probe', offersMax) || this.#offerTo('slow', offersMax));
      idleTurns = began ? 0 : idleTurns + 1;
    }
    if (idleTurns === 2 && this.#isUntried()) this.#startTurn().isOver = true;
  }

  #isUntried(): boolean {
    const { quick, probe, slow } = this.#queues;
    return quick.isUntried || probe.isUntried || slow.isUntried;
  }

  /** Offers again to refused streams: slots or bytes have become free. */
  #renew(): void {
    this.#queues.quick.renew();
    this.#queues.probe.renew();
    this.#queues.slow.renew();
  }

  #mayBegin(): boolean {
    return !this.#isClosed && !this.#shares.isFull && this.#deps.mayBegin() && this.#hasTime();
  }

  /**
   * Ends a turn after a few milliseconds, so that incoming requests are served in between: attempts
   * begin and end by the hundred, and opening a connection takes a quarter of a millisecond.
   */
  #hasTime(): boolean {
    const turn = this.#turn;
    if (turn === undefined) return true;
    const isLate = this.#deps.clock.elapsedMs() - turn.startedMs > turnMs;
    if (isLate) turn.isOver = true;
    return !isLate;
  }

  /**
   * Lets few attempts that may hang begin in one turn. Those that begin together time out together,
   * and so do their successors in the same slots.
   */
  #mayBeginUnproven(): boolean {
    const turn = this.#turn;
    if (turn === undefined || turn.unproven < unprovenPerTurn) return true;
    turn.isOver = true;
    return false;
  }

  #startTurn(): Turn {
    const { clock } = this.#deps;
    this.#turn ??= {
      startedMs: clock.elapsedMs(),
      isOver: false,
      unproven: 0,
      end: clock.after(0, () => this.#endTurn()),
    };
    return this.#turn;
  }

  #endTurn(): void {
    const isOver = this.#turn?.isOver;
    this.#turn = undefined;
    if (isOver !== true) return;
    this.#dispatch(offersPerTurn);
    this.#deps.dispatched();
  }

  #offerTo(expectation: Expectation, offersMax: number): boolean {
    const queue = this.#queues[expectation];
    // Saves the closure when there is nothing to offer.
    if (!queue.isUntried) return false;
    return queue.offerNext((runner) => this.#offer(runner, expectation), offersMax);
  }

  #offer(runner: Runner, expectation: Expectation): Offer {
    const { settings } = this.#deps;
    runner.entries &= ~bitOf[expectation];
    if (runner.waitsAs !== expectation) return 'dropped';
    runner.waitsAs = undefined;
    this.#waiting -= 1;
    const work = runner.nextWork(settings);
    if (work === undefined) return 'dropped';
    if (expectationOf(runner, settings) !== expectation) {
      this.enqueue(runner);
      return 'dropped';
    }
    const holding = this.#holdings.get(runner.tenant) ?? new Holding(runner.tenant);
    const bytes = work === 'fresh' ? runner.nextBytes() : settings.claimedBytes;
    const mayBegin =
      this.#shares.admits(holding, expectation, bytes) &&
      (expectation !== 'quick' || this.#leavesReserve(runner, holding));
    if (!mayBegin) {
      runner.waitsAs = expectation;
      runner.entries |= bitOf[expectation];
      this.#waiting += 1;
      return 'refused';
    }
    if (!this.#isPrepared(runner)) return 'dropped';
    const turn = this.#startTurn();
    if (expectation !== 'quick') turn.unproven += 1;
    this.#holdings.set(runner.tenant, holding);
    runner.last = work;
    this.#deps.begin(runner, work, this.#shares.take(holding, expectation, bytes));
    this.enqueue(runner);
    return 'taken';
  }

  /**
   * Reserves the last slots of a tenant for streams that have none: when many quick streams begin
   * to hang in the same second, some slots are left for the others.
   */
  #leavesReserve(runner: Runner, holding: Holding): boolean {
    return runner.inFlight === 0 || this.#shares.room(holding) > this.#reserved;
  }

  #isPrepared(runner: Runner): boolean {
    if (runner.preparing) return this.#deps.isReady(runner);
    const prepared = this.#deps.prepare(runner);
    if (prepared === true) return true;
    void this.#awaitPrepared(runner, prepared);
    return false;
  }

  async #awaitPrepared(runner: Runner, prepared: Promise<void>): Promise<void> {
    runner.preparing = true;
    this.#preparing += 1;
    await prepared;
    this.#preparing -= 1;
    runner.preparing = false;
    this.enqueue(runner);
    this.dispatch();
  }
}

/** Streams per queue that are offered a slot at each call, and in each further turn. */
const offersAtOnce = 4;
const offersPerTurn = 64;

/** How long attempts are begun before the event loop runs. */
const turnMs = 5;
const unprovenPerTurn = 4;

/** The bits of {@link Runner.entries}. */
const bitOf = { quick: 1, probe: 2, slow: 4 } as const;

const nothingHeld = new Holding(0);

function expectationOf(runner: Runner, settings: RunnerLimits): Expectation {
  if (runner.pace.isQuick(settings)) return 'quick';
  return runner.pace.isUnknown && runner.inFlight === 0 ? 'probe' : 'slow';
}
