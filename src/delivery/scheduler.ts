import type { Clock, Timer } from '../core/clock.ts';
import { FairQueue, type Offer } from './fair-queue.ts';
import type { Runner, RunnerLimits } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import { type Expectation, Holding, Shares, type Slot } from './shares.ts';
import type { Work } from './slots.ts';

/**
 * Hands out the slots of the node one at a time: in turns over the tenants, then over the streams of
 * each, within the shares of `shares.ts`.
 */
export interface Scheduler {
  /** Slots in use. */
  readonly inFlight: number;
  /** Bytes of bodies under way. */
  readonly inFlightBytes: number;
  /** Streams that wait for a slot. */
  readonly waiting: number;
  /** Streams that wait for the address of their receiver. */
  readonly preparing: number;
  /** The runner may have something to do; it begins at the next {@link dispatch}. */
  enqueue(runner: Runner): void;
  /** Hands out free slots. */
  dispatch(): void;
  /** Whether the runner's tenant needs fewer than three quarters of what it may have. */
  hasSpare(runner: Runner): boolean;
  /** The body of the attempt in the slot has so many bytes. */
  resize(slot: Slot, bytes: number): void;
  /** The attempt in the slot takes long. */
  markSlow(slot: Slot): void;
  /** The slot is free. */
  release(slot: Slot): void;
  /** Hands out no more slots. */
  close(): void;
}

/** What is begun without a pause. */
interface Turn {
  readonly startedMs: number;
  /** Something is left for the next one. */
  isOver: boolean;
  /** Attempts that were begun and are not expected to be quick. */
  unproven: number;
  readonly end: Timer;
}

export interface SchedulerDeps {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly settings: RunnerLimits &
    Pick<DeliverySettings, 'concurrency' | 'inflightBytesMax' | 'claimedBytes'>;
  /** Whether several tenants have streams on this node. */
  readonly isShared: () => boolean;
  /** Whether anything may begin; false while too many results wait for the store. */
  readonly mayBegin: () => boolean;
  /**
   * Returns `true` if an attempt for the runner needs not wait for a name look-up; otherwise what
   * resolves when that is so.
   */
  readonly prepare: (runner: Runner) => true | Promise<void>;
  /** Returns whether {@link prepare} would return `true`; starts nothing. */
  readonly isReady: (runner: Runner) => boolean;
  /** Uses the slot; it is given back by {@link Scheduler.release}. */
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
  /** Slots for streams that have none. */
  readonly #kept: number;
  /** What tenants hold; one that holds nothing is forgotten. */
  readonly #holdings = new Map<number, Holding>();
  /** Streams wait apart by what is expected of them, as slow ones may have to wait for longer. */
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
    this.#kept = Math.floor(concurrency / 16);
    this.#deps = deps;
    const few = Math.max(1, Math.min(slowSlots, this.#kept));
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
    // More may be known of it than when it was enqueued: the entry from then is void.
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

  /** Offers slots to the streams that wait; to the rest of them in the next turn. */
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

  /** Something has become free: whoever was refused may have it. */
  #renew(): void {
    this.#queues.quick.renew();
    this.#queues.probe.renew();
    this.#queues.slow.renew();
  }

  #mayBegin(): boolean {
    return !this.#isClosed && !this.#shares.isFull && this.#deps.mayBegin() && this.#hasTime();
  }

  /**
   * Attempts that begin, or end, at the same moment come by the hundred: a connection takes a quarter
   * of a millisecond to open. Requests have their turn in between.
   */
  #hasTime(): boolean {
    const turn = this.#turn;
    if (turn === undefined) return true;
    const isLate = this.#deps.clock.elapsedMs() - turn.startedMs > turnMs;
    if (isLate) turn.isOver = true;
    return !isLate;
  }

  /**
   * Attempts that hang and began together time out together, and so do those that take their slots.
   * Where few begin in one turn they drift apart.
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
    // Without work there is no closure to be made for each attempt.
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
      (expectation !== 'quick' || this.#leavesRoom(runner, holding));
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
   * The last slots of a tenant are for streams that have none: when many quick streams begin to hang in
   * the same second, something is left for those that do not.
   */
  #leavesRoom(runner: Runner, holding: Holding): boolean {
    return runner.inFlight === 0 || this.#shares.room(holding) > this.#kept;
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

/** Streams that are offered a slot at each call, and in each further turn, of each queue. */
const offersAtOnce = 4;
const offersPerTurn = 64;

/** Attempts are begun for so long before others of the process have their turn. */
const turnMs = 5;
const unprovenPerTurn = 4;

/** Of {@link Runner.entries}. */
const bitOf = { quick: 1, probe: 2, slow: 4 } as const;

const nothingHeld = new Holding(0);

function expectationOf(runner: Runner, settings: RunnerLimits): Expectation {
  if (runner.pace.isQuick(settings)) return 'quick';
  return runner.pace.isUnknown && runner.inFlight === 0 ? 'probe' : 'slow';
}
