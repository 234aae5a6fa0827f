import type { Clock } from '../../src/core/clock.ts';
import { StoreReplaced, StoreUnavailable } from '../../src/core/errors.ts';
import { createDispatcher, type Dispatcher } from '../../src/delivery/dispatcher.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Node } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createMonotonicClock, createWallClock } from './clocks.ts';
import { createPrng } from './prng.ts';
import { namesOf } from './names.ts';
import type { StepOf } from './plan.ts';
import { storeOf } from './process-store.ts';
import { transportOf } from './process-transport.ts';
import { runUpkeep } from './upkeep.ts';
import type { Simulation } from './simulation.ts';

/** One process of Leat: a real dispatcher, and what stands between it and the world. */
export interface Process {
  readonly name: string;
  readonly state: 'up' | 'frozen' | 'leaving' | 'down';
  readonly dispatcher: Dispatcher;
  /** The store as operators reach it through this process. */
  readonly store: Store;
  readonly clock: Clock;
  jump(ms: number): void;
  /** Its wall clock stands still. */
  stand(ms: number): void;
  /** Freezes along with its machine: the monotonic clock stands still, too. */
  suspend(ms: number): void;
  /** Freezes while its so-many-th next command to the store is answered. */
  freeze(command: number, ms: number): void;
  /** Frees it of every fault. */
  repair(): void;
  /** Dies with its so-many-th next command to the store. */
  crash(command: number, phase: StepOf<'crash'>['phase']): void;
  /** Ends in an orderly way. */
  leave(): void;
}

/** What a process has from joining the store last. */
export interface Joined {
  node: Node | undefined;
  /** Of that store. */
  generation: number;
}

/** What PostgreSQL compares with the store that the process joined; see docs/adr/0020. */
const guardedCommands: ReadonlySet<string> = new Set(
  (
    'append head page firstSince settle claimDue feed ' +
    'heartbeat claim owned raiseCursors release leave'
  ).split(' '),
);

/** What a process asks for that has ended. One for each: a promise remembers who waits for it. */
const never = (): Promise<never> => new Promise(() => undefined);

/** Starts a process; `ended` is called once it has ended, in whatever way. */
export function startProcess(simulation: Simulation, name: string, ended: () => void): Process {
  const { timeline, oracle, sharedStore, plan } = simulation;
  const prng = createPrng(plan.seed, name);
  let state: Process['state'] = 'up';
  const wall = createWallClock(timeline);
  const monotonic = createMonotonicClock(timeline);
  let isSuspended = false;
  /** What happens to it with one of its next commands. */
  let doom:
    | { command: number; readonly what: StepOf<'crash'>['phase'] | { freezesMs: number } }
    | undefined;
  const joined: Joined = { node: undefined, generation: sharedStore.generation };
  let frozenUntilMs = 0;
  const abort = new AbortController();
  /** What reached the process while it was frozen. */
  const hintBox: (() => void)[] = [];
  const timerBox: (() => void)[] = [];
  const mailBox: (() => void)[] = [];

  const isRunning = (): boolean => state === 'up' || state === 'leaving';
  const hand = (box: (() => void)[], action: () => void): void => {
    if (isRunning()) action();
    else if (state === 'frozen') box.push(action);
  };
  const mail = (action: () => void): void => hand(mailBox, action);
  const later = (delayMs: number, action: () => void): void => {
    if (delayMs === 0) action();
    else timeline.after(delayMs, action);
  };
  const die = (how: string): void => {
    if (state === 'down') return;
    state = 'down';
    if (joined.node !== undefined) oracle.attempts.died(joined.node);
    unwatch();
    simulation.disturb();
    simulation.note(name, how);
    ended();
  };

  // The store, as it is reached over a network that may fail

  const dawdle = (what: string): number => {
    const { slow, slowMs, slowPages, hintsLate } = simulation.weather();
    const more = what === 'page' ? slowPages : what === 'hint' ? hintsLate : 0;
    const share = Math.max(slow, more);
    if (slowMs === 0 || !prng.chance(share)) return 0;
    simulation.hinder();
    return prng.between(1, slowMs);
  };
  const execute = async <T>(what: string, run: () => Promise<T>): Promise<T> => {
    const { refused, unanswered } = simulation.weather();
    if (simulation.isStoreAway() || prng.chance(refused)) {
      simulation.disturb();
      simulation.note(name, `${what}: the store is away`);
      throw new StoreUnavailable('away');
    }
    const answer = await run();
    if (!prng.chance(unanswered) || what === 'append') return answer;
    simulation.disturb();
    simulation.note(name, `${what}: the answer is lost`);
    throw new StoreUnavailable('the answer is lost');
  };
  const meetDoom = () => {
    if (doom === undefined) return undefined;
    doom.command -= 1;
    if (doom.command > 0) return undefined;
    const { what } = doom;
    doom = undefined;
    return what;
  };
  const freeze = (ms: number, how: string): void => {
    if (!isRunning()) return;
    simulation.disturb();
    simulation.note(name, `${isSuspended ? 'is suspended' : 'freezes'} for ${ms} ms${how}`);
    state = 'frozen';
    frozenUntilMs = timeline.nowMs + ms;
    timeline.after(ms, () => {
      if (timeline.nowMs >= frozenUntilMs) thaw();
    });
  };
  /** Commands that build on what the process remembers are refused by a store that went back. */
  const guarded = <T>(what: string, run: () => Promise<T>): (() => Promise<T>) => {
    const sentTo = joined.generation;
    return () => {
      // Its connection ended with the store that it was sent to.
      if (state === 'down' && sentTo !== sharedStore.generation) {
        return Promise.reject(new StoreUnavailable('gone'));
      }
      if (guardedCommands.has(what) && sentTo !== sharedStore.generation) {
        simulation.note(name, `${what}: the store was replaced`);
        return Promise.reject(new StoreReplaced('The store went back.'));
      }
      return run();
    };
  };
  const command = <T>(what: string, options: () => Promise<T>): Promise<T> => {
    if (state === 'down') return never();
    const run = guarded(what, options);
    oracle.attempts.checkMemory(name, dispatcher.state());
    const fate = meetDoom();
    if (fate === 'before') {
      die(`crashes before ${what}`);
      return never();
    }
    if (fate === 'late') die(`crashes, ${what} is still on its way`);
    return new Promise((resolve, reject) => {
      later(fate === 'late' ? prng.between(50, 2000) : dawdle(what), () => {
        // Another process may bear its name by now, and only one at a time may join with it.
        if (state === 'down' && what === 'join') return;
        const answered = execute(what, run);
        if (fate === 'after') die(`crashes, ${what} takes effect`);
        if (typeof fate === 'object') freeze(fate.freezesMs, `, ${what} takes effect`);
        answered.then(
          (value) => later(dawdle(what), () => mail(() => resolve(value))),
          (error: unknown) => later(dawdle(what), () => mail(() => reject(error))),
        );
      });
    });
  };
  const listeners = new Set<(hint: Hint) => void>();
  const store = storeOf(simulation, { name, joined, command, listeners });
  const onHint = (reported: Hint): void => {
    // Before it has joined it listens for a replaced store alone.
    if (listeners.size < 2 && reported.kind !== 'replaced') return;
    const reportedBy = sharedStore.generation;
    const { hintsLost, hintsRepeated } = simulation.weather();
    const arrives = (): void => {
      later(dawdle('hint'), () =>
        hand(hintBox, () => {
          for (const listener of listeners) listener(hintNow(reported, reportedBy));
        }),
      );
    };
    if (prng.chance(hintsLost)) simulation.hinder();
    else arrives();
    if (prng.chance(hintsRepeated)) arrives();
  };

  const unwatch = sharedStore.store.watch(onHint);
  /** Events and heads of a store that was replaced, before or since, say nothing. */
  const hintNow = (hint: Hint, reportedBy: number): Hint => {
    const isOfLog = hint.kind === 'appended' || hint.kind === 'head';
    return isOfLog && reportedBy !== joined.generation ? { kind: 'missed' } : hint;
  };

  // Time and the receivers

  const clock: Clock = {
    now: wall.now,
    elapsedMs: monotonic.elapsedMs,
    after: (delayMs, action) => monotonic.after(delayMs, () => hand(timerBox, action)),
  };
  const namePrng = createPrng(plan.seed, `names of ${name}`);
  const names = namesOf(simulation, { prng: namePrng, clock, later, mail });
  const isDead = (): boolean => state === 'down';
  const reach = { name, joined, prng, names, clock, isDead, later, mail };
  const transport = transportOf(simulation, reach);
  const report = (event: DeliveryReport): void => {
    if (event.kind === 'unexpected' || event.kind === 'settle_stuck') {
      const { error } = event;
      oracle.break('unexpected', error instanceof Error ? (error.stack ?? '') : String(error));
    }
    if (event.kind === 'stream_disabled') {
      simulation.note(name, `${simulation.label(event.stream)} is disabled: ${event.reason}`);
    }
    if (event.kind === 'stream_owned') {
      const line = oracle.lines.get(event.stream);
      if (line !== undefined) line.adoptions += 1;
    }
    if ('error' in event && 'stream' in event) {
      const line = oracle.lines.get(event.stream);
      if (line !== undefined) oracle.results.checkText(line, String(event.error));
    }
  };
  const dispatcher = createDispatcher({
    store,
    transport,
    clock,
    settings: plan.settings,
    report,
    nodeId: name,
  });
  simulation.disturb();
  simulation.note(name, 'starts');
  runUpkeep(simulation, { name, store, clock, prng, signal: abort.signal });
  dispatcher.run(abort.signal).then(
    () => die('has left'),
    (error: unknown) => oracle.break('unexpected', String(error)),
  );

  const thaw = (): void => {
    if (state !== 'frozen') return;
    if (isSuspended && joined.node !== undefined) oracle.leases.slept(joined.node);
    isSuspended = false;
    monotonic.resume();
    state = abort.signal.aborted ? 'leaving' : 'up';
    simulation.disturb();
    simulation.note(name, 'wakes');
    for (const action of hintBox.splice(0)) action();
    // An event loop begins with what has become due, unless answers were there already.
    const [first, second] = prng.chance(0.7) ? [timerBox, mailBox] : [mailBox, timerBox];
    for (const action of [...first.splice(0), ...second.splice(0)]) {
      timeline.after(0, () => mail(action));
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
    jump: wall.jump,
    stand: wall.stand,
    suspend: (ms) => {
      if (!isRunning()) return;
      isSuspended = true;
      monotonic.suspend();
      freeze(ms, '');
    },
    repair: () => {
      wall.repair();
      doom = undefined;
      thaw();
    },
    freeze: (commandNumber, ms) => {
      if (commandNumber === 0) freeze(ms, '');
      else doom = { command: commandNumber, what: { freezesMs: ms } };
    },
    crash: (commandNumber, phase) => {
      if (commandNumber === 0) die('crashes');
      else doom = { command: commandNumber, what: phase };
    },
    leave: () => {
      if (state !== 'up') return;
      state = 'leaving';
      simulation.note(name, 'is asked to end');
      abort.abort();
    },
  };
}
