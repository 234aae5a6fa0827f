import type { Clock, Timer } from '../core/clock.ts';
import { StoreContentRefused } from '../core/errors.ts';
import type { Offset, Node } from '../core/types.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { DeliveryStore } from '../store/port/deliveries.ts';
import type { Outcome, SettledStream, Settlement } from '../store/port/settlement.ts';
import { rowsMore } from './attempt.ts';
import type { StoreRetry } from './store-retry.ts';
import type { DeliveryReport } from './report.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Records results of all streams, many in one transaction. */
export interface Settler {
  /** Results that are not in the store yet. */
  readonly unsettled: number;
  add(runner: Runner, outcome: Outcome): void;
  /** Records now what has gathered. Only for who has the lane. */
  settleNow(): Promise<void>;
  /** Records results that have waited for so long or longer. Only for who has the lane. */
  settleOld(waitedMs: number): Promise<void>;
  /** Forgets what is not recorded and records nothing any more. */
  close(): void;
}

export interface SettlerDeps {
  readonly deliveries: Pick<DeliveryStore, 'settle'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly settings: Pick<DeliverySettings, 'settleMs' | 'settleMax' | 'disable'>;
  readonly report: (event: DeliveryReport) => void;
  /** What became of a runner's part of a batch. */
  readonly settled: (runner: Runner, settled: SettledStream, part: SettledPart) => void;
  /** The results of one batch are in the store. */
  readonly batchSettled: () => void;
  /** The store refuses a result whatever it says: the stream must be left alone. */
  readonly abandon: (runner: Runner) => void;
}

/** What of a batch belongs to one runner. */
export interface SettledPart {
  readonly cursor: Offset;
  readonly outcomes: readonly Outcome[];
}

interface Result {
  readonly runner: Runner;
  readonly outcome: Outcome;
  /** Monotonic: the durations in the outcome count to here. */
  readonly addedMs: number;
  /** On the last result of its runner in a batch: how far this and all before it bring it. */
  cursor: Offset | undefined;
}

/** See {@link Settler}. */
export function createSettler(deps: SettlerDeps): Settler {
  return new BatchSettler(deps);
}

/**
 * One batch at a time. What is in a batch and its number do not change once it was sent, but for how
 * long ago it was, so that
 * the same batch can be repeated after a commit whose answer was lost; later results go to the
 * next. A batch that is refused for its content is halved until the culprit stands alone.
 */
class BatchSettler implements Settler {
  readonly #deps: SettlerDeps;
  #gathered: Result[] = [];
  /** When the first of them was added. */
  #gatheredSinceMs = 0;
  #unsettled = 0;
  /** Number of the last batch of this incarnation of the node. */
  #batch = 0;
  #timer: Timer | undefined;
  #isScheduled = false;
  #isClosed = false;

  constructor(deps: SettlerDeps) {
    this.#deps = deps;
  }

  get unsettled(): number {
    return this.#unsettled;
  }

  add(runner: Runner, outcome: Outcome): void {
    if (this.#isClosed) return;
    this.#unsettled += 1;
    runner.unsettled += 1;
    runner.rowsPending += rowsMore(outcome);
    const addedMs = this.#deps.clock.elapsedMs();
    if (this.#gathered.length === 0) this.#gatheredSinceMs = addedMs;
    this.#gathered.push({ runner, outcome, addedMs, cursor: undefined });
    this.#plan();
  }

  async settleNow(): Promise<void> {
    this.#isScheduled = false;
    const results = closeBatch(this.#gathered);
    this.#gathered = [];
    for (const { runner } of results) runner.recording += 1;
    if (results.length > 0) await this.#record(results);
    for (const { runner } of results) runner.recording -= 1;
    this.#plan();
  }

  async settleOld(waitedMs: number): Promise<void> {
    while (this.#gathered.length > 0 && this.#waitedMs() >= waitedMs) await this.settleNow();
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #waitedMs(): number {
    return this.#deps.clock.elapsedMs() - this.#gatheredSinceMs;
  }

  #plan(): void {
    const { clock, settings } = this.#deps;
    const { length } = this.#gathered;
    if (length === 0 || this.#isClosed || this.#isScheduled) return;
    if (length >= settings.settleMax) this.#schedule();
    else this.#timer ??= clock.after(settings.settleMs, () => this.#schedule());
  }

  #schedule(): void {
    this.#isScheduled = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    void this.#deps.serialQueue(() => this.settleNow());
  }

  /** Sends a batch, or what is left of it, until it is in the store. */
  async #record(results: readonly Result[]): Promise<void> {
    const { node, clock, deliveries, storeRetry, settings } = this.#deps;
    const present = results.filter(({ runner }) => runner.state !== 'gone');
    this.#unsettled -= results.length - present.length;
    if (present.length === 0) return;
    this.#batch += 1;
    const batch = { node, batch: this.#batch, limits: settings.disable };
    const gathered = gatheredOf(present);
    let sent: ReadonlyMap<Runner, SettledPart> = new Map();
    try {
      const { streams } = await storeRetry.run(() => {
        sent = partsOf(gathered, clock.elapsedMs());
        const settlements = [...sent].map(([runner, part]) => settlementOf(runner, part));
        return deliveries.settle({ ...batch, settlements });
      });
      this.#notify(sent, streams, present.length);
    } catch (error) {
      if (!(error instanceof StoreContentRefused)) throw error;
      await this.#recordHalves(present, error);
    }
  }

  #notify(
    parts: ReadonlyMap<Runner, SettledPart>,
    streams: readonly SettledStream[],
    outcomes: number,
  ): void {
    this.#unsettled -= outcomes;
    this.#deps.report({ kind: 'settled', outcomes });
    let index = 0;
    for (const [runner, part] of parts) {
      const settled = streams[index];
      index += 1;
      if (settled !== undefined) this.#deps.settled(runner, settled, part);
    }
    this.#deps.batchSettled();
  }

  async #recordHalves(results: readonly Result[], error: StoreContentRefused): Promise<void> {
    const [culprit, ...others] = results;
    if (culprit !== undefined && others.length === 0) return this.#recordPlain(culprit, error);
    const middle = Math.ceil(results.length / 2);
    await this.#record(results.slice(0, middle));
    await this.#record(results.slice(middle));
  }

  async #recordPlain(culprit: Result, error: StoreContentRefused): Promise<void> {
    const { runner, outcome } = culprit;
    const about = { tenant: runner.tenant, stream: runner.id, eventId: outcome.event.id, error };
    const plain = withoutText(outcome);
    if (plain === undefined) {
      this.#deps.report({ kind: 'settle_stuck', ...about });
      this.#unsettled -= 1;
      this.#deps.abandon(runner);
      return;
    }
    this.#deps.report({ kind: 'settle_culprit', ...about });
    await this.#record([{ ...culprit, outcome: plain }]);
  }
}

/** Fixes how far the results bring the cursors: all that has ended is in this batch or before. */
function closeBatch(results: Result[]): Result[] {
  const last = new Map<Runner, Result>();
  for (const result of results) last.set(result.runner, result);
  for (const [runner, result] of last) result.cursor = runner.cursor();
  return results;
}

/** What of a batch belongs to one runner, with its times as they were when they were added. */
interface Gathered {
  cursor: Offset;
  readonly results: Result[];
}

/** By runner, in the order in which the attempts ended. */
function gatheredOf(results: readonly Result[]): Map<Runner, Gathered> {
  const gathered = new Map<Runner, Gathered>();
  for (const result of results) {
    const { runner, cursor } = result;
    const part = gathered.get(runner);
    // Without its last result the cursor of the runner stays where the store has it.
    if (part === undefined) {
      gathered.set(runner, { cursor: cursor ?? runner.window.durable, results: [result] });
    } else {
      part.cursor = cursor ?? part.cursor;
      part.results.push(result);
    }
  }
  return gathered;
}

/**
 * The same with durations that count from now: all that differs when a batch is sent again after an
 * outage. The store makes instants of them by its own clock.
 */
function partsOf(
  gathered: ReadonlyMap<Runner, Gathered>,
  nowMs: number,
): ReadonlyMap<Runner, SettledPart> {
  const parts = new Map<Runner, SettledPart>();
  for (const [runner, { cursor, results }] of gathered) {
    const outcomes = results.map(({ outcome, addedMs }) => aged(outcome, nowMs - addedMs));
    parts.set(runner, { cursor, outcomes });
  }
  return parts;
}

/** The outcome as it is told so much later. */
function aged(outcome: Outcome, waitedMs: number): Outcome {
  if (outcome.result === 'parked') {
    return { ...outcome, leaseMs: Math.max(0, outcome.leaseMs - waitedMs) };
  }
  const agoMs = outcome.agoMs + waitedMs;
  if (outcome.result !== 'retry') return { ...outcome, agoMs };
  return { ...outcome, agoMs, delayMs: Math.max(0, outcome.delayMs - waitedMs) };
}

function settlementOf(runner: Runner, part: SettledPart): Settlement {
  const { tenant, id: stream, epoch, run } = runner;
  return { tenant, stream, epoch, run, version: runner.stream.version, ...part };
}

/**
 * With what is ours of the error message: the status, or the word before the detail. `undefined`
 * when there is nothing more to leave out.
 */
function withoutText(outcome: Outcome): Outcome | undefined {
  if (!('error' in outcome)) return undefined;
  const error = /^[a-z0-9 ]*/.exec(outcome.error)?.[0].trim() ?? '';
  return error === outcome.error ? undefined : { ...outcome, error };
}
