import type { SimulatedStream } from './simulated-stream.ts';
import { nameWaitMaxMs, nameHealthyMaxMs } from './names.ts';
import type { Plan } from './plan.ts';
import type { Process } from './process.ts';
import type { Simulation } from './simulation.ts';

/** Bounds on the wait of an event, in simulated time. */
export interface Bounds {
  /**
   * From the last fault, or from when the event could be sent if that is later, to its arrival.
   * Every wake-up may have been lost meanwhile.
   */
  readonly recoverMs: number;
  /** The same without any recent fault: every wake-up has to happen. */
  readonly promptMs: number;
  /** Added for each event that has to be sent first. */
  readonly perEventMs: number;
}

/** The longest pause before a failed store command is repeated; see `src/delivery/store-retry.ts`. */
const storeRetryMaxMs = 2000;
/** The longest that a receiver of the simulation asks for with Retry-After. */
const retryAfterMaxMs = 1000;
/** A healthy receiver responds within this. */
export const healthyMaxMs = 30;
/** Sequential store commands from the claim of a stream to its first attempt. */
const commandsMax = 12;

/** Derives the bounds from the settings, and from the longest delay of a store command. */
export function boundsOf(plan: Pick<Plan, 'settings' | 'delivery'>, slowMs = 0): Bounds {
  const { settings } = plan;
  const { leaseMs, heartbeatMs, pollMs, attemptTimeoutMs, leaseGraceMs, settleMs } = settings;
  // A command is delayed on its way there and on its way back.
  const commandMs = 2 * slowMs;
  const retryMs = Math.max(retryAfterMaxMs, ...settings.retryDelaysMs);
  // A node that died: its lease ends, and another node polls for its streams.
  const takeoverMs = leaseMs + heartbeatMs + pollMs;
  // A claimed row whose claimer was lost, and an attempt that hangs.
  const rowLeaseMs = attemptTimeoutMs + leaseGraceMs;
  const waits = [
    storeRetryMaxMs,
    takeoverMs,
    rowLeaseMs,
    attemptTimeoutMs,
    retryMs,
    settings.unansweredBackoffMs,
    pollMs,
    nameWaitMaxMs,
    outageMaxMs(plan),
  ];
  return {
    recoverMs: waits.reduce((sum, ms) => sum + ms, commandsMax * commandMs),
    // Two claims of rows gather for 10 ms each.
    promptMs: 3 * settleMs + 2 * (healthyMaxMs + nameHealthyMaxMs),
    perEventMs: healthyMaxMs + nameHealthyMaxMs + settleMs + commandMs,
  };
}

/**
 * Returns how long a stream with a schedule may wait for a trial of its receiver that succeeds: the last
 * one that fails, another one that finds nothing to try, and each ends at most when it times out.
 */
export function outageMaxMs({ settings, delivery }: Pick<Plan, 'settings' | 'delivery'>): number {
  const hasSchedule =
    settings.retry !== undefined ||
    delivery?.some((options) => options?.retry !== undefined) === true;
  return hasSchedule ? 2 * (settings.trialMs + settings.attemptTimeoutMs) : 0;
}

/** How often the waiting events are checked. */
const everyMs = 100;

/** The waiting events of a stream. */
interface Waiting {
  /** When the receiver was last seen unhealthy. */
  unhealthyAtMs: number;
  /** When each event could first be sent. */
  since: Map<string, number>;
}

/**
 * Checks during a history that every event arrives in time: with a healthy receiver, a reachable
 * store and a live node, an event that can be sent waits no longer than {@link Bounds.recoverMs},
 * plus {@link Bounds.perEventMs} for each event before it.
 */
export class Deadlines {
  readonly #simulation: Simulation;
  readonly #processes: readonly Process[];
  /** With the fault rates of the plan, and without faults. */
  readonly #bounds: Bounds;
  readonly #faultFreeBounds: Bounds;
  readonly #waiting = new Map<SimulatedStream, Waiting>();
  #faultAtMs = 0;
  #delayAtMs = 0;
  /** When a receiver was last seen unhealthy. */
  #unhealthyAtMs = 0;
  /** The longest wait seen, as a share of its bound: for tuning the bounds. */
  worst = 0;

  constructor(simulation: Simulation, processes: readonly Process[]) {
    this.#simulation = simulation;
    this.#processes = processes;
    const { plan } = simulation;
    this.#bounds = boundsOf(plan, plan.faultRates.slowMs);
    this.#faultFreeBounds = boundsOf(plan);
    this.#plan();
  }

  /** Notes a fault, whose consequences take up to {@link Bounds.recoverMs}. */
  noteFault(): void {
    this.#faultAtMs = this.#simulation.timeline.nowMs;
  }

  /** Notes a slow command, or a slow or lost hint: its change is found by polling. */
  noteDelay(): void {
    this.#delayAtMs = this.#simulation.timeline.nowMs;
  }

  /** Notes that a receiver is unhealthy. The periodic check alone may miss a short time. */
  noteUnhealthy(stream: SimulatedStream): void {
    this.#unhealthyAtMs = this.#simulation.timeline.nowMs;
    this.#waitingOf(stream).unhealthyAtMs = this.#unhealthyAtMs;
  }

  #waitingOf(stream: SimulatedStream): Waiting {
    const waiting = this.#waiting.get(stream) ?? { unhealthyAtMs: 0, since: new Map() };
    this.#waiting.set(stream, waiting);
    return waiting;
  }

  #plan(): void {
    this.#simulation.timeline.after(everyMs, () => {
      this.#check();
      this.#plan();
    });
  }

  #check(): void {
    const { oracle, timeline, isStoreDown } = this.#simulation;
    const now = timeline.nowMs;
    if (isStoreDown() || !this.#processes.some(({ state }) => state === 'up')) this.noteFault();
    const streams = oracle.existing();
    for (const stream of streams) this.#update(stream);
    const sendable = streams.reduce(
      (sum, stream) => sum + (this.#waiting.get(stream)?.since.size ?? 0),
      0,
    );
    for (const stream of streams) this.#checkStream(stream, now, sendable);
  }

  /** Notes which events wait now, and since when. */
  #update(stream: SimulatedStream): void {
    const { oracle, timeline, behaviourOf, nameServerBehaviourOf } = this.#simulation;
    const waiting = this.#waitingOf(stream);
    const since = new Map<string, number>();
    for (const key of oracle.attempts.sendable(stream))
      since.set(key, waiting.since.get(key) ?? timeline.nowMs);
    waiting.since = since;
    if (behaviourOf(stream) !== 'healthy' || nameServerBehaviourOf(stream) !== 'healthy')
      this.noteUnhealthy(stream);
  }

  #checkStream(stream: SimulatedStream, now: number, sendable: number): void {
    const { unhealthyAtMs, since } = this.#waitingOf(stream);
    for (const [key, sinceMs] of since) {
      const fromMs = Math.max(sinceMs, unhealthyAtMs, this.#faultAtMs);
      const waitedMs = now - fromMs;
      const sent = this.#simulation.oracle.attempts.publishedSince(fromMs);
      const boundMs = this.#boundMs(fromMs, sendable + sent);
      this.worst = Math.max(this.worst, waitedMs / boundMs);
      if (waitedMs > boundMs) {
        const how = `${key} has waited ${waitedMs} ms for ${stream.label}, at most ${boundMs} ms`;
        this.#simulation.oracle.violate('late', how);
      }
    }
  }

  /** Returns how long an event may wait from this instant on, along with `events` others. */
  #boundMs(fromMs: number, events: number): number {
    const { perEventMs } = this.#bounds;
    const longestMs = this.#bounds.recoverMs;
    const recoverMs = longestMs + this.#simulation.clockDelayMs(longestMs);
    const noFaults = this.#faultFreeBounds;
    const { attemptTimeoutMs } = this.#simulation.plan.settings;
    const lastAtMs = Math.max(this.#faultAtMs, this.#unhealthyAtMs, this.#delayAtMs);
    if (fromMs - lastAtMs > recoverMs) return noFaults.promptMs + events * noFaults.perEventMs;
    // Slow receivers hold slots of the node, too.
    return recoverMs + events * (this.#unhealthyAtMs >= fromMs ? attemptTimeoutMs : perEventMs);
  }
}
