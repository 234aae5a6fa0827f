import type { Clock } from '../core/clock.ts';
import { createSerialQueue, type SerialQueue } from '../core/serial-queue.ts';
import type { WebhookKeys } from '../core/sign.ts';
import type { Delivery, Node, StreamRef } from '../core/types.ts';
import type { Hint } from '../store/port/hints.ts';
import type { Outcome, SettledStream, Settlement } from '../store/port/settlement.ts';
import type { Store } from '../store/port/store.ts';
import { createBackoffs, type Backoffs } from './backoffs.ts';
import { type Backlog, backlogOf } from './backlog.ts';
import { createLease, type Lease } from './lease.ts';
import { rowsAdded } from './outcome.ts';
import { createOutages, type Outages } from './outages.ts';
import { createOwnership, type Ownership } from './ownership.ts';
import { createDueClaims, type DueClaims } from './prefetch/due-claims.ts';
import { EventFilters } from './prefetch/event-filters.ts';
import { createDueTimer, type DueTimer } from './prefetch/due-timer.ts';
import { createPoll, type Poll } from './prefetch/poll.ts';
import { createPrefetch, type Prefetch, type PrefetchDeps } from './prefetch/prefetch.ts';
import { createRates, type Rates } from './rates.ts';
import { createReplays, type Replays } from './replays.ts';
import type { DeliveryReport } from './report.ts';
import type { Runner } from './runner.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import type { Shortages } from './http/shortages.ts';
import { createSender, type Sender } from './sender.ts';
import type { DeliverySettings } from './settings.ts';
import { createSettler, type Settler } from './settler.ts';
import type { Slot } from './shares.ts';
import type { SigningTransport } from './signing-transport.ts';
import type { Work } from './slots.ts';
import type { StoreRetry } from './store-retry.ts';

export interface DispatcherDeps {
  readonly store: Pick<Store, 'log' | 'deliveries' | 'replays' | 'ownership' | 'time' | 'watch'>;
  readonly transport: Pick<SigningTransport, 'prepare' | 'isReady' | 'post'>;
  /** The keys of streams that are signed as `v1a`. */
  readonly webhookKeys: WebhookKeys;
  readonly clock: Clock;
  readonly settings: DeliverySettings;
  readonly report: (event: DeliveryReport) => void;
  /** Shared with the transport; absent where nothing else needs it. */
  readonly shortages?: Shortages;
  /**
   * Unique among the processes that share the store; a process that joins under it replaces this
   * one.
   */
  readonly nodeId?: string | undefined;
}

/** The state of a dispatcher, for `/readyz` and metrics. */
export interface DispatcherState {
  /** False until the node has joined, and when it cannot renew its lease in time. */
  readonly holdsLease: boolean;
  /** Streams that this node owns. */
  readonly streams: number;
  readonly inFlight: number;
  /** Bytes of bodies of attempts under way. */
  readonly inFlightBytes: number;
  /** Results that are not in the store yet. */
  readonly unsettled: number;
  /** Streams that have something to send and wait for a slot of the node. */
  readonly waiting: number;
  /** Streams that send and whose position is not the head of their log. */
  readonly behind: number;
  /** Characters of bodies in the queues of the streams. */
  readonly queuedBytes: number;
  /** Characters of bodies in the tails of the logs. */
  readonly tailBytes: number;
  /** A store command has failed and is being retried. */
  readonly storeFails: boolean;
}

export interface IncarnationDeps extends DispatcherDeps {
  readonly node: Node;
  readonly storeRetry: StoreRetry;
  readonly shortages: Shortages;
  /** Ends this incarnation, which the store has forgotten; the next one joins. */
  readonly rejoin: () => void;
}

/**
 * A dispatcher at work as one node, from its joining to its end. Its fields are the parts; a part
 * calls those that are created before it, and the others through the private methods here.
 */
export class Incarnation {
  readonly #deps: IncarnationDeps;
  readonly #waiters = new Waiters();
  /** For commands to the store that must not overlap. */
  readonly #serialQueue: SerialQueue = createSerialQueue();
  readonly #filters: EventFilters;
  readonly #lease: Lease;
  readonly #scheduler: Scheduler;
  readonly #settler: Settler;
  readonly #backoffs: Backoffs;
  readonly #rates: Rates;
  readonly #outages: Outages;
  readonly #dueTimer: DueTimer;
  readonly #prefetch: Prefetch;
  readonly #sender: Sender;
  readonly #dueClaims: DueClaims;
  readonly #replays: Replays;
  readonly #ownership: Ownership;
  readonly #poll: Poll;
  #unwatch: (() => void) | undefined;

  constructor(deps: IncarnationDeps) {
    this.#deps = deps;
    const { clock, settings, report, storeRetry, node, store, transport, webhookKeys } = deps;
    const { log, deliveries } = store;
    const queued = { storeRetry, serialQueue: this.#serialQueue };
    const abandon = (runner: Runner, code: string): void => this.#ownership.abandon(runner, code);
    const shared = { clock, settings, report, node, log, deliveries, abandon, ...queued };
    const isShared = (): boolean => this.#ownership.isShared;

    this.#lease = createLease({
      ...shared,
      ownership: store.ownership,
      regained: () => this.#leaseRegained(),
      replaced: () => this.#nodeReplaced(),
      removed: () => deps.rejoin(),
      renewed: ({ changed }, shareGrew) => this.#leaseRenewed(changed, shareGrew),
    });
    this.#scheduler = createScheduler({
      ...shared,
      isShared,
      mayBegin: () => this.#mayBegin(),
      prepare: (runner) => this.#sender.prepare(runner),
      isReady: (runner) => this.#sender.isReady(runner),
      begin: (runner, work, slot) => this.#begin(runner, work, slot),
      dispatched: () => this.#dispatched(),
    });
    this.#settler = createSettler({
      ...shared,
      settled: (runner, settlement, settled) => this.#settled(runner, settlement, settled),
      batchSettled: () => this.#scheduler.dispatch(),
    });
    const ended = (runner: Runner): void => this.#pauseEnded(runner);
    this.#backoffs = createBackoffs({ ...shared, ended });
    this.#rates = createRates({ clock, ended });
    const [scheduler, lease] = [this.#scheduler, this.#lease];
    this.#filters = new EventFilters(clock);
    this.#dueTimer = createDueTimer({ clock, scheduler });
    this.#outages = createOutages({ ...shared, scheduler, dueTimer: this.#dueTimer, ended });
    const filters = this.#filters;
    const heldBack: PrefetchDeps['heldBack'] = (...args) => this.#sender.heldBack(...args);
    this.#prefetch = createPrefetch({ ...shared, scheduler, lease, isShared, filters, heldBack });
    const parts = {
      ...shared,
      scheduler,
      lease,
      settler: this.#settler,
      backoffs: this.#backoffs,
      outages: this.#outages,
      dueTimer: this.#dueTimer,
      prefetch: this.#prefetch,
      refresh: (runner: Runner) => this.#ownership.refresh(runner),
    };
    this.#sender = createSender({
      ...parts,
      time: store.time,
      transport,
      webhookKeys,
      shortages: deps.shortages,
      taken: (runner, bodyBytes) => this.#prefetch.taken(runner, bodyBytes),
    });
    this.#dueClaims = createDueClaims({
      ...parts,
      begin: (runner, row, slot) => this.#beginDue(runner, row, slot),
      unused: (runner, slots) => this.#rates.returned(runner, slots),
      exhausted: (runner) => this.#ownership.releaseIfIdle(runner),
    });
    this.#replays = createReplays({ ...parts, store: store.replays, filters });
    const senders = { sender: this.#sender, dueClaims: this.#dueClaims, replays: this.#replays };
    this.#ownership = createOwnership({ ...parts, ...senders, ownership: store.ownership });
    this.#poll = createPoll({ ...parts, ...senders, ownership: this.#ownership });
  }

  /** Begins to receive hints, to claim streams and to send. */
  open(): void {
    this.#unwatch = this.#deps.store.watch((hint) => this.#onHint(hint));
    this.#lease.start();
    this.#poll.start();
  }

  /**
   * Begins no more attempts; resolves when those under way are recorded and every stream is
   * released.
   */
  async drain(): Promise<void> {
    this.#beginNoMore();
    for (const runner of this.#ownership.runners.values()) this.#dueClaims.resume(runner);
    await this.#waiters.until(() => this.#scheduler.inFlight === 0);
    await this.#serialQueue(() => this.#settler.settleNow());
    await this.#ownership.releaseAll();
  }

  /** Reads the heads of all logs: the store responds again, and hints were lost meanwhile. */
  recovered(): void {
    void this.#poll.dropTails();
  }

  /** Cuts off every attempt. */
  cutOff(): void {
    for (const runner of this.#ownership.runners.values()) {
      runner.state = 'gone';
      this.#sender.cutOff(runner);
    }
  }

  /** Stops everything at once, without another command to the store. */
  close(): void {
    this.#unwatch?.();
    this.#beginNoMore();
    this.#lease.close();
    this.#sender.close();
    this.#settler.close();
  }

  state(): DispatcherState {
    const { runners, tails } = this.#ownership;
    return {
      holdsLease: this.#lease.isHeld,
      streams: runners.size,
      inFlight: this.#scheduler.inFlight,
      inFlightBytes: this.#scheduler.inFlightBytes,
      unsettled: this.#settler.unsettled,
      waiting: this.#scheduler.waiting,
      behind: countBehind(runners.values()),
      queuedBytes: this.#prefetch.queuedBytes,
      tailBytes: tails.values().reduce((total, { bytes }) => total + bytes, 0),
      storeFails: this.#deps.storeRetry.isRetrying,
    };
  }

  /** The longest timeout of an attempt of its streams. */
  timeoutMs(): number {
    const { attemptTimeoutMs } = this.#deps.settings;
    const runners = this.#ownership.runners.values();
    return runners.reduce(
      (longest, { stream }) => Math.max(longest, stream.delivery?.timeoutMs ?? 0),
      attemptTimeoutMs,
    );
  }

  /** The backlog of each enabled stream. */
  backlogs(): Iterable<Backlog> {
    const runners = this.#ownership.runners.values();
    return runners.filter(({ enabled }) => enabled).map(backlogOf);
  }

  /** Resolves when there is nothing to do now. */
  idle(): Promise<void> {
    return this.#waiters.until(() => this.#isIdle());
  }

  #isIdle(): boolean {
    return (
      this.#scheduler.inFlight === 0 &&
      this.#scheduler.preparing === 0 &&
      this.#settler.unsettled === 0 &&
      this.#prefetch.reads === 0 &&
      !this.#replays.isBusy &&
      !this.#outages.isBusy &&
      !this.#ownership.isBusy
    );
  }

  #beginNoMore(): void {
    this.#scheduler.close();
    this.#poll.close();
    this.#prefetch.close();
    this.#filters.close();
    this.#dueTimer.close();
    this.#backoffs.close();
    this.#rates.close();
    this.#outages.close();
    this.#dueClaims.close();
    this.#replays.close();
    this.#ownership.close();
  }

  // What one part reports and others act on

  #onHint(hint: Hint): void {
    const ownership = this.#ownership;
    if (hint.kind === 'stream') ownership.changed(hint);
    if (hint.kind === 'free' || hint.kind === 'missed') ownership.claim();
    if (hint.kind === 'missed') void this.#poll.dropTails();
    if (hint.kind !== 'appended' && hint.kind !== 'head') return;
    const { tenant } = hint;
    const tail = ownership.tails.get(tenant);
    if (tail === undefined) return ownership.claimNext(tenant);
    if (hint.kind === 'head') return this.#prefetch.reached(tenant, tail, hint.head);
    this.#prefetch.appended(tenant, tail, hint.events);
    this.#scheduler.dispatch();
  }

  #leaseRenewed(changed: readonly StreamRef[], shareGrew: boolean): void {
    this.#ownership.refreshMissed(changed);
    this.#ownership.rebalance();
    if (shareGrew) this.#ownership.claim();
  }

  #leaseRegained(): void {
    this.#ownership.refreshAll();
    this.#ownership.claim();
  }

  #nodeReplaced(): void {
    const { node, report } = this.#deps;
    const text =
      `Another process has joined as "${node.id}", so this one delivers nothing any more: ` +
      'processes that share a store need names of their own.';
    report({ kind: 'unexpected', error: new Error(text) });
  }

  /**
   * Returns whether attempts may begin: the lease is held, and fewer outcomes wait for the store
   * than fit in one batch and one per slot.
   */
  #mayBegin(): boolean {
    const { settleMax, concurrency } = this.#deps.settings;
    return this.#lease.isHeld && this.#settler.unsettled < settleMax + concurrency;
  }

  #begin(runner: Runner, work: Work, slot: Slot): void {
    if (work === 'fresh') {
      this.#rates.begun(runner);
      this.#sender.beginFresh(runner, slot);
    } else {
      this.#rates.reserved(runner);
      this.#dueClaims.grant(runner, slot);
    }
  }

  #beginDue(runner: Runner, row: Delivery, slot: Slot): void {
    this.#rates.reservedBegun(runner);
    this.#sender.beginDue(runner, row, slot);
  }

  #dispatched(): void {
    this.#replays.pump();
    this.#waiters.check();
  }

  #pauseEnded(runner: Runner): void {
    this.#scheduler.enqueue(runner);
    this.#replays.enqueue(runner);
    this.#scheduler.dispatch();
  }

  /** A runner's part of a batch is in the store, or the stream is not this node's any more. */
  #settled(runner: Runner, settlement: Settlement, settled: SettledStream): void {
    const { outcomes, cursor } = settlement;
    const { health, disabledBy: reason } = settled;
    const { tenant, id: stream } = runner;
    // The store does not raise the cursor over a change that this node has not read, nor of a later
    // run.
    const durable = Math.min(cursor, settled.cursor);
    const rows = outcomes.reduce((sum, outcome) => sum + rowsAdded(outcome), 0);
    runner.settled(outcomes.length, rows, durable);
    runner.counters.settled(outcomes, health);
    for (const outcome of outcomes) {
      if (outcome.kind === 'replay') runner.replayPending -= 1;
      if (endsReplayed(outcome)) runner.replayRows = Math.max(0, runner.replayRows - 1);
      if (outcome.result === 'retry') this.#dueTimer.note(runner, outcome.delayMs);
      if (outcome.result === 'parked' && outcome.hasEnded) {
        this.#dueTimer.note(runner, outcome.leaseMs);
      }
    }
    if (reason !== undefined) {
      this.#deps.report({ kind: 'stream_disabled', tenant, stream, health, reason });
    }
    if (settled.result === 'recorded') this.#ownership.recorded(runner);
    if (settled.result === 'recorded' && runner.order !== undefined) {
      runner.order.settled(settlement);
      this.#prefetch.fill(runner);
    }
    // Also when the stream is lost: its version is 0 then.
    const isChanged = settled.version !== runner.stream.version || settled.keysChanged === true;
    if (isChanged) this.#ownership.refresh(runner);
    this.#scheduler.enqueue(runner);
    this.#replays.enqueue(runner);
    this.#ownership.releaseIfIdle(runner);
  }
}

/** Returns whether a row of a replay does not wait any more after this outcome. */
function endsReplayed({ kind, result }: Outcome): boolean {
  return kind === 'replay' && (result === 'delivered' || result === 'failed');
}

function countBehind(runners: Iterable<Runner>): number {
  let behind = 0;
  for (const runner of runners) if (runner.sends && !runner.following) behind += 1;
  return behind;
}

/** Callers that wait for a condition. */
class Waiters {
  #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];

  /** Resolves once the condition is met, at the latest at the next {@link check} after that. */
  until(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      if (isMet()) resolve();
      else this.#waiting.push({ isMet, resolve });
    });
  }

  /** Resolves for those whose condition is met by now. */
  check(): void {
    if (this.#waiting.length === 0) return;
    const met = this.#waiting.filter(({ isMet }) => isMet());
    this.#waiting = this.#waiting.filter((waiter) => !met.includes(waiter));
    for (const { resolve } of met) resolve();
  }
}
