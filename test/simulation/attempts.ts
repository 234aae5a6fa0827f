import type { DispatcherState } from '../../src/delivery/incarnation.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { Node } from '../../src/core/types.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import { disabledMessage } from '../../src/core/health.ts';
import { type Account, processOf } from './account.ts';
import type { Leases } from './leases.ts';
import type { Line } from './line.ts';
import { eventBodyBytes } from './plan.ts';
import type { Tables } from './tables.ts';

/** Characters of the longest body. */
const bodyMax = 100;

/** Requests of nodes: whether each may leave, and what receivers accepted. */
export class Attempts {
  /** Begun, for the report. */
  count = 0;
  readonly #account: Account;
  readonly #tables: Tables;
  readonly #leases: Leases;
  /** Attempts under way, by process. */
  readonly #inFlight = new Map<string, number>();
  /** Attempts that ended, by process, stream and event. */
  readonly #ends = new Map<string, AttemptEnd[]>();
  /** When receivers accepted events, in order. */
  readonly #publishedAt: number[] = [];

  constructor(account: Account, tables: Tables, leases: Leases) {
    this.#account = account;
    this.#tables = tables;
    this.#leases = leases;
  }

  /** A request leaves a node. */
  begins(process: string, streamId: string, eventId: string, endpoint: string): Line | undefined {
    const line = this.#account.lines.get(streamId);
    if (line === undefined) return undefined;
    this.count += 1;
    const unawareUntilMs = this.#leases.unaware.get(process);
    const slept = this.#leases.asleep.get(process);
    if (slept !== undefined && this.#account.deps.nowMs() < slept.untilMs) {
      this.#checkSlept(line, process, slept.sent);
    } else if (unawareUntilMs === undefined) {
      this.#checkRight(line, process, eventId);
      this.#checkContent(line, eventId, endpoint);
      this.#checkTwice(line, eventId);
    } else if (this.#account.deps.nowMs() >= unawareUntilMs) {
      this.#account.break(
        'lease',
        `${process} sends for ${line.label} and never joined the store again`,
      );
    }
    const inFlight = (this.#inFlight.get(process) ?? 0) + 1;
    this.#inFlight.set(process, inFlight);
    const { inflightBytesMax } = this.#account.deps.settings;
    if (inFlight > 1 && inFlight * eventBodyBytes > inflightBytesMax) {
      this.#account.break('bounds', `${inFlight} bodies of ${process} are under way`);
    }
    const open = (line.open.get(process) ?? 0) + 1;
    line.open.set(process, open);
    if (open > this.#account.deps.settings.streamConcurrency) {
      this.#account.break('bounds', `${open} attempts of ${line.label} at once`);
    }
    return line;
  }

  /** The sender learns what came of an attempt. */
  ends(process: string, line: Line, eventId: string, result: AttemptResult): void {
    line.open.set(process, (line.open.get(process) ?? 0) - 1);
    this.#inFlight.set(process, (this.#inFlight.get(process) ?? 0) - 1);
    const key = `${process} ${line.id} ${eventId}`;
    const ends = this.#ends.get(key) ?? [];
    this.#ends.set(key, [...ends, { atMs: this.#account.deps.nowMs(), result }]);
  }

  /** What is wrong with an outcome, by what receivers answered to this process. */
  contradicts(process: string, line: Line, outcome: Outcome): string | undefined {
    // It was claimed, and not sent as its stream was disabled meanwhile.
    if ('error' in outcome && outcome.error === disabledMessage) return undefined;
    if (outcome.result === 'parked') return undefined;
    const ends = this.#ends.get(`${process} ${line.id} ${outcome.event.id}`) ?? [];
    const { settings, nowMs } = this.#account.deps;
    if (ends.some((end) => isOutcomeOf(end, outcome, settings, nowMs()))) return undefined;
    const { event, attempt, result } = outcome;
    const what = result === 'retry' ? `retried in ${outcome.delayMs} ms` : result;
    return `attempt ${attempt} of ${event.id} of ${line.label} is ${what}`;
  }

  /** Its attempts are over; a store that goes back may give its incarnation to the next process. */
  died(node: Node): void {
    this.#inFlight.delete(processOf(node));
    for (const { open } of this.#account.lines.values()) open.delete(processOf(node));
  }

  /** A receiver takes the event, whatever the sender learns. */
  accepts(line: Line, eventId: string): void {
    line.accepted.add(eventId);
    this.#publishedAt.push(this.#account.deps.nowMs());
  }

  /** How many events receivers accepted from this instant on. */
  publishedSince(fromMs: number): number {
    return this.#publishedAt.length - firstIndex(this.#publishedAt, fromMs);
  }

  /**
   * What of a stream can be sent now: fresh events by their id, rows by id and cycle. Those of a
   * replay are left out, as they wait for everything else.
   */
  owed(line: Line): string[] {
    const { counts, accepted, leftOut, cycles } = line;
    const rows = [...counts.rows.values()]
      .filter(({ state, kind }) => state !== 'failed' && kind !== 'replay')
      .filter(({ kind }) => counts.enabled || kind === 'redelivery')
      .map(({ eventId }) => `${eventId}, cycle ${cycles.get(eventId) ?? 0},`);
    if (!counts.enabled) return rows;
    for (let offset = counts.cursor + 1; offset <= line.log.head; offset += 1) {
      const event = line.log.event(offset);
      if (event === undefined || leftOut.has(offset) || !this.#account.wants(line, offset))
        continue;
      if (!accepted.has(event.id) && !counts.rows.has(event.id)) rows.push(event.id);
    }
    return rows;
  }

  /** Of each stream that others may have taken it sends no more than they may after a crash. */
  #checkSlept(line: Line, process: string, sent: Map<Line, number>): void {
    if (line.owner?.process === process) return;
    const { parkAfterEvents, streamConcurrency, settleMax } = this.#account.deps.settings;
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    const count = (sent.get(line) ?? 0) + 1;
    sent.set(line, count);
    if (count > bound) {
      this.#account.break('twice', `${process} slept and sends ${count} events of ${line.label}`);
    }
  }

  #checkRight(line: Line, process: string, eventId: string): void {
    if (line.isDeleted) {
      // A redelivery may have been on its way to its node.
      if (!line.handedOut.has(eventId)) this.#account.break('disabled', `${line.label} is deleted`);
      return;
    }
    if (line.owner?.process !== process) {
      this.#account.break(
        'owner',
        `${process} sends for ${line.label} of ${line.owner?.process ?? 'nobody'}`,
      );
    }
    if (!this.#leases.isLeased(process)) {
      this.#account.break('lease', `${process} sends for ${line.label}`);
    }
  }

  #checkContent(line: Line, eventId: string, endpoint: string): void {
    const isOwn = line.tests.has(eventId) || line.log.offsetOf(eventId) !== undefined;
    if (!isOwn && !line.isDeleted) {
      this.#account.break('tenant', `${eventId} is not of the tenant of ${line.label}`);
    }
    const row = line.counts.rows.get(eventId);
    if (!line.isDeleted && this.#tables.mustHold(line)) {
      // Its row may be gone: settled by an attempt that outlived the lease of the row.
      const kind = row?.kind ?? line.handedOut.get(eventId);
      if (!line.counts.enabled && kind !== 'redelivery') {
        this.#account.break('disabled', `${line.label} is disabled and is sent ${eventId}`);
      }
      if (endpoint !== line.endpoint) {
        this.#account.break(
          'destination',
          `${line.label} moved to ${line.endpoint}, not ${endpoint}`,
        );
      }
    }
    const offset = line.log.offsetOf(eventId);
    line.log.knownTo = Math.max(line.log.knownTo, offset ?? 0);
    const isTest = line.tests.has(eventId);
    const isReplayed = line.handedOut.get(eventId) === 'replay';
    const isWanted =
      isTest || isReplayed || (offset !== undefined && this.#account.wants(line, offset));
    if (!isWanted && row === undefined && this.#tables.mustHold(line)) {
      this.#account.break('destination', `${line.label} did not subscribe to ${eventId}`);
    }
  }

  /** Within one ownership, each attempt of a cycle is made once. */
  #checkTwice(line: Line, eventId: string): void {
    const row = line.counts.rows.get(eventId);
    // Its replay was cancelled between the claim and the attempt: which one it is cannot be told.
    if (row === undefined && line.handedOut.get(eventId) === 'replay') return;
    const attempt = row?.attempt ?? 1;
    const key = this.#account.attemptKey(line, eventId, attempt);
    const before = line.begun.get(key) ?? [];
    const { adoptions } = line;
    if (this.#account.deps.isPunctual && before.includes(adoptions)) {
      this.#account.break(
        'twice',
        `attempt ${attempt} of ${eventId} is made a second time by one owner`,
      );
    }
    line.begun.set(key, [...before, adoptions]);
  }

  /** Nothing that a node holds in memory grows with a backlog or with what fails. */
  checkMemory(process: string, state: DispatcherState): void {
    const { settings } = this.#account.deps;
    const { concurrency, settleMax, pageEvents, tailEventsMax, tailBytesMax } = settings;
    const bounds = {
      inFlight: concurrency,
      // An attempt that is parked has two results.
      unsettled: settleMax + 3 * concurrency,
      // Of each stream half a page is left when a page, or what the tail has, is added.
      queuedBytes: Math.max(1, state.streams) * (1.5 * pageEvents + tailEventsMax) * bodyMax,
      tailBytes: tailBytesMax * this.#account.logs.length,
    };
    for (const [name, bound] of Object.entries(bounds)) {
      const value = Number(state[name as keyof DispatcherState]);
      if (value > bound)
        this.#account.break('bounds', `${name} of ${process} is ${value}, not ${bound}`);
    }
  }
}

/** An attempt as its sender saw it end. */
interface AttemptEnd {
  readonly atMs: number;
  readonly result: AttemptResult;
}

/** The rules of retries, said a second time: statuses, waits and attempts of a cycle. */
function isOutcomeOf(
  { atMs, result }: AttemptEnd,
  outcome: Exclude<Outcome, { readonly result: 'parked' }>,
  { retryDelaysMs, retry4xx }: DeliverySettings,
  nowMs: number,
): boolean {
  const status = result.kind === 'response' ? result.status : 0;
  if (status >= 200 && status < 300) return outcome.result === 'delivered';
  const isFinal = status >= 300 && status < 500 && !retry4xx.includes(status);
  const delayMs = retryDelaysMs[outcome.attempt - 1];
  if (isFinal || delayMs === undefined) return outcome.result === 'failed';
  if (outcome.result !== 'retry') return false;
  const asked = result.kind === 'response' ? Number(result.retryAfter ?? 0) * 1000 : 0;
  const waitMs = Math.max(delayMs, asked);
  // What it waits for is counted from its end, some of which has passed.
  return outcome.delayMs <= waitMs && outcome.delayMs >= waitMs - (nowMs - atMs) - roundingMs;
}

/** The clocks of processes count fractions. */
const roundingMs = 1;

/** Of the first number that is not below `from`. */
function firstIndex(sorted: readonly number[], from: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
