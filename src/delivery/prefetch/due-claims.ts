import assert from 'node:assert/strict';
import type { Clock, Timer } from '../../core/clock.ts';
import { disabledMessage } from '../../core/health.ts';
import type { Delivery } from '../../core/types.ts';
import type { SerialQueue } from '../../core/serial-queue.ts';
import type { DeliveryStore, DueRows, DueRequest } from '../../store/port/deliveries.ts';
import type { Lease } from '../lease.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Claimed, Runner } from '../runner.ts';
import { type DeliverySettings, leaseMsOf, longestWaitMs } from '../settings.ts';
import type { Settler } from '../settler.ts';
import type { Slot } from '../shares.ts';

/** Two claims are at least so far apart, so that many runners share one. */
const gatherMs = 10;

/** Gets rows for the slots that are kept for them. */
export interface DueClaims {
  /** Claims a row for the slot that the runner was given. */
  grant(runner: Runner, slot: Slot): void;
  /** Begins what was claimed while the runner was stale. */
  resume(runner: Runner): void;
  close(): void;
}

export interface DueClaimsDeps {
  readonly deliveries: Pick<DeliveryStore, 'claimDue'>;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly settler: Pick<Settler, 'add' | 'settleOld'>;
  readonly scheduler: Pick<Scheduler, 'enqueue' | 'dispatch' | 'release'>;
  readonly settings: Pick<DeliverySettings, 'attemptTimeoutMs' | 'leaseGraceMs' | 'retryDelaysMs'>;
  readonly lease: Pick<Lease, 'isHeld'>;
  readonly begin: (runner: Runner, row: Delivery, slot: Slot) => void;
  /** The runner's next row is due after so long. */
  readonly note: (runner: Runner, inMs: number | undefined) => void;
  /** There was nothing to claim. */
  readonly exhausted: (runner: Runner) => void;
}

/** See {@link DueClaims}. */
export function createDueClaims(deps: DueClaimsDeps): DueClaims {
  return new GatheredClaims(deps);
}

/**
 * One query for all runners. Before each try, results that have waited for long are recorded: the
 * leases of their rows may be over, and they would be sent again.
 */
class GatheredClaims implements DueClaims {
  readonly #deps: DueClaimsDeps;
  #asking = new Set<Runner>();
  #isScheduled = false;
  #pause: Timer | undefined;
  #isClosed = false;

  constructor(deps: DueClaimsDeps) {
    this.#deps = deps;
  }

  grant(runner: Runner, slot: Slot): void {
    (runner.granted ??= []).push(slot);
    runner.dueInFlight += 1;
    this.#asking.add(runner);
    this.#schedule();
  }

  resume(runner: Runner): void {
    const held = runner.claimed ?? [];
    runner.claimed = undefined;
    for (const claimed of held) this.#begin(runner, claimed);
  }

  close(): void {
    this.#isClosed = true;
    this.#pause?.cancel();
    this.#pause = undefined;
    if (this.#asking.size > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#pause !== undefined) return;
    this.#isScheduled = true;
    void this.#deps.serialQueue(() => this.#claim()).then(() => this.#rest());
  }

  #rest(): void {
    this.#isScheduled = false;
    if (this.#isClosed) return;
    this.#pause = this.#deps.clock.after(gatherMs, () => {
      this.#pause = undefined;
      if (this.#asking.size > 0) this.#schedule();
    });
  }

  async #claim(): Promise<void> {
    const asking = [...this.#asking];
    this.#asking = new Set();
    const mayAsk = ({ state }: Runner): boolean => state === 'active' && !this.#isClosed;
    for (const runner of asking) if (!mayAsk(runner)) this.#giveBack(runner, slotsOf(runner));
    await this.#ask(asking.filter(mayAsk));
    this.#deps.scheduler.dispatch();
  }

  async #ask(runners: readonly Runner[]): Promise<void> {
    if (runners.length === 0) return;
    const { clock, deliveries, storeRetry, settings, settler } = this.#deps;
    const asks = runners.map(askOf);
    // What becomes due from here on asks anew.
    for (const runner of runners) runner.dueWaits = false;
    const rules = { leaseMs: leaseMsOf(settings), longestWaitMs: longestWaitMs(settings) };
    let askedMs = clock.elapsedMs();
    const answers = await storeRetry.run(async () => {
      await settler.settleOld(settings.leaseGraceMs / 2);
      askedMs = clock.elapsedMs();
      return deliveries.claimDue(asks, rules);
    });
    runners.forEach((runner, index) => {
      const slots = asks[index]?.take ?? 0;
      this.#distribute(runner, slots, askedMs, answers[index]);
    });
  }

  #distribute(runner: Runner, slots: number, claimedMs: number, answer: DueRows | undefined): void {
    const rows = answer?.rows ?? [];
    this.#giveBack(runner, slots - rows.length);
    this.#deps.note(runner, answer?.nextDueInMs);
    const { replay } = runner;
    for (const row of rows) this.#begin(runner, { row, claimedMs, replay });
    this.#deps.scheduler.enqueue(runner);
    if (rows.length === 0) this.#deps.exhausted(runner);
  }

  #begin(runner: Runner, claimed: Claimed): void {
    const { row, claimedMs } = claimed;
    const { clock, settings, lease, begin } = this.#deps;
    const isLate = clock.elapsedMs() - claimedMs > settings.leaseGraceMs;
    const mayBegin = lease.isHeld && !isLate && !this.#isClosed;
    if (runner.state === 'gone' || !mayBegin) return this.#giveBack(runner, 1);
    if (runner.state === 'stale') {
      (runner.claimed ??= []).push(claimed);
      return;
    }
    if (row.kind === 'replay' && isPaused(runner, claimed)) return this.#giveBack(runner, 1);
    if (!runner.enabled && row.kind !== 'redelivery') return this.#refuse(runner, row);
    begin(runner, row, takeSlot(runner));
  }

  /** The stream was disabled between the claim and the attempt: it is sent nothing. */
  #refuse(runner: Runner, { event, kind, attempt }: Delivery): void {
    const { settler } = this.#deps;
    this.#giveBack(runner, 1);
    const ended = { agoMs: 0, durationMs: 0, status: undefined, error: disabledMessage };
    settler.add(runner, { result: 'failed', event, kind, attempt, hasRow: true, ...ended });
  }

  #giveBack(runner: Runner, slots: number): void {
    runner.dueInFlight -= slots;
    for (let count = 0; count < slots; count += 1) this.#deps.scheduler.release(takeSlot(runner));
  }
}

/**
 * The stream was disabled between the claim and the attempt, and the row waits for the end of its
 * lease; or the replay was cancelled, and the row is gone.
 */
function isPaused(runner: Runner, { replay }: Claimed): boolean {
  return !runner.enabled || runner.replay !== replay;
}

/** Slots that have no row yet. */
function slotsOf({ granted, claimed }: Runner): number {
  return (granted?.length ?? 0) - (claimed?.length ?? 0);
}

function takeSlot(runner: Runner): Slot {
  const slot = runner.granted?.pop();
  assert(slot !== undefined, 'each row that was asked for has a slot');
  if (runner.granted?.length === 0) runner.granted = undefined;
  return slot;
}

function askOf(runner: Runner): DueRequest {
  const { tenant, id: stream, epoch } = runner;
  return { tenant, stream, epoch, take: slotsOf(runner) };
}
