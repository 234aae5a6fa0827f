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
  /** It took too long: what waits is begun in the next one. */
  isOver: boolean;
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
    const { concurrency, inflightBytesMax } = deps.settings;
    this.#deps = deps;
    this.#shares = new Shares({ slots: concurrency, bytes: inflightBytesMax }, deps.isShared);
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
    if (runner.preparing || runner.nextWork(settings) === undefined) return;
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
    let idleTurns = 0;
    while (idleTurns < 2 && this.#mayBegin()) {
      this.#isTurnOfQuick = !this.#isTurnOfQuick;
      const began = this.#isTurnOfQuick
        ? this.#offerTo('quick')
        : this.#offerTo('probe') || this.#offerTo('slow');
      idleTurns = began ? 0 : idleTurns + 1;
    }
    this.#deps.dispatched();
  }

  hasSpare(runner: Runner): boolean {
    if (this.#queues.quick.has(runner.tenant)) return false;
    const holding = this.#holdings.get(runner.tenant) ?? nothingHeld;
    return this.#shares.room(holding) * 3 > holding.all.slots;
  }

  resize(slot: Slot, bytes: number): void {
    this.#shares.change(slot, { bytes });
  }

  markSlow(slot: Slot): void {
    this.#shares.change(slot, { expectation: 'slow' });
  }

  release(slot: Slot): void {
    this.#shares.release(slot);
    const { tenant, all } = slot.holding;
    if (all.slots === 0) this.#holdings.delete(tenant);
    for (const queue of Object.values(this.#queues)) {
      queue.resume(tenant);
      queue.resumeOldest(resumedMax);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#turn?.end.cancel();
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
    turn.isOver = this.#deps.clock.elapsedMs() - turn.startedMs > turnMs;
    return !turn.isOver;
  }

  #startTurn(): void {
    const { clock } = this.#deps;
    this.#turn ??= {
      startedMs: clock.elapsedMs(),
      isOver: false,
      end: clock.after(0, () => {
        const isOver = this.#turn?.isOver;
        this.#turn = undefined;
        if (isOver === true) this.dispatch();
      }),
    };
  }

  #offerTo(expectation: Expectation): boolean {
    const queue = this.#queues[expectation];
    // Without work there is no closure to be made for each attempt.
    return queue.length > 0 && queue.offerNext((runner) => this.#offer(runner, expectation));
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
    if (expectation === 'quick' && !this.#leavesRoom(runner, holding)) return 'dropped';
    const bytes = work === 'fresh' ? runner.nextBytes() : settings.claimedBytes;
    if (!this.#shares.admits(holding, expectation, bytes)) {
      runner.waitsAs = expectation;
      runner.entries |= bitOf[expectation];
      this.#waiting += 1;
      return holding.all.slots === 0 ? 'full' : 'held';
    }
    if (!this.#isPrepared(runner)) return 'dropped';
    this.#startTurn();
    this.#holdings.set(runner.tenant, holding);
    runner.last = work;
    this.#deps.begin(runner, work, this.#shares.take(holding, expectation, bytes));
    this.enqueue(runner);
    return 'taken';
  }

  /**
   * A stream leaves as many slots to others of its tenant as it takes, beyond the few that each may
   * have: when many quick streams begin to hang in the same second, a few slots are left for those
   * that do not. It is enqueued again when one of its attempts ends.
   */
  #leavesRoom(runner: Runner, holding: Holding): boolean {
    const { slowSlots } = this.#deps.settings;
    return runner.inFlight < slowSlots || runner.inFlight < this.#shares.room(holding);
  }

  #isPrepared(runner: Runner): boolean {
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

/** Attempts are begun for so long before others of the process have their turn. */
const turnMs = 5;

/**
 * What a tenant may have grows with what others leave. Where more tenants than this are held, a slot
 * that one of them gives back soon resumes the next.
 */
const resumedMax = 16;

/** Of {@link Runner.entries}. */
const bitOf = { quick: 1, probe: 2, slow: 4 } as const;

const nothingHeld = new Holding(0);

function expectationOf(runner: Runner, settings: RunnerLimits): Expectation {
  if (runner.pace.isQuick(settings)) return 'quick';
  return runner.pace.isUnknown && runner.inFlight === 0 ? 'probe' : 'slow';
}
