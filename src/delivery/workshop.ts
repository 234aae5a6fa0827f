import type { Hint, Node, SettledStream, Store } from '../store/port.ts';
import { rowsMore } from './attempt.ts';
import { createClaims } from './claims.ts';
import type { DispatcherDeps, DispatcherState } from './dispatcher.ts';
import { createDue } from './due.ts';
import { createFeed } from './feed.ts';
import { createOwnership } from './ownership.ts';
import { createLane, type Patience } from './patience.ts';
import { createPoll } from './poll.ts';
import { createRota } from './rota.ts';
import type { Runner } from './runner.ts';
import { createSender } from './sender.ts';
import { createSettler, type SettledPart } from './settler.ts';

/** The parts of a dispatcher at work, each made with what it needs of the others. */
export interface Workshop {
  /** Begins to hear of changes, to claim streams and to work for them. */
  open(watch: Store['watch']): void;
  /** Begins nothing more; resolves when what was under way is recorded and every stream given up. */
  drain(): Promise<void>;
  /** The store answers again after an outage. */
  recovered(): void;
  /** Cuts off every attempt. */
  cutOff(): void;
  /** Stops everything at once, without a word to the store. */
  close(): void;
  state(): DispatcherState;
  idle(): Promise<void>;
}

export function createWorkshop(
  deps: DispatcherDeps & { readonly node: Node; readonly patience: Patience },
): Workshop {
  const { clock, settings, report, patience, node } = deps;
  const { log, deliveries } = deps.store;
  const lane = createLane();
  const shared = { clock, settings, report, patience, node, lane, log, deliveries };
  /** Results may wait for the store in the number that may be under way, and no more. */
  const unsettledMax = settings.settleMax + settings.concurrency;
  const waiters: { isOver: () => boolean; resolve: () => void }[] = [];
  let unwatch: (() => void) | undefined;

  const rota = createRota({
    settings,
    mayBegin: () => settler.unsettled < unsettledMax,
    begin: (runner, work) => {
      if (work === 'fresh') sender.beginFresh(runner);
      else claims.grant(runner);
    },
    pumped: () => notice(),
  });
  const settler = createSettler({
    ...shared,
    settled: (runner, settled, part) => settle(runner, settled, part),
    batchSettled: () => rota.pump(),
    abandon: (runner) => ownership.lose(runner),
  });
  const due = createDue({ clock, rota });
  const feed = createFeed({ ...shared, rota });
  const sender = createSender({ ...shared, ...deps, settler, rota, taken: feed.taken });
  const claims = createClaims({
    ...shared,
    ...{ settler, rota, begin: sender.beginDue, note: due.note },
  });
  const ownership = createOwnership({
    ...shared,
    ...{ ownership: deps.store.ownership, settler, feed, due, claims, sender, rota },
  });
  const poll = createPoll({ ...shared, ownership, feed, due });

  const settle = (runner: Runner, settled: SettledStream, part: SettledPart): void => {
    runner.settled(part.outcomes.length, sum(part.outcomes.map(rowsMore)), part.cursor);
    if (settled.result === 'lost') return ownership.lose(runner);
    for (const outcome of part.outcomes) {
      if (outcome.result === 'retry') due.note(runner, outcome.dueAt);
    }
    if (settled.disabled !== undefined) {
      const { reason, ...health } = settled.disabled;
      const { tenant, id: stream } = runner;
      report({ kind: 'stream_disabled', tenant, stream, health, reason });
    }
    if (settled.version !== runner.stream.version) ownership.look(runner);
    rota.tell(runner);
    ownership.rest(runner);
  };
  const hear = (hint: Hint): void => {
    if (hint.kind === 'stream') ownership.changed(hint);
    if (hint.kind !== 'appended') return;
    const tail = ownership.tails.get(hint.tenant);
    if (tail === undefined) return;
    feed.appended(tail, hint.events);
    rota.pump();
  };

  const isIdle = (): boolean =>
    rota.inFlight === 0 && settler.unsettled === 0 && feed.reads === 0 && !ownership.isBusy;
  const notice = (): void => {
    for (const waiter of waiters.splice(0)) {
      if (waiter.isOver()) waiter.resolve();
      else waiters.push(waiter);
    }
  };
  const until = (isOver: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      if (isOver()) resolve();
      else waiters.push({ isOver, resolve });
    });
  const stop = (): void => {
    rota.close();
    poll.close();
    feed.close();
    due.close();
    claims.close();
    ownership.close();
  };

  return {
    open: (watch) => {
      unwatch = watch(hear);
      ownership.claim();
      poll.start();
    },
    drain: async () => {
      stop();
      for (const runner of ownership.runners.values()) claims.resume(runner);
      await until(() => rota.inFlight === 0);
      await lane(settler.settleNow);
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
      stop();
      sender.close();
      settler.close();
    },
    state: () => ({
      streams: ownership.runners.size,
      inFlight: rota.inFlight,
      unsettled: settler.unsettled,
      waiting: rota.waiting,
      behind: countBehind(ownership.runners.values()),
      storeFails: patience.isTried,
    }),
    idle: () => until(isIdle),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function countBehind(runners: Iterable<Runner>): number {
  let behind = 0;
  for (const runner of runners) if (runner.enabled && !runner.following) behind += 1;
  return behind;
}
