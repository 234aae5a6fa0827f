import type { Line } from './line.ts';
import { nameWaitMaxMs, nameWellMaxMs } from './names.ts';
import type { Plan } from './plan.ts';
import type { Process } from './process.ts';
import type { Simulation } from './simulation.ts';

/** Bounds on what an event may wait, in simulated time. */
export interface Bounds {
  /**
   * From the later of two instants, the last disturbance and the one from which on the event could
   * be sent, to its arrival. Every wake-up may have been lost meanwhile.
   */
  readonly recoverMs: number;
  /** The same where nothing was disturbed before either: every wake-up has to be made. */
  readonly promptMs: number;
  /** More for each event that has to be sent first. */
  readonly perEventMs: number;
}

/** The longest pause before a failed store command is repeated; see `src/delivery/store-retry.ts`. */
const storeRetryMaxMs = 2000;
/** The longest that a receiver of the simulation asks for with Retry-After. */
const retryAfterMaxMs = 1000;
/** A receiver that is well responds within this. */
export const wellMaxMs = 30;
/** Commands to the store one after the other, from a claim of a stream to its first attempt. */
const commandsMax = 12;

/** Derives the bounds from the settings, and from the longest that a store command dawdles. */
export function boundsOf(settings: Plan['settings'], slowMs = 0): Bounds {
  const { leaseMs, heartbeatMs, pollMs, attemptTimeoutMs, leaseGraceMs, settleMs } = settings;
  // A command dawdles on its way there and on its way back.
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
  ];
  return {
    recoverMs: waits.reduce((sum, ms) => sum + ms, commandsMax * commandMs),
    // Two claims of rows gather for 10 ms each.
    promptMs: 3 * settleMs + 2 * (wellMaxMs + nameWellMaxMs),
    perEventMs: wellMaxMs + nameWellMaxMs + settleMs + commandMs,
  };
}

/** How often the waiting events are looked over. */
const everyMs = 100;

/** What is known of a stream's waiting events. */
interface Waiting {
  /** When the receiver was last seen in a bad mood. */
  unwellMs: number;
  /** By event: from when on it could be sent. */
  since: Map<string, number>;
}

/**
 * Checks while a history is played that every event arrives in time: with a healthy receiver, a
 * store that can be reached and a node that lives, an event that can be sent waits no longer than
 * {@link Bounds.recoverMs}, and a little for each that is sent before it.
 */
export class Deadlines {
  readonly #simulation: Simulation;
  readonly #processes: readonly Process[];
  /** With the weather of the plan, and in calm weather. */
  readonly #bounds: Bounds;
  readonly #calmBounds: Bounds;
  readonly #waiting = new Map<Line, Waiting>();
  #disturbedMs = 0;
  #hinderedMs = 0;
  /** When a receiver was last seen in a bad mood. */
  #unwellMs = 0;
  /** The longest wait seen, as a share of what is allowed: for tuning the bounds. */
  worst = 0;

  constructor(simulation: Simulation, processes: readonly Process[]) {
    this.#simulation = simulation;
    this.#processes = processes;
    const { settings, weather } = simulation.plan;
    this.#bounds = boundsOf(settings, weather.slowMs);
    this.#calmBounds = boundsOf(settings);
    this.#plan();
  }

  /** A fault has happened, whose consequences take up to {@link Bounds.recoverMs}. */
  disturb(): void {
    this.#disturbedMs = this.#simulation.timeline.nowMs;
  }

  /** A command or a hint takes long, or a hint is lost, so that what it told of is polled for. */
  hinder(): void {
    this.#hinderedMs = this.#simulation.timeline.nowMs;
  }

  /** Its receiver is in a bad mood; looks at all of them, now and then, may miss a short one. */
  unwell(line: Line): void {
    this.#unwellMs = this.#simulation.timeline.nowMs;
    this.#waitingOf(line).unwellMs = this.#unwellMs;
  }

  #waitingOf(line: Line): Waiting {
    const waiting = this.#waiting.get(line) ?? { unwellMs: 0, since: new Map() };
    this.#waiting.set(line, waiting);
    return waiting;
  }

  #plan(): void {
    this.#simulation.timeline.after(everyMs, () => {
      this.#check();
      this.#plan();
    });
  }

  #check(): void {
    const { oracle, timeline, isStoreAway } = this.#simulation;
    const now = timeline.nowMs;
    if (isStoreAway() || !this.#processes.some(({ state }) => state === 'up')) this.disturb();
    const lines = oracle.living();
    for (const line of lines) this.#update(line);
    const owed = lines.reduce((sum, line) => sum + (this.#waiting.get(line)?.since.size ?? 0), 0);
    for (const line of lines) this.#checkLine(line, now, owed);
  }

  /** Notes what waits now and since when. */
  #update(line: Line): void {
    const { oracle, timeline, moodOf, nameMoodOf } = this.#simulation;
    const waiting = this.#waitingOf(line);
    const since = new Map<string, number>();
    for (const key of oracle.attempts.owed(line))
      since.set(key, waiting.since.get(key) ?? timeline.nowMs);
    waiting.since = since;
    if (moodOf(line) !== 'well' || nameMoodOf(line) !== 'well') this.unwell(line);
  }

  #checkLine(line: Line, now: number, owed: number): void {
    const { unwellMs, since } = this.#waitingOf(line);
    for (const [key, sinceMs] of since) {
      const fromMs = Math.max(sinceMs, unwellMs, this.#disturbedMs);
      const waitedMs = now - fromMs;
      const sent = this.#simulation.oracle.attempts.publishedSince(fromMs);
      const boundMs = this.#boundMs(fromMs, owed + sent);
      this.worst = Math.max(this.worst, waitedMs / boundMs);
      if (waitedMs > boundMs) {
        const how = `${key} has waited ${waitedMs} ms for ${line.label}, at most ${boundMs} ms`;
        this.#simulation.oracle.break('late', how);
      }
    }
  }

  /** What waits from this instant on, along with so many events, may wait so long. */
  #boundMs(fromMs: number, events: number): number {
    const { perEventMs } = this.#bounds;
    const calmMs = this.#bounds.recoverMs;
    const recoverMs = calmMs + this.#simulation.clockDelayMs(calmMs);
    const calm = this.#calmBounds;
    const { attemptTimeoutMs } = this.#simulation.plan.settings;
    const disturbanceMs = Math.max(this.#disturbedMs, this.#unwellMs, this.#hinderedMs);
    if (fromMs - disturbanceMs > recoverMs) return calm.promptMs + events * calm.perEventMs;
    // Slow receivers hold slots of the node, too.
    return recoverMs + events * (this.#unwellMs >= fromMs ? attemptTimeoutMs : perEventMs);
  }
}
