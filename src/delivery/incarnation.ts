import type { Hint } from '../store/port/hints.ts';
import type { Node } from '../core/types.ts';
import type { SettledStream, Settlement } from '../store/port/settlement.ts';
import { type Backlog, backlogOf } from './backlog.ts';
import { createBackoffs, type Backoffs } from './backoffs.ts';
import { createDueClaims, type DueClaims } from './prefetch/due-claims.ts';
import type { Clock } from '../core/clock.ts';
import { createSerialQueue, type SerialQueue } from '../core/serial-queue.ts';
import type { Store } from '../store/port/store.ts';
import type { DeliveryReport } from './report.ts';
import type { DeliverySettings } from './settings.ts';
import type { Transport } from './http/transport.ts';
import { createDueTimer, type DueTimer } from './prefetch/due-timer.ts';
import { createPrefetch, type Prefetch } from './prefetch/prefetch.ts';
import { createOwnership, type Ownership } from './ownership.ts';
import { createLease, type Lease } from './lease.ts';
import { rowsAdded } from './outcome.ts';
import type { StoreRetry } from './store-retry.ts';
import { createPoll, type Poll } from './prefetch/poll.ts';
import { createReplays, type Replays } from './replays.ts';
import { createScheduler, type Scheduler } from './scheduler.ts';
import type { Runner } from './runner.ts';
import { createSender, type Sender } from './sender.ts';
import { createSettler, type Settler } from './settler.ts';

export interface DispatcherDeps {
  readonly store: Pick<Store, 'log' | 'deliveries' | 'replays' | 'ownership' | 'time' | 'watch'>;
  readonly transport: Pick<Transport, 'prepare' | 'isReady' | 'post'>;
  readonly clock: Clock;
  readonly settings: DeliverySettings;
  readonly report: (event: DeliveryReport) => void;
  /** Tells nodes on one store apart; a former process of the same name counts as ended. */
  readonly nodeId?: string | undefined;
}

/** How a dispatcher stands, for `/readyz` and metrics. */
export interface DispatcherState {
  /** The node's lease is in force: false until it has joined, and when it cannot renew in time. */
  readonly holdsLease: boolean;
  /** Streams that this node works for. */
  readonly streams: number;
  readonly inFlight: number;
  /** Bytes of bodies of attempts under way. */
  readonly inFlightBytes: number;
  /** Results that are not in the store yet. */
  readonly unsettled: number;
  /** Streams that have something to send and wait for a slot of the node. */
  readonly waiting: number;
  /** Streams that do not stand at the head of their log. */
  readonly behind: number;
  /** Characters of bodies that wait in memory to be sent. */
  readonly queuedBytes: number;
  /** Characters of bodies in memory because their events are the newest of their logs. */
  readonly tailBytes: number;
  /** The store has failed and what failed is being repeated. */
  readonly storeFails: boolean;
}

/** A dispatcher at work as one node, from its joining to its end. */
export interface Incarnation {
  /** Begins to hear of changes, to claim streams and to work for them. */
  open(): void;
  /** Begins nothing more; resolves when what was under way is recorded and every stream given up. */
  drain(): Promise<void>;
  /** The store answers again after an outage. */
  recovered(): void;
  /** Cuts off every attempt. */
  cutOff(): void;
  /** Stops everything at once, without a word to the store. */
  close(): void;
  state(): DispatcherState;
  backlogs(): Iterable<Backlog>;
  idle(): Promise<void>;
}

export interface IncarnationDeps extends DispatcherDeps {
  readonly node: Node;
  readonly storeRetry: StoreRetry;
}

/** See {@link Incarnation}. */
export function createIncarnation(deps: IncarnationDeps): Incarnation {
  const waiters = createWaiters();
  const parts = createParts(deps, waiters.notice);
  const { scheduler, settler, prefetch, sender, dueClaims, replays } = parts;
  const { ownership, serialQueue, lease, due, poll, backoffs } = parts;
  let unwatch: (() => void) | undefined;

  const isIdle = (): boolean =>
    scheduler.inFlight === 0 &&
    scheduler.preparing === 0 &&
    settler.unsettled === 0 &&
    prefetch.reads === 0 &&
    !replays.isBusy &&
    !ownership.isBusy;
  const beginNothing = (): void => {
    for (const part of [scheduler, poll, prefetch, due, backoffs, dueClaims, replays, ownership]) {
      part.close();
    }
  };

  return {
    open: () => {
      unwatch = deps.store.watch((hint) => onHint(parts, hint));
      lease.start();
      poll.start();
    },
    drain: async () => {
      beginNothing();
      for (const runner of ownership.runners.values()) dueClaims.resume(runner);
      await waiters.until(() => scheduler.inFlight === 0);
      await serialQueue(() => settler.settleNow());
      await ownership.releaseAll();
    },
    recovered: () => void poll.dropTails(),
    cutOff: () => {
      for (const runner of ownership.runners.values()) {
        runner.state = 'gone';
        sender.cutOff(runner);
      }
    },
    close: () => {
      unwatch?.();
      beginNothing();
      lease.close();
      sender.close();
      settler.close();
    },
    state: () => ({
      holdsLease: lease.isHeld,
      streams: ownership.runners.size,
      inFlight: scheduler.inFlight,
      inFlightBytes: scheduler.inFlightBytes,
      unsettled: settler.unsettled,
      waiting: scheduler.waiting,
      behind: countBehind(ownership.runners.values()),
      queuedBytes: prefetch.queuedBytes,
      tailBytes: ownership.tails.values().reduce((total, { bytes }) => total + bytes, 0),
      storeFails: deps.storeRetry.isRetrying,
    }),
    backlogs: () => ownership.runners.values().filter(isEnabled).map(backlogOf),
    idle: () => waiters.until(isIdle),
  };
}

/** What a dispatcher consists of; each part knows of the others what it was handed. */
interface Parts {
  readonly serialQueue: SerialQueue;
  readonly scheduler: Scheduler;
  readonly settler: Settler;
  readonly due: DueTimer;
  readonly prefetch: Prefetch;
  readonly backoffs: Backoffs;
  readonly sender: Sender;
  readonly dueClaims: DueClaims;
  readonly replays: Replays;
  readonly ownership: Ownership;
  readonly poll: Poll;
  readonly lease: Lease;
}

function createParts(deps: IncarnationDeps, pumped: () => void): Parts {
  const { clock, settings, report, storeRetry, node, transport } = deps;
  const { log, deliveries, replays: stored, ownership: owners, time } = deps.store;
  const serialQueue = createSerialQueue();
  const shared = { clock, settings, report, storeRetry, node, serialQueue, log, deliveries };

  const lease = createLease({
    ...shared,
    ownership: owners,
    regained: () => {
      ownership.refreshAll();
      ownership.claim();
    },
    replaced: () => report({ kind: 'unexpected', error: new Error(replacedText(node)) }),
    renewed: ({ changed }, grew) => {
      ownership.refreshMissed(changed);
      ownership.rebalance();
      if (grew) ownership.claim();
    },
  });
  const isShared = (): boolean => ownership.isShared;
  const scheduler = schedulerOf(deps, { isShared, parts: () => parts, dispatched: pumped });
  const settler = createSettler({
    ...shared,
    settled: (runner, settlement, settled) => settle(runner, settlement, settled, parts, report),
    batchSettled: () => scheduler.dispatch(),
    abandon: (runner) => ownership.drop(runner),
  });
  const due = createDueTimer({ clock, scheduler });
  const prefetch = createPrefetch({ ...shared, scheduler, isShared });
  const taken = (runner: Runner, bytes: number): void => prefetch.taken(runner, bytes);
  const backoffs = backoffsOf(deps, () => parts);
  const around = { settler, prefetch, scheduler, backoffs };
  const sender = createSender({ ...shared, ...around, time, transport, taken });
  const dueClaims = createDueClaims({
    ...shared,
    settler,
    scheduler,
    lease,
    begin: (runner, row, slot) => sender.beginDue(runner, row, slot),
    note: (runner, inMs) => due.note(runner, inMs),
    exhausted: (runner) => ownership.releaseIfIdle(runner),
  });
  const replays = createReplays({
    ...shared,
    store: stored,
    scheduler,
    note: (runner, inMs) => due.note(runner, inMs),
    lost: (runner) => ownership.refresh(runner),
  });
  const others = { ...around, due, dueClaims, replays, sender, lease };
  const ownership = createOwnership({ ...shared, ...others, ownership: owners });
  const poll = createPoll({ ...shared, ownership, prefetch, due, replays });
  const parts = {
    serialQueue,
    scheduler,
    settler,
    due,
    prefetch,
    backoffs,
    sender,
    dueClaims,
    replays,
    ownership,
    poll,
    lease,
  };
  return parts;
}

/** The parts that it calls are made after it. */
function schedulerOf(
  { settings, clock }: IncarnationDeps,
  around: {
    readonly isShared: () => boolean;
    readonly parts: () => Parts;
    readonly dispatched: () => void;
  },
): Scheduler {
  const { isShared, parts, dispatched } = around;
  /** Results may wait for the store in the number that may be under way, and no more. */
  const unsettledMax = settings.settleMax + settings.concurrency;
  return createScheduler({
    clock,
    settings,
    isShared,
    dispatched: () => {
      parts().replays.pump();
      dispatched();
    },
    mayBegin: () => parts().lease.isHeld && parts().settler.unsettled < unsettledMax,
    prepare: (runner) => parts().sender.prepare(runner),
    isReady: (runner) => parts().sender.isReady(runner),
    begin: (runner, work, slot) => {
      if (work === 'fresh') parts().sender.beginFresh(runner, slot);
      else parts().dueClaims.grant(runner, slot);
    },
  });
}

function backoffsOf({ clock, settings }: IncarnationDeps, parts: () => Parts): Backoffs {
  return createBackoffs({
    clock,
    settings,
    passed: (runner) => {
      const { scheduler, replays } = parts();
      scheduler.enqueue(runner);
      replays.enqueue(runner);
      scheduler.dispatch();
    },
  });
}

const replacedText = ({ id }: Node): string =>
  `Another process has joined as "${id}", so this one delivers nothing any more: ` +
  'processes that share a store need names of their own.';

/** A runner's part of a batch is in the store, or the stream is not this node's any more. */
function settle(
  runner: Runner,
  { outcomes, cursor }: Settlement,
  settled: SettledStream,
  { ownership, due, replays, scheduler }: Parts,
  report: DispatcherDeps['report'],
): void {
  const { tenant, id: stream } = runner;
  // The store may know of a change before which it has to stay, or of a later run.
  const durable = Math.min(cursor, settled.cursor);
  runner.settled(outcomes.length, sum(outcomes.map(rowsAdded)), durable);
  runner.replayPending -= outcomes.filter(({ kind }) => kind === 'replay').length;
  for (const outcome of outcomes) {
    if (outcome.result === 'retry') due.note(runner, outcome.delayMs);
  }
  if (settled.disabled !== undefined) {
    const { reason, ...health } = settled.disabled;
    report({ kind: 'stream_disabled', tenant, stream, health, reason });
  }
  // The version of a stream that is lost is none.
  if (settled.version !== runner.stream.version) ownership.refresh(runner);
  scheduler.enqueue(runner);
  replays.enqueue(runner);
  ownership.releaseIfIdle(runner);
}

function onHint({ ownership, prefetch, scheduler, poll }: Parts, hint: Hint): void {
  if (hint.kind === 'stream') ownership.changed(hint);
  if (hint.kind === 'free' || hint.kind === 'missed') ownership.claim();
  if (hint.kind === 'missed') void poll.dropTails();
  if (hint.kind !== 'appended' && hint.kind !== 'head') return;
  const { tenant } = hint;
  const tail = ownership.tails.get(tenant);
  if (tail === undefined) return ownership.refreshTails(tenant);
  if (hint.kind === 'head') return prefetch.reached(tenant, tail, hint.head);
  prefetch.appended(tenant, tail, hint.events);
  scheduler.dispatch();
}

interface Waiters {
  /** Something may be over. */
  readonly notice: () => void;
  readonly until: (isOver: () => boolean) => Promise<void>;
}

function createWaiters(): Waiters {
  let waiting: { isOver: () => boolean; resolve: () => void }[] = [];
  return {
    notice: () => {
      if (waiting.length === 0) return;
      const over = waiting.filter(({ isOver }) => isOver());
      waiting = waiting.filter((waiter) => !over.includes(waiter));
      for (const { resolve } of over) resolve();
    },
    until: (isOver) =>
      new Promise((resolve) => {
        if (isOver()) resolve();
        else waiting.push({ isOver, resolve });
      }),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const isEnabled = ({ enabled }: Runner): boolean => enabled;

function countBehind(runners: Iterable<Runner>): number {
  let behind = 0;
  for (const runner of runners) if (runner.enabled && !runner.following) behind += 1;
  return behind;
}
