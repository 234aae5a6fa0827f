import type { Clock } from '../../src/core/clock.ts';
import { StoreReplaced, StoreUnavailable } from '../../src/core/errors.ts';
import { createFailureSteps, type FailureSteps } from '../../src/api/failure-steps.ts';
import { sleep } from '../../src/core/sleep.ts';
import { createDispatcher, type Dispatcher } from '../../src/delivery/dispatcher.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import { createSigningTransport } from '../../src/delivery/signing-transport.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Node } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createMonotonicClock, createWallClock, holdingTimers } from './clocks.ts';
import { createPrng } from './prng.ts';
import { namesOf } from './names.ts';
import type { StepOf } from './plan.ts';
import { storeOf } from './process-store.ts';
import { noKeys } from '../helpers/transport.ts';
import { transportOf } from './process-transport.ts';
import { removeLeaving } from '../../src/upkeep/tenant-removal.ts';
import { runUpkeep } from './upkeep.ts';
import type { Simulation } from './simulation.ts';

/** One process of Leat: a real dispatcher with a simulated network and clock. */
export interface Process {
  readonly name: string;
  readonly state: 'up' | 'frozen' | 'leaving' | 'down';
  readonly dispatcher: Dispatcher;
  /** The store as operators reach it through this process. */
  readonly store: Store;
  readonly clock: Clock;
  /** Works on requests about many failures. */
  readonly failureSteps: Pick<FailureSteps, 'begin'>;
  jumpClock(ms: number): void;
  /** Stops its wall clock. */
  stopClock(ms: number): void;
  /** Suspends it along with its machine: the monotonic clock stops, too. */
  suspend(ms: number): void;
  /** Freezes it at the `command`-th next store command; 0 is at once. */
  freeze(command: number, ms: number): void;
  /** Ends its faults. */
  repair(): void;
  /** Crashes it at the `command`-th next store command; 0 is at once. */
  crash(command: number, phase: StepOf<'crash'>['phase']): void;
  /** Ends it in an orderly way. */
  leave(): void;
}

/** The result of the last join of a process. */
export interface Joined {
  node: Node | undefined;
  /** The generation of that store. */
  generation: number;
}

/** Commands that PostgreSQL refuses after the store was replaced; see docs/adr/0020. */
const guardedCommands: ReadonlySet<string> = new Set(
  (
    'append head page firstSince settle claimDue feed ' +
    'heartbeat claim begin owned raiseCursors release leave'
  ).split(' '),
);

/** A command of an ended process never settles. One promise each: a shared one would keep its listeners. */
const never = (): Promise<never> => new Promise(() => undefined);

/** Starts a process; calls `ended` once it has ended in any way. */
export function startProcess(simulation: Simulation, name: string, ended: () => void): Process {
  const { timeline, oracle, sharedStore, plan } = simulation;
  const prng = createPrng(plan.seed, name);
  let state: Process['state'] = 'up';
  const wall = createWallClock(timeline);
  const monotonic = createMonotonicClock(timeline);
  let isSuspended = false;
  /** The fault planned for one of its next commands. */
  let plannedFault:
    | { command: number; readonly what: StepOf<'crash'>['phase'] | { freezesMs: number } }
    | undefined;
  const joined: Joined = { node: undefined, generation: sharedStore.generation };
  let frozenUntilMs = 0;
  const abort = new AbortController();
  /** Held while the process is frozen. */
  const heldHints: (() => void)[] = [];
  const heldTimers: (() => void)[] = [];
  const heldResults: (() => void)[] = [];

  const isRunning = (): boolean => state === 'up' || state === 'leaving';
  const runOrHold = (held: (() => void)[], action: () => void): void => {
    if (isRunning()) action();
    else if (state === 'frozen') held.push(action);
  };
  const deliver = (action: () => void): void => runOrHold(heldResults, action);
  const schedule = (delayMs: number, action: () => void): void => {
    if (delayMs === 0) action();
    else timeline.after(delayMs, action);
  };
  const terminate = (how: string): void => {
    if (state === 'down') return;
    state = 'down';
    if (joined.node !== undefined) oracle.attempts.ended(joined.node);
    unwatch();
    simulation.noteFault();
    simulation.note(name, how);
    ended();
  };

  // The store behind a network that may fail

  const delayFor = (what: string): number => {
    const { slow, slowMs, slowPages, hintsLate } = simulation.faultRates();
    const more = what === 'page' ? slowPages : what === 'hint' ? hintsLate : 0;
    const share = Math.max(slow, more);
    if (slowMs === 0 || !prng.chance(share)) return 0;
    simulation.noteDelay();
    return prng.between(1, slowMs);
  };
  const execute = async <T>(what: string, run: () => Promise<T>): Promise<T> => {
    const { refused, resultsLost } = simulation.faultRates();
    if (simulation.isStoreDown() || prng.chance(refused)) {
      simulation.noteFault();
      simulation.note(name, `${what}: the store is unavailable`);
      throw new StoreUnavailable('simulated');
    }
    const result = await run();
    if (!prng.chance(resultsLost) || what === 'append') return result;
    simulation.noteFault();
    simulation.note(name, `${what}: the result is lost`);
    throw new StoreUnavailable('the result is lost');
  };
  const takeFault = () => {
    if (plannedFault === undefined) return undefined;
    plannedFault.command -= 1;
    if (plannedFault.command > 0) return undefined;
    const { what } = plannedFault;
    plannedFault = undefined;
    return what;
  };
  const freeze = (ms: number, how: string): void => {
    if (!isRunning()) return;
    simulation.noteFault();
    simulation.note(name, `${isSuspended ? 'is suspended' : 'freezes'} for ${ms} ms${how}`);
    state = 'frozen';
    frozenUntilMs = timeline.nowMs + ms;
    timeline.after(ms, () => {
      if (timeline.nowMs >= frozenUntilMs) wake();
    });
  };
  /** A store that was restored refuses commands that rely on the memory of the process. */
  const guarded = <T>(what: string, run: () => Promise<T>): (() => Promise<T>) => {
    const sentTo = joined.generation;
    return () => {
      // Its connection ended when the store was replaced.
      if (state === 'down' && sentTo !== sharedStore.generation) {
        return Promise.reject(new StoreUnavailable('gone'));
      }
      if (guardedCommands.has(what) && sentTo !== sharedStore.generation) {
        simulation.note(name, `${what}: the store was replaced`);
        return Promise.reject(new StoreReplaced('The store was restored.'));
      }
      return run();
    };
  };
  const command = <T>(what: string, options: () => Promise<T>): Promise<T> => {
    if (state === 'down') return never();
    const run = guarded(what, options);
    oracle.attempts.checkMemory(name, dispatcher.state());
    const fault = takeFault();
    if (fault === 'before') {
      terminate(`crashes before ${what}`);
      return never();
    }
    if (fault === 'late') terminate(`crashes, ${what} is still on its way`);
    return new Promise((resolve, reject) => {
      schedule(fault === 'late' ? prng.between(50, 2000) : delayFor(what), () => {
        // Another process may have its name by now, and only one may join with a name.
        if (state === 'down' && what === 'join') return;
        const answered = execute(what, run);
        if (fault === 'after') terminate(`crashes, ${what} takes effect`);
        if (typeof fault === 'object') freeze(fault.freezesMs, `, ${what} takes effect`);
        answered.then(
          (value) => schedule(delayFor(what), () => deliver(() => resolve(value))),
          (error: unknown) => schedule(delayFor(what), () => deliver(() => reject(error))),
        );
      });
    });
  };
  const listeners = new Set<(hint: Hint) => void>();
  const store = storeOf(simulation, { name, joined, command, listeners });
  const onHint = (reported: Hint): void => {
    // Until it has joined it listens for a replaced store only.
    if (listeners.size < 2 && reported.kind !== 'replaced') return;
    const reportedBy = sharedStore.generation;
    const { hintsLost, hintsRepeated } = simulation.faultRates();
    const arrives = (): void => {
      schedule(delayFor('hint'), () =>
        runOrHold(heldHints, () => {
          for (const listener of listeners) listener(hintNow(reported, reportedBy));
        }),
      );
    };
    if (prng.chance(hintsLost)) simulation.noteDelay();
    else arrives();
    if (prng.chance(hintsRepeated)) arrives();
  };

  const unwatch = sharedStore.store.watch(onHint);
  /** Events and heads of another generation of the store are replaced by a hint to poll. */
  const hintNow = (hint: Hint, reportedBy: number): Hint => {
    const isOfLog = hint.kind === 'appended' || hint.kind === 'head';
    return isOfLog && reportedBy !== joined.generation ? { kind: 'missed' } : hint;
  };

  // Time and the receivers

  const clock: Clock = {
    now: wall.now,
    elapsedMs: monotonic.elapsedMs,
    after: holdingTimers(monotonic, (action) => runOrHold(heldTimers, action)),
  };
  const namePrng = createPrng(plan.seed, `names of ${name}`);
  const names = namesOf(simulation, { prng: namePrng, clock, schedule, deliver });
  const isDead = (): boolean => state === 'down';
  const reach = { name, joined, prng, names, clock, isDead, schedule, deliver };
  const transport = transportOf(simulation, reach);
  const report = (event: DeliveryReport): void => {
    if (event.kind === 'unexpected' || event.kind === 'settle_stuck') {
      const { error } = event;
      oracle.violate('unexpected', error instanceof Error ? (error.stack ?? '') : String(error));
    }
    if (event.kind === 'stream_disabled') {
      simulation.note(name, `${simulation.label(event.stream)} is disabled: ${event.reason}`);
    }
    if (event.kind === 'stream_owned') {
      const stream = oracle.streams.get(event.stream);
      if (stream !== undefined) stream.takeovers += 1;
    }
    if ('error' in event && 'stream' in event) {
      const stream = oracle.streams.get(event.stream);
      if (stream !== undefined) oracle.results.checkText(stream, String(event.error));
    }
  };
  const dispatcher = createDispatcher({
    store,
    transport: createSigningTransport(transport, (error) => report({ kind: 'unexpected', error })),
    webhookKeys: noKeys,
    clock,
    settings: plan.settings,
    report,
    nodeId: name,
  });
  simulation.noteFault();
  simulation.note(name, 'starts');
  runUpkeep(simulation, { name, store, clock, prng, signal: abort.signal });
  if (plan.steps.some((step) => step.do === 'removeTenant')) {
    const log = {
      info: (about: unknown) => simulation.note(name, `removed ${JSON.stringify(about)}`),
      error: (about: unknown) => {
        const { err } = about as { readonly err: unknown };
        if (!(err instanceof StoreUnavailable)) oracle.violate('unexpected', String(err));
        simulation.note(name, 'the removal of a tenant is interrupted');
      },
    };
    void removeLeaving(store, { clock, log }, abort.signal);
  }
  dispatcher.run(abort.signal).then(
    () => terminate('has left'),
    (error: unknown) => oracle.violate('unexpected', String(error)),
  );

  const wake = (): void => {
    if (state !== 'frozen') return;
    if (isSuspended && joined.node !== undefined) oracle.leases.resumed(joined.node);
    isSuspended = false;
    monotonic.resume();
    state = abort.signal.aborted ? 'leaving' : 'up';
    simulation.noteFault();
    simulation.note(name, 'wakes');
    for (const action of heldHints.splice(0)) action();
    // An event loop runs due timers first, or results that arrived before.
    const [first, second] = prng.chance(0.7)
      ? [heldTimers, heldResults]
      : [heldResults, heldTimers];
    for (const action of [...first.splice(0), ...second.splice(0)]) {
      timeline.after(0, () => deliver(action));
    }
  };
  return {
    name,
    dispatcher,
    store,
    get state() {
      return state;
    },
    clock,
    failureSteps: createFailureSteps({
      clock,
      pause: () => sleep(clock, 0),
      log: { warn: (_, message) => simulation.note(name, message) },
    }),
    jumpClock: wall.jump,
    stopClock: wall.stop,
    suspend: (ms) => {
      if (!isRunning()) return;
      isSuspended = true;
      monotonic.suspend();
      freeze(ms, '');
    },
    repair: () => {
      wall.repair();
      plannedFault = undefined;
      wake();
    },
    freeze: (commandNumber, ms) => {
      if (commandNumber === 0) freeze(ms, '');
      else plannedFault = { command: commandNumber, what: { freezesMs: ms } };
    },
    crash: (commandNumber, phase) => {
      if (commandNumber === 0) terminate('crashes');
      else plannedFault = { command: commandNumber, what: phase };
    },
    leave: () => {
      if (state !== 'up') return;
      state = 'leaving';
      simulation.note(name, 'receives SIGTERM');
      abort.abort();
    },
  };
}
