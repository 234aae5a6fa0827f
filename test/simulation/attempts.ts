import type { DispatcherState } from '../../src/delivery/incarnation.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { DeliveryOptions, Node } from '../../src/core/types.ts';
import type { RetrySchedule } from '../../src/core/retry-schedule.ts';
import type { EndedOutcome, Outcome } from '../../src/store/port/settlement.ts';
import { disabledMessage } from '../../src/core/health.ts';
import * as model from '../store/contract/model.ts';
import { type OracleCore, processOf } from './oracle-core.ts';
import type { Leases } from './leases.ts';
import type { Removals } from './removals.ts';
import { isOrdered, Order } from './order.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import { eventBodyBytes, ownSchedule } from './plan.ts';
import type { Tables } from './tables.ts';

/** Events in memory that wait behind their keys, per stream; see `key-order.ts`. */
const heldBackMax = 1000;

/** Characters of the longest body. */
const bodyMax = 100;

/** Requests of nodes: checks that each is allowed, and notes what receivers accept. */
export class Attempts {
  /** Attempts begun, for the report. */
  count = 0;
  readonly #core: OracleCore;
  readonly #tables: Tables;
  readonly #leases: Leases;
  readonly #removals: Removals;
  readonly #order: Order;
  /** Attempts under way, by process. */
  readonly #inFlight = new Map<string, number>();
  /** Attempts that ended, by process, stream and event. */
  readonly #ends = new Map<string, AttemptEnd[]>();
  /** When receivers accepted events, in order. */
  readonly #publishedAt: number[] = [];

  constructor(
    core: OracleCore,
    {
      tables,
      leases,
      removals,
    }: { readonly tables: Tables; readonly leases: Leases; readonly removals: Removals },
  ) {
    this.#core = core;
    this.#tables = tables;
    this.#leases = leases;
    this.#removals = removals;
    this.#order = new Order(core, tables);
  }

  /** Checks a request that leaves a node. */
  begins(
    process: string,
    streamId: string,
    eventId: string,
    endpoint: string,
  ): SimulatedStream | undefined {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined) return undefined;
    this.count += 1;
    const staleUntilMs = this.#leases.staleLeases.get(process);
    const resumed = this.#leases.suspended.get(process);
    if (resumed !== undefined && this.#core.deps.nowMs() < resumed.untilMs) {
      this.#checkSuspended(stream, process, resumed.sent);
    } else if (staleUntilMs === undefined) {
      this.#checkRight(stream, process, eventId);
      this.#checkContent(stream, eventId, endpoint);
      this.#checkTwice(stream, eventId);
      const wrong = stream.isDeleted ? undefined : this.#order.begins(stream, eventId);
      if (wrong !== undefined) this.#core.violate('order', wrong);
    } else if (this.#core.deps.nowMs() >= staleUntilMs) {
      this.#core.violate(
        'lease',
        `${process} sends for ${stream.label} and never joined the store again`,
      );
    }
    const inFlight = (this.#inFlight.get(process) ?? 0) + 1;
    this.#inFlight.set(process, inFlight);
    const { inflightBytesMax } = this.#core.deps.settings;
    if (inFlight > 1 && inFlight * eventBodyBytes > inflightBytesMax) {
      this.#core.violate('bounds', `${inFlight} bodies of ${process} are under way`);
    }
    const open = (stream.open.get(process) ?? 0) + 1;
    stream.open.set(process, open);
    const { streamConcurrency } = this.#core.deps.settings;
    if (open > Math.min(streamConcurrency, stream.delivery.concurrency ?? Infinity)) {
      this.#core.violate('bounds', `${open} attempts of ${stream.label} at once`);
    }
    this.#checkRate(process, stream);
    return stream;
  }

  /** Checks that the runner of a process keeps to the rate of its stream, after one burst. */
  #checkRate(process: string, { delivery, rates, takeovers, label }: SimulatedStream): void {
    const { perSecond } = delivery;
    if (perSecond === undefined) return;
    const nowMs = this.#core.deps.nowMs();
    const known = rates.get(process);
    const fullAtMs = known?.takeovers === takeovers ? Math.max(known.fullAtMs, nowMs) : nowMs;
    const missing = ((fullAtMs - nowMs) / 1000) * perSecond;
    if (missing + 1 > Math.max(1, perSecond) + roundingTokens) {
      this.#core.violate('bounds', `${process} exceeds ${perSecond} attempts a second of ${label}`);
    }
    rates.set(process, { takeovers, fullAtMs: fullAtMs + 1000 / perSecond });
  }

  /** Notes the result of an attempt. */
  ends(process: string, stream: SimulatedStream, eventId: string, result: AttemptResult): void {
    stream.open.set(process, (stream.open.get(process) ?? 0) - 1);
    this.#inFlight.set(process, (this.#inFlight.get(process) ?? 0) - 1);
    const key = `${process} ${stream.id} ${eventId}`;
    const ends = this.#ends.get(key) ?? [];
    this.#ends.set(key, [...ends, { atMs: this.#core.deps.nowMs(), result }]);
  }

  /** Returns what is wrong with an outcome, judging by the responses to this process. */
  contradicts(process: string, stream: SimulatedStream, outcome: Outcome): string | undefined {
    // It was claimed but not sent: its stream was disabled meanwhile.
    if ('error' in outcome && outcome.error === disabledMessage) return undefined;
    if (outcome.result === 'parked' || outcome.result === 'blocked') return undefined;
    const ends = this.#ends.get(`${process} ${stream.id} ${outcome.event.id}`) ?? [];
    const { settings, nowMs } = this.#core.deps;
    const rules = scheduleFor(outcome.kind, stream.delivery, settings);
    if (ends.some((end) => isOutcomeOf(end, outcome, rules, nowMs()))) return undefined;
    if (isTrial(stream, outcome, nowMs())) return undefined;
    const { event, attempt, result } = outcome;
    const what = result === 'retry' ? `retried in ${outcome.delayMs} ms` : result;
    return `attempt ${attempt} of ${event.id} of ${stream.label} is ${what}`;
  }

  /** Forgets the attempts of a process: a restored store may give its incarnation to the next process. */
  ended(node: Node): void {
    this.#inFlight.delete(processOf(node));
    for (const { open, rates } of this.#core.streams.values()) {
      open.delete(processOf(node));
      rates.delete(processOf(node));
    }
  }

  /** Notes that a receiver accepted an event, whatever the sender receives. */
  accepts(stream: SimulatedStream, eventId: string): void {
    stream.accepted.add(eventId);
    this.#publishedAt.push(this.#core.deps.nowMs());
  }

  /** Returns how many events receivers accepted from this instant on. */
  publishedSince(fromMs: number): number {
    return this.#publishedAt.length - firstIndex(this.#publishedAt, fromMs);
  }

  /**
   * Returns what can be sent of a stream now: fresh events by id, rows by id and cycle. Rows of a
   * replay are not included, as they wait for everything else.
   */
  sendable(stream: SimulatedStream): string[] {
    const { counts, accepted, skipped, cycles } = stream;
    const waits = this.#order.waiting(stream);
    const rows = [...counts.rows.values()]
      .filter(({ state, kind }) => state !== 'failed' && kind !== 'replay')
      .filter(({ kind, offset }) => kind !== 'first' || offset === undefined || !waits(offset))
      .filter(({ kind }) => model.maySend(counts, kind))
      .map(({ eventId }) => `${eventId}, cycle ${cycles.get(eventId) ?? 0},`);
    if (!model.sends(counts)) return rows;
    for (let offset = counts.cursor + 1; offset <= stream.log.head; offset += 1) {
      const event = stream.log.event(offset);
      if (event === undefined || skipped.has(offset) || !this.#core.wants(stream, offset)) continue;
      if (waits(offset)) continue;
      if (!accepted.has(event.id) && !counts.rows.has(event.id)) rows.push(event.id);
    }
    return rows;
  }

  /** Checks that a resumed process sends no more of a stream with a new owner than is sent twice after a crash. */
  #checkSuspended(
    stream: SimulatedStream,
    process: string,
    sent: Map<SimulatedStream, number>,
  ): void {
    if (stream.owner?.process === process) return;
    const { parkAfterEvents, streamConcurrency, settleMax } = this.#core.deps.settings;
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    const count = (sent.get(stream) ?? 0) + 1;
    sent.set(stream, count);
    if (count > bound) {
      this.#core.violate(
        'duplicates',
        `${process} was suspended and sends ${count} events of ${stream.label}`,
      );
    }
  }

  #checkRight(stream: SimulatedStream, process: string, eventId: string): void {
    this.#removals.begins(process, stream);
    if (stream.isDeleted && !this.#removals.has(stream)) {
      // A redelivery may have been on its way to its node.
      if (!stream.handedOut.has(eventId))
        this.#core.violate('disabled', `${stream.label} is deleted`);
      return;
    }
    if (stream.owner?.process !== process) {
      this.#core.violate(
        'owner',
        `${process} sends for ${stream.label} of ${stream.owner?.process ?? 'no owner'}`,
      );
    }
    if (!this.#leases.isLeased(process)) {
      this.#core.violate('lease', `${process} sends for ${stream.label}`);
    }
  }

  #checkContent(stream: SimulatedStream, eventId: string, endpoint: string): void {
    const isOwn = stream.tests.has(eventId) || stream.log.offsetOf(eventId) !== undefined;
    if (!isOwn && !stream.isDeleted) {
      this.#core.violate('tenant', `${eventId} is not of the tenant of ${stream.label}`);
    }
    const row = stream.counts.rows.get(eventId);
    if (!stream.isDeleted && this.#tables.mustHold(stream)) {
      // Its row may be gone: settled by an attempt that outlived the lease of the row.
      const kind = row?.kind ?? stream.handedOut.get(eventId) ?? 'first';
      if (!model.maySend(stream.counts, kind)) {
        const state = stream.counts.enabled ? 'paused' : 'disabled';
        this.#core.violate('disabled', `${stream.label} is ${state} and is sent ${eventId}`);
      }
      if (endpoint !== stream.endpoint) {
        this.#core.violate(
          'destination',
          `${stream.label} moved to ${stream.endpoint}, not ${endpoint}`,
        );
      }
    }
    const offset = stream.log.offsetOf(eventId);
    stream.log.acknowledgedTo = Math.max(stream.log.acknowledgedTo, offset ?? 0);
    const isTest = stream.tests.has(eventId);
    const isReplayed = stream.handedOut.get(eventId) === 'replay';
    const isWanted =
      isTest || isReplayed || (offset !== undefined && this.#core.wants(stream, offset));
    if (!isWanted && row === undefined && this.#tables.mustHold(stream)) {
      this.#core.violate('destination', `${stream.label} did not subscribe to ${eventId}`);
    }
  }

  /** Within one ownership, each attempt of a cycle is made once. */
  #checkTwice(stream: SimulatedStream, eventId: string): void {
    const row = stream.counts.rows.get(eventId);
    // Its replay was cancelled between the claim and the attempt: it is unknown which one.
    if (row === undefined && stream.handedOut.get(eventId) === 'replay') return;
    const attempt = row?.attempt ?? 1;
    const key = this.#core.attemptKey(stream, eventId, attempt);
    const before = stream.begun.get(key) ?? [];
    const { takeovers } = stream;
    if (this.#core.deps.isPunctual && before.includes(takeovers)) {
      this.#core.violate(
        'duplicates',
        `attempt ${attempt} of ${eventId} is made a second time by one owner`,
      );
    }
    stream.begun.set(key, [...before, takeovers]);
  }

  /** The most ordered streams so far: a node that was frozen has not dropped those that are deleted. */
  #orderedMax = 0;

  /** Checks that the memory of a node does not grow with a backlog or with failures. */
  checkMemory(process: string, state: DispatcherState): void {
    const { settings } = this.#core.deps;
    const { concurrency, settleMax, pageEvents, tailEventsMax, tailBytesMax } = settings;
    const ordered = this.#core.existing().filter(isOrdered).length;
    this.#orderedMax = Math.max(this.#orderedMax, ordered);
    // Events that wait behind their keys.
    const held = this.#orderedMax * heldBackMax;
    const bounds = {
      inFlight: concurrency,
      // An attempt that is parked has two results.
      unsettled: settleMax + 3 * concurrency + held,
      // Half a page of each stream is left when a page, or the tail, is added.
      queuedBytes:
        Math.max(1, state.streams) * (1.5 * pageEvents + tailEventsMax) * bodyMax + held * bodyMax,
      tailBytes: tailBytesMax * this.#core.logs.length,
    };
    for (const [name, bound] of Object.entries(bounds)) {
      const value = Number(state[name as keyof DispatcherState]);
      if (value > bound)
        this.#core.violate('bounds', `${name} of ${process} is ${value}, not ${bound}`);
    }
  }
}

/** An attempt as its sender saw it end. */
interface AttemptEnd {
  readonly atMs: number;
  readonly result: AttemptResult;
}

/** Repeats the rules of retries: statuses, delays and attempts of a cycle. */
function isOutcomeOf(
  { atMs, result }: AttemptEnd,
  outcome: EndedOutcome,
  { delaysMs, retry4xx }: Pick<RetrySchedule, 'delaysMs' | 'retry4xx'>,
  nowMs: number,
): boolean {
  const status = result.kind === 'response' ? result.status : 0;
  if (status >= 200 && status < 300) return outcome.result === 'delivered';
  const isFinal = status >= 300 && status < 500 && !retry4xx.includes(status);
  const delayMs = delaysMs[outcome.attempt - 1];
  if (isFinal || delayMs === undefined) return outcome.result === 'failed';
  if (outcome.result !== 'retry') return false;
  const retryAfterMs = result.kind === 'response' ? Number(result.retryAfter ?? 0) * 1000 : 0;
  const waitMs = Math.max(delayMs, retryAfterMs);
  // The delay is counted from the end of the attempt, so that part of it has passed.
  return outcome.delayMs <= waitMs && outcome.delayMs >= waitMs - (nowMs - atMs) - roundingMs;
}

/** Returns whether an attempt that failed was a trial: the delivery waits as long as it would have without. */
function isTrial(
  { counts, trials }: SimulatedStream,
  outcome: EndedOutcome,
  nowMs: number,
): boolean {
  const { event, attempt, result } = outcome;
  const trial = trials.get(event.id);
  if (trial === undefined || result !== 'retry') return false;
  if (attempt !== Math.max(1, (counts.rows.get(event.id)?.attempt ?? 0) - 1)) return false;
  const { delayMs } = outcome;
  return delayMs <= trial.waitMs && delayMs >= trial.dueMs - nowMs - roundingMs;
}

/** Returns the schedule of a delivery. */
function scheduleFor(
  kind: Outcome['kind'],
  { retry }: DeliveryOptions,
  { retryDelaysMs, retry4xx }: DeliverySettings,
): Pick<RetrySchedule, 'delaysMs' | 'retry4xx'> {
  const isOwn = kind === 'first' || kind === 'replay';
  return { delaysMs: retryDelaysMs, retry4xx, ...(isOwn && ownSchedule(retry)) };
}

/** Sums of fractions of milliseconds. */
const roundingTokens = 0.1;

/** The clocks of processes count fractions. */
const roundingMs = 1;

/** Returns the index of the first number that is not below `from`. */
function firstIndex(sorted: readonly number[], from: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
