import assert from 'node:assert/strict';
import type { Clock, Timer } from '../../core/clock.ts';
import { disabledMessage } from '../../core/health.ts';
import type { Delivery } from '../../core/types.ts';
import type { SerialQueue } from '../../core/serial-queue.ts';
import { leaseMsOf } from '../../core/lease.ts';
import type { DeliveryStore, DueRows, DueRequest } from '../../store/port/deliveries.ts';
import { waitRuleOf } from '../../store/port/time.ts';
import type { Lease } from '../lease.ts';
import type { StoreRetry } from '../store-retry.ts';
import type { Scheduler } from '../scheduler.ts';
import { runForEach } from '../culprits.ts';
import { keyOf } from '../outcome.ts';
import type { PaceLimits } from '../pace.ts';
import type { DeliveryReport } from '../report.ts';
import type { Claimed, Runner } from '../runner.ts';
import { type DeliverySettings, longestWaitMs } from '../settings.ts';
import type { Settler } from '../settler.ts';
import type { DueTimer } from './due-timer.ts';
import type { Slot } from '../shares.ts';

/** The shortest interval between two claims, so that many runners share one. */
const gatherMs = 10;

/** Claims rows for the slots that are reserved for them. */
export interface DueClaims {
  /** Reserves the slot for the next row of the runner and claims one. */
  grant(runner: Runner, slot: Slot): void;
  /** Begins the rows that were claimed while the runner was stale. */
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
  readonly settings: Pick<
    DeliverySettings,
    'attemptTimeoutMs' | 'leaseGraceMs' | 'retryDelaysMs' | 'retry' | 'disable'
  > &
    PaceLimits;
  readonly lease: Pick<Lease, 'isHeld'>;
  readonly begin: (runner: Runner, row: Delivery, slot: Slot) => void;
  readonly dueTimer: Pick<DueTimer, 'note'>;
  /** Of the slots granted to the runner so many are free again, as there are no more rows. */
  readonly unused: (runner: Runner, slots: number) => void;
  /** The state of the runner has to be read again. */
  readonly refresh: (runner: Runner) => void;
  /** The store refuses to claim rows of the runner, with this code. */
  readonly abandon: (runner: Runner, code: string) => void;
  readonly report: (event: DeliveryReport) => void;
  /** There was nothing to claim. */
  readonly exhausted: (runner: Runner) => void;
}

/** See {@link DueClaims}. */
export function createDueClaims(deps: DueClaimsDeps): DueClaims {
  return new GatheredClaims(deps);
}

/**
 * One claim for all runners. Before each try, outcomes that have waited for long are recorded: the
 * leases of their rows may have ended, and they would be sent again.
 */
class GatheredClaims implements DueClaims {
  readonly #deps: DueClaimsDeps;
  #granted = new Set<Runner>();
  #isScheduled = false;
  #pause: Timer | undefined;
  #isClosed = false;

  constructor(deps: DueClaimsDeps) {
    this.#deps = deps;
  }

  grant(runner: Runner, slot: Slot): void {
    (runner.granted ??= []).push(slot);
    runner.dueInFlight += 1;
    this.#granted.add(runner);
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
    if (this.#granted.size > 0) this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#pause !== undefined) return;
    this.#isScheduled = true;
    void this.#deps.serialQueue(() => this.#claim()).then(() => this.#pauseBriefly());
  }

  #pauseBriefly(): void {
    this.#isScheduled = false;
    if (this.#isClosed) return;
    this.#pause = this.#deps.clock.after(gatherMs, () => {
      this.#pause = undefined;
      if (this.#granted.size > 0) this.#schedule();
    });
  }

  async #claim(): Promise<void> {
    const granted = [...this.#granted];
    this.#granted = new Set();
    const mayClaim = ({ state }: Runner): boolean => state === 'active' && !this.#isClosed;
    for (const runner of granted) if (!mayClaim(runner)) this.#release(runner, runner.slotsToFill);
    const claiming = granted.filter(mayClaim);
    for (const runner of claiming) this.#giveBack(runner);
    await this.#claimFor(claiming.filter((runner) => runner.slotsToFill > 0));
    this.#deps.scheduler.dispatch();
  }

  /** Frees reserved slots in whose place fresh events were sent meanwhile. */
  #giveBack(runner: Runner): void {
    const excess = runner.inFlight - runner.slots(this.#deps.settings);
    if (excess > 0) this.#release(runner, Math.min(excess, runner.slotsToFill));
  }

  async #claimFor(runners: readonly Runner[]): Promise<void> {
    if (runners.length === 0) return;
    const { clock, deliveries, settings, settler, abandon } = this.#deps;
    const claims = runners.map((runner) => ({ runner, request: requestOf(runner, settings) }));
    // Rows that become due from here on set it again.
    for (const runner of runners) {
      runner.dueWaits = false;
      runner.requested = runner.slotsToFill;
    }
    let claimedMs = clock.elapsedMs();
    await runForEach(this.#deps, claims, {
      run: async (some) => {
        await settler.settleOld(settings.leaseGraceMs / 2);
        claimedMs = clock.elapsedMs();
        return deliveries.claimDue(some.map(({ request }) => request));
      },
      done: (some, results) => {
        some.forEach(({ runner, request: { take, keys = [] } }, index) => {
          this.#noteKeys(runner, keys, results[index]?.rows ?? []);
          this.#distribute(runner, take, claimedMs, results[index]);
        });
      },
      refused: ({ runner, request }, code) => {
        abandon(runner, code);
        this.#distribute(runner, request.take, claimedMs, undefined);
      },
    });
  }

  /** Notes which keys a blocked row was claimed of. */
  #noteKeys(runner: Runner, keys: readonly string[], rows: readonly Delivery[]): void {
    if (keys.length === 0) return;
    const claimed = new Set(rows.map(({ orderKey }) => orderKey));
    for (const key of keys) {
      if (claimed.has(key)) {
        runner.order?.claimed(key);
        runner.rows += 1;
      } else {
        // A try before may have claimed it, and its result be lost.
        runner.order?.returned(key);
      }
    }
    if (keys.some((key) => !claimed.has(key))) this.#deps.refresh(runner);
  }

  #distribute(runner: Runner, slots: number, claimedMs: number, due: DueRows | undefined): void {
    const rows = due?.rows ?? [];
    runner.requested = 0;
    this.#release(runner, slots - rows.length);
    this.#deps.dueTimer.note(runner, due?.nextDueInMs);
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
    if (runner.state === 'gone' || !mayBegin) return this.#leave(runner, claimed);
    if (runner.state === 'stale') {
      (runner.claimed ??= []).push(claimed);
      return;
    }
    if (row.kind === 'replay' && isInterrupted(runner, claimed)) return this.#release(runner, 1);
    if (!runner.enabled && row.kind !== 'redelivery') return this.#fail(runner, row);
    // Paused after the claim: the row waits for the end of its lease, and for the end of the pause.
    if (!runner.sends && row.kind === 'first') return this.#leave(runner, claimed);
    // Its lease ended before its attempt did: the next event of the key would begin with the first end.
    if (isUnderWay(runner, row)) return this.#leave(runner, claimed);
    begin(runner, row, takeSlot(runner));
  }

  /** Fails the row without an attempt: the stream was disabled after the claim. */
  #fail(runner: Runner, { event, kind, attempt, orderKey }: Delivery): void {
    const { settler } = this.#deps;
    this.#release(runner, 1);
    const ended = { agoMs: 0, durationMs: 0, status: undefined, error: disabledMessage };
    const row = { event, kind, attempt, hasRow: true, ...keyOf({ orderKey }) };
    settler.add(runner, { result: 'failed', ...row, ...ended });
  }

  /** Leaves a claimed row without an attempt until the end of its lease. */
  #leave(runner: Runner, { row, claimedMs }: Claimed): void {
    const { clock, settings, dueTimer } = this.#deps;
    if (row.orderKey !== undefined && row.kind === 'first') runner.order?.returned(row.orderKey);
    const leftMs = claimedMs + leaseMsOf(settings, runner.stream.delivery) - clock.elapsedMs();
    if (!this.#isClosed) dueTimer.note(runner, leftMs);
    this.#release(runner, 1);
  }

  /** Frees slots without an attempt. */
  #release(runner: Runner, slots: number): void {
    runner.dueInFlight -= slots;
    this.#deps.unused(runner, slots);
    for (let count = 0; count < slots; count += 1) this.#deps.scheduler.release(takeSlot(runner));
  }
}

/**
 * Returns whether the replay was interrupted after the claim. If the stream was disabled or paused,
 * the row waits for the end of its lease; if the replay was cancelled, the row does not exist any more.
 */
function isInterrupted(runner: Runner, { replay }: Claimed): boolean {
  return !runner.sends || runner.replay !== replay;
}

/** Returns whether an attempt of the row's key is under way. */
function isUnderWay({ order }: Runner, { kind, orderKey }: Delivery): boolean {
  return kind === 'first' && orderKey !== undefined && order?.isUnderWay(orderKey) === true;
}

function takeSlot(runner: Runner): Slot {
  const slot = runner.granted?.pop();
  assert(slot !== undefined, 'each requested row has a slot');
  if (runner.granted?.length === 0) runner.granted = undefined;
  return slot;
}

function requestOf(runner: Runner, settings: DueClaimsDeps['settings']): DueRequest {
  const { tenant, id: stream, epoch } = runner;
  const leaseMs = leaseMsOf(settings, runner.stream.delivery);
  const rule = waitRuleOf(runner.stream, { longestWaitMs: longestWaitMs(settings) });
  const take = runner.slotsToFill;
  return { tenant, stream, epoch, take, leaseMs, keys: keysOf(runner, take, settings), ...rule };
}

/**
 * Returns the keys whose next row is claimed: for half of the slots where others are due, too, and one
 * as a trial while the receiver is down.
 */
function keysOf(
  runner: Runner,
  take: number,
  settings: DueClaimsDeps['settings'],
): readonly string[] | undefined {
  const { order, outage, dueWaits } = runner;
  if (order === undefined || order.readyRows === 0) return undefined;
  if (!runner.takesRows(settings)) return undefined;
  const keys = order.claim(outage?.state === 'down' ? 1 : dueWaits ? Math.floor(take / 2) : take);
  if (keys.length > 0) outage?.eventTaken();
  return keys;
}
