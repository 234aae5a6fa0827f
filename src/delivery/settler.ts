import type { Clock, Timer } from '../core/clock.ts';
import { codeOf, StoreContentRefused } from '../core/errors.ts';
import type { Offset, Node } from '../core/types.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { DeliveryStore } from '../store/port/deliveries.ts';
import type { Outcome, SettledStream, Settlement } from '../store/port/settlement.ts';
import { aged, rowsAdded, withoutText } from './outcome.ts';
import type { StoreRetry } from './store-retry.ts';
import type { DeliveryReport } from './report.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Records the outcomes of all streams, many in one transaction. */
export interface Settler {
  /** Outcomes that are not in the store yet. */
  readonly unsettled: number;
  add(runner: Runner, outcome: Outcome): void;
  /** Records the outcomes that have gathered. Call it only within the serial queue. */
  settleNow(): Promise<void>;
  /**
   * Records outcomes that have waited for `waitedMs` or longer. Call it only within the serial
   * queue.
   */
  settleOld(waitedMs: number): Promise<void>;
  /** Drops the outcomes that are not recorded, and records no more. */
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
  /** A runner's part of a batch is in the store, or the stream is not this node's any more. */
  readonly settled: (runner: Runner, settlement: Settlement, settled: SettledStream) => void;
  /** All of a batch is in the store. */
  readonly batchSettled: () => void;
  /** The store refuses an outcome even without its text, with this code. */
  readonly abandon: (runner: Runner, code: string) => void;
}

/** An outcome that is not in the store yet. */
interface Unsettled {
  readonly runner: Runner;
  readonly outcome: Outcome;
  /** Monotonic: the durations in the outcome count to here. */
  readonly addedMs: number;
  /** On the last one of its runner in a batch: the cursor that this and all before it lead to. */
  cursor: Offset | undefined;
  /** With it, for a stream that sends in order: the settled events above the cursor in the store. */
  settledAbove: readonly Offset[] | undefined;
}

/** See {@link Settler}. */
export function createSettler(deps: SettlerDeps): Settler {
  return new BatchSettler(deps);
}

/**
 * Records one batch at a time. The content of a batch and its number do not change once it was
 * sent, except for how long ago it was: so it can be repeated after a commit whose result was lost.
 * Later outcomes go to the next batch. A batch that is refused for its content is halved until the
 * culprit is alone in it.
 */
class BatchSettler implements Settler {
  readonly #deps: SettlerDeps;
  #gathered: Unsettled[] = [];
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
    runner.rowsPending += rowsAdded(outcome);
    runner.counters.ended(outcome);
    const addedMs = this.#deps.clock.elapsedMs();
    if (this.#gathered.length === 0) this.#gatheredSinceMs = addedMs;
    this.#gathered.push({ runner, outcome, addedMs, cursor: undefined, settledAbove: undefined });
    this.#plan();
  }

  async settleNow(): Promise<void> {
    this.#isScheduled = false;
    const batch = closeBatch(this.#gathered);
    this.#gathered = [];
    for (const { runner } of batch) runner.recording += 1;
    if (batch.length > 0) await this.#record(batch);
    for (const { runner } of batch) runner.recording -= 1;
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

  /** Sends a batch, or a part of it, until it is in the store. */
  async #record(batch: readonly Unsettled[]): Promise<void> {
    const { node, clock, deliveries, storeRetry, settings } = this.#deps;
    const present = batch.filter(({ runner }) => runner.state !== 'gone');
    this.#unsettled -= batch.length - present.length;
    if (present.length === 0) return;
    this.#batch += 1;
    const number = this.#batch;
    const parts = [...Map.groupBy(present, ({ runner }) => runner)];
    let settlements: Settlement[] = [];
    try {
      const settled = await storeRetry.runRefusable(() => {
        const nowMs = clock.elapsedMs();
        settlements = parts.map(([runner, part]) => settlementOf(runner, part, nowMs));
        return deliveries.settle(node, number, settlements, settings.disable);
      });
      this.#unsettled -= present.length;
      this.#deps.report({ kind: 'settled', outcomes: present.length });
      for (const [index, [runner]] of parts.entries()) {
        const settlement = settlements[index];
        const stream = settled[index];
        if (settlement && stream) this.#deps.settled(runner, settlement, stream);
      }
      this.#deps.batchSettled();
    } catch (error) {
      if (!(error instanceof StoreContentRefused)) throw error;
      await this.#recordHalves(present, error);
    }
  }

  async #recordHalves(batch: readonly Unsettled[], error: StoreContentRefused): Promise<void> {
    const [culprit, ...others] = batch;
    if (culprit !== undefined && others.length === 0) return this.#recordPlain(culprit, error);
    for (const half of halvesOf(batch)) await this.#record(half);
  }

  async #recordPlain(culprit: Unsettled, error: StoreContentRefused): Promise<void> {
    const { runner, outcome } = culprit;
    const about = { tenant: runner.tenant, stream: runner.id, eventId: outcome.event.id, error };
    const plain = withoutText(outcome);
    if (plain === undefined) {
      const code = codeOf(error.cause) ?? 'unknown';
      this.#deps.report({ kind: 'settle_stuck', ...about, name: runner.stream.name, code });
      this.#unsettled -= 1;
      this.#deps.abandon(runner, code);
      return;
    }
    this.#deps.report({ kind: 'settle_culprit', ...about });
    await this.#record([{ ...culprit, outcome: plain }]);
  }
}

/** Sets the cursors of a batch: every outcome so far is in this batch or in one before. */
function closeBatch(batch: Unsettled[]): Unsettled[] {
  const last = new Map<Runner, Unsettled>();
  for (const unsettled of batch) last.set(unsettled.runner, unsettled);
  for (const [runner, unsettled] of last) {
    unsettled.cursor = runner.cursor();
    // The store does not raise the cursor for a former run, nor over a change.
    unsettled.settledAbove = runner.settledAbove(runner.window.durable);
  }
  return batch;
}

/** Returns the halves of a batch, both with what the outcomes of their runners lead to. */
function halvesOf(batch: readonly Unsettled[]): readonly Unsettled[][] {
  const middle = Math.ceil(batch.length / 2);
  const [first, second] = [batch.slice(0, middle), batch.slice(middle)];
  const others = Map.groupBy(second, ({ runner }) => runner);
  for (const [runner, part] of Map.groupBy(first, (unsettled) => unsettled.runner)) {
    const [last, later = []] = [part.at(-1), others.get(runner)];
    if (last === undefined || later.length === 0) continue;
    // Without the last outcome of the runner the cursor stays where it is in the store.
    last.cursor = runner.window.durable;
    const settledLater = new Set(
      later.filter(({ outcome }) => !outcome.hasRow).map(({ outcome }) => outcome.event.offset),
    );
    last.settledAbove = later.at(-1)?.settledAbove?.filter((offset) => !settledLater.has(offset));
  }
  return [first, second];
}

/**
 * Returns the settlement of a part. Its durations count from now, which is all that differs when a
 * batch is sent again after an outage; the store makes instants of them by its own clock.
 */
function settlementOf(runner: Runner, part: readonly Unsettled[], nowMs: number): Settlement {
  const { tenant, id: stream, epoch, run } = runner;
  const { cursor = 0, settledAbove } = part.at(-1) ?? {};
  const outcomes = part.map(({ outcome, addedMs }) => aged(outcome, nowMs - addedMs));
  const { version } = runner.stream;
  return { tenant, stream, epoch, run, version, cursor, settledAbove, outcomes };
}
