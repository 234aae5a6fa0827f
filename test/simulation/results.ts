import type { Health, HealthLimits, Node } from '../../src/core/types.ts';
import type {
  BroughtForward,
  DeliveryStore,
  DueRequest,
  DueRows,
  OwnedWaiting,
  Released,
  ReleaseRequest,
} from '../../src/store/port/deliveries.ts';
import type { Outcome, SettledStream, Settlement } from '../../src/store/port/settlement.ts';
import * as model from '../store/contract/model.ts';
import { type OracleCore, processOf } from './oracle-core.ts';
import type { Attempts } from './attempts.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Tables } from './tables.ts';

type BringForward = Parameters<DeliveryStore['bringForward']>[0];
type RedeliverResult = Awaited<ReturnType<DeliveryStore['redeliver']>>;

/** A delivery that waits by a schedule of its stream becomes due. */
function asOpen({ delivery }: SimulatedStream, { state }: model.ModelRow): RedeliverResult {
  const isDue = state === 'retrying' && delivery.retry !== undefined;
  return state === 'failed' || isDue ? 'accepted' : 'retrying';
}

/**
 * Returns whether an attempt without a row was under way when its stream was disabled, and enabled after
 * its event: a replay may send such an event again, like others that were skipped, and a redelivery what
 * failed then.
 */
function isReplayedInFlight(
  { counts, skipped }: SimulatedStream,
  { id, offset }: Outcome['event'],
): boolean {
  return counts.rows.get(id)?.kind !== 'first' && skipped.has(offset ?? 0);
}

const isWaiting = ({ state, dueAt = 0 }: model.ModelRow, now: number): boolean =>
  state === 'retrying' && dueAt > now;

/** Returns what waits for a retry in a range of the log, in its order. */
function inRange(
  { counts }: SimulatedStream,
  { after, upTo }: Pick<ReleaseRequest, 'after' | 'upTo'>,
  now: number,
): model.ModelRow[] {
  return [...counts.rows.values()]
    .filter((row) => isWaiting(row, now))
    .filter(({ offset = 0 }) => offset > after && offset <= upTo)
    .toSorted((one, other) => (one.offset ?? 0) - (other.offset ?? 0));
}

/** The arguments of one `settle` command. */
export interface Batch {
  readonly node: Node;
  readonly batch: number;
  readonly settlements: readonly Settlement[];
  readonly limits: HealthLimits;
}

/** Rows of deliveries: claimed, settled and redelivered. */
export class Results {
  readonly batches = new Set<string>();
  /** When settlements were recorded, in order. */
  readonly settledAt: number[] = [];
  readonly #core: OracleCore;
  readonly #tables: Tables;
  readonly #attempts: Attempts;
  /** Attempts of days before this instant may have left the history. */
  #historyBefore = -Infinity;

  constructor(core: OracleCore, tables: Tables, attempts: Attempts) {
    this.#core = core;
    this.#tables = tables;
    this.#attempts = attempts;
  }

  settled(batch: Batch, streams: readonly SettledStream[], attemptsBefore: number): void {
    const key = `${processOf(batch.node)} ${batch.batch}`;
    if (this.batches.has(key)) {
      if (this.#tables.attemptsRecorded() !== attemptsBefore) {
        this.#core.violate('repeated', `batch ${key} was recorded a second time`);
      }
      for (const { stream } of batch.settlements) this.#tables.checkStream(stream);
      return;
    }
    this.batches.add(key);
    this.settledAt.push(this.#core.deps.nowMs());
    const entriesBefore = this.#entries();
    batch.settlements.forEach((settlement, index) => {
      if (streams[index]?.result === 'recorded') this.#record(batch, settlement);
      else this.#tables.checkStream(settlement.stream);
    });
    const expected = this.#entries() - entriesBefore;
    const found = this.#tables.attemptsRecorded() - attemptsBefore;
    if (found !== expected) {
      this.#core.violate(
        'recorded',
        `batch ${key} has ${found} entries of history, not ${expected}`,
      );
    }
  }

  /** Returns the number of attempts in the histories of all streams. */
  #entries(): number {
    return [...this.#core.streams.values()].reduce((sum, { counts }) => sum + counts.entries, 0);
  }

  #record(batch: Batch, settlement: Settlement): void {
    const stream = this.#core.streams.get(settlement.stream);
    const process = processOf(batch.node);
    if (stream === undefined) return;
    if (stream.owner?.process !== process || stream.owner.epoch !== settlement.epoch) {
      this.#core.violate(
        'owner',
        `results of ${process} for ${stream.label}, which has another owner`,
      );
    }
    const { limits } = batch;
    const now = this.#core.deps.now();
    settlement.outcomes.forEach((outcome, index) => {
      const { event, result } = outcome;
      const wrong = this.#attempts.contradicts(process, stream, outcome);
      if (wrong !== undefined) this.#core.violate('schedule', wrong);
      this.#endTrial(stream, outcome);
      if (result === 'delivered') {
        stream.deliveredAt.set(event.offset ?? event.id, Math.floor(now - outcome.agoMs));
        if (!stream.accepted.has(event.id))
          this.#core.violate('accepted', `${event.id} of ${stream.label}`);
        stream.recorded.add(event.id);
      }
      this.checkText(stream, 'error' in outcome ? outcome.error : undefined);
      if (
        !outcome.hasRow &&
        stream.counts.rows.has(event.id) &&
        !isReplayedInFlight(stream, event)
      ) {
        this.#core.violate(
          'duplicates',
          `${event.id} has a row of ${stream.label} and was sent without it`,
        );
      }
      const isLast = index === settlement.outcomes.length - 1;
      const cursor = isLast ? settlement.cursor : 0;
      this.#checkLimit(stream, outcome);
      const given = { cursor, run: settlement.run, now, limits };
      const { disabledBy } = model.settle(stream.counts, outcome, given);
      this.#tables.changed(stream);
      if (disabledBy !== undefined)
        stream.disabledAtLimit = { version: stream.counts.version, events: 0 };
    });
    this.#tables.check(stream, { process, epoch: settlement.epoch }, settlement.cursor);
    this.#checkWaiting(stream, limits);
  }

  /** A trial that fails leaves the attempt of its delivery to be made when its wait is over. */
  #endTrial(stream: SimulatedStream, { event, result, attempt }: Outcome): void {
    if (result === 'parked' || result === 'blocked' || !stream.trials.has(event.id)) return;
    stream.trials.delete(event.id);
    const next = stream.counts.rows.get(event.id)?.attempt ?? 0;
    if (result === 'retry' && attempt < next)
      stream.begun.delete(this.#core.attemptKey(stream, event.id, next));
  }

  /**
   * Checks that no event is taken from the log after failures that reach a limit, recorded or not: the
   * others that were in progress end then, and their results count.
   */
  #checkLimit(stream: SimulatedStream, { kind, attempt, hasRow, result }: Outcome): void {
    const { disabledAtLimit: before } = stream;
    const isFresh = kind === 'first' && attempt === 1 && !hasRow && result !== 'blocked';
    if (before?.version !== stream.counts.version || !isFresh) return;
    stream.disabledAtLimit = { ...before, events: before.events + 1 };
    if (before.events + 1 < this.#core.deps.settings.streamConcurrency) return;
    this.#core.violate(
      'bounds',
      `${before.events + 1} events of ${stream.label} after failures that reach a limit`,
    );
  }

  #checkWaiting(stream: SimulatedStream, limits: Health): void {
    const { streamConcurrency } = this.#core.deps.settings;
    const rows = [...stream.counts.rows.values()];
    const waiting = rows.filter(({ kind, dueAt }) => kind === 'first' && dueAt !== undefined);
    const waitingMax = stream.delivery.retry === undefined ? limits.consecutive : limits.total;
    if (waiting.length > waitingMax + streamConcurrency) {
      this.#core.violate(
        'bounds',
        `${waiting.length} deliveries of ${stream.label} wait for a retry`,
      );
    }
    const open = rows.filter((row) => model.isOpen(row) && row.offset !== undefined).length;
    // Up to the limit, those that wait and end with their stream, and in both cases those in progress.
    if (open > limits.total + limits.consecutive + 2 * streamConcurrency) {
      this.#core.violate('bounds', `${open} open failures of ${stream.label}`);
    }
  }

  /** Checks that a text from outside has no secret of the stream. */
  checkText(stream: SimulatedStream, text: string | undefined): void {
    for (const token of stream.tokens) {
      if (text?.includes(token)) this.#core.violate('secrets', `${stream.label}: ${text}`);
    }
  }

  claimedDue(requests: readonly DueRequest[], now: number, returned: readonly DueRows[]): void {
    requests.forEach((request, index) => {
      const stream = this.#core.streams.get(request.stream);
      const rows = returned[index]?.rows ?? [];
      if (stream === undefined || stream.isDeleted) return;
      if (request.epoch !== stream.counts.epoch || stream.owner === undefined) {
        if (rows.length > 0)
          this.#core.violate('owner', `a former owner got rows of ${stream.label}`);
        return;
      }
      const { taken } = model.claimDue(stream.counts, now, request, request.take, request.keys);
      const got = rows.map(({ event }) => event.id);
      for (const { event, kind, attempt } of rows) {
        stream.handedOut.set(event.id, kind);
        const expected = stream.counts.rows.get(event.id)?.attempt;
        if (attempt !== expected) {
          const what = `attempt ${attempt} of ${event.id}, not ${expected}`;
          this.#core.violate('schedule', `${stream.label} claims ${what}`);
        }
      }
      if (got.join(' ') !== taken.join(' ')) {
        this.#core.violate(
          'counters',
          `${stream.label} claimed [${got.join()}] and not [${taken.join()}]`,
        );
      }
    });
  }

  /** Notes that attempts of whole days before this instant may have left the history. */
  historyPruned(before: number): void {
    this.#historyBefore = Math.max(this.#historyBefore, before);
  }

  /** Checks the result of a redelivery. */
  redeliverReturned(streamId: string, eventId: string, returned: RedeliverResult): void {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined || stream.isDeleted) return;
    const row = stream.counts.rows.get(eventId);
    const expected = row === undefined ? this.endedAs(stream, eventId) : asOpen(stream, row);
    if (expected !== undefined && returned !== expected) {
      this.#core.violate(
        'requested',
        `${eventId} of ${stream.label} is ${expected}, not ${returned}`,
      );
    }
  }

  /** Returns how a delivery ended by its history; `undefined` when its success may have been pruned. */
  endedAs(stream: SimulatedStream, eventId: string): RedeliverResult | undefined {
    const logged = stream.log.model.log.findLast(({ id }) => id === eventId);
    const key = logged?.offset ?? eventId;
    const deliveredAt = stream.deliveredAt.get(key);
    const dismissedAt = stream.dismissedAt.get(key);
    const at = deliveredAt ?? dismissedAt;
    if (at === undefined) return 'unknown';
    if (at < this.#historyBefore) return undefined;
    return deliveredAt === undefined ? 'dismissed' : 'delivered';
  }

  redelivered(streamId: string, eventIds: readonly string[], now: number): void {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined) return;
    for (const eventId of eventIds) {
      const row = stream.counts.rows.get(eventId);
      if (row?.state === 'retrying') {
        row.dueAt = now;
        continue;
      }
      model.redeliver(stream.log.model, stream.counts, eventId, now);
      stream.cycles.set(eventId, (stream.cycles.get(eventId) ?? 0) + 1);
    }
    this.#tables.checkStream(streamId);
  }

  /** Notes that what waits for a retry is due now. */
  retriedNow(streamId: string, count: number, now: number): void {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined || stream.isDeleted) return;
    const { counts } = stream;
    const waiting = [...counts.rows.values()].filter(
      (row) => isWaiting(row, now) && (counts.enabled || row.kind === 'redelivery'),
    );
    if (count !== waiting.length)
      this.#core.violate('requested', `${count} of ${stream.label} are due, not ${waiting.length}`);
    // Those of the oldest cycles come first; the model does not know when a cycle began.
    for (const row of waiting) row.dueAt = this.#tables.dueAt(stream, row.eventId);
    if (waiting.some(({ dueAt }) => (dueAt ?? Infinity) > now))
      this.#core.violate('requested', `deliveries of ${stream.label} wait, and were to be due`);
  }

  /** Notes that a delivery was made due for a trial. */
  broughtForward(request: BringForward, found: BroughtForward | undefined, now: number): void {
    const stream = this.#ownedBy(request);
    const next =
      stream &&
      inRange(stream, { ...request, upTo: Infinity }, now).find(
        ({ kind }) => kind !== 'redelivery',
      );
    if (found?.eventId !== next?.eventId) {
      const what = `${found?.eventId} of ${request.stream} is tried, not ${next?.eventId}`;
      this.#core.violate('counters', what);
    }
    if (stream === undefined || next?.dueAt === undefined) return;
    const waitMs = next.dueAt - now;
    stream.trials.set(next.eventId, { waitMs, dueMs: this.#core.deps.nowMs() + waitMs });
    next.dueAt = now;
  }

  /** Notes that deliveries of a range were made due after an outage. */
  released(request: ReleaseRequest, { due, upTo }: Released, now: number): void {
    const stream = this.#ownedBy(request);
    const rows = stream === undefined ? [] : inRange(stream, request, now).slice(0, request.take);
    const end = rows.length < request.take ? request.upTo : (rows.at(-1)?.offset ?? request.after);
    if (due !== rows.length || upTo !== end) {
      const what = `${due} of ${request.stream} are due up to ${upTo}, not ${rows.length} up to ${end}`;
      this.#core.violate('counters', what);
    }
    for (const row of rows) row.dueAt = now;
  }

  /** Returns the stream of a command if its caller owns it, and may make deliveries due. */
  #ownedBy({ stream: id, epoch }: OwnedWaiting): SimulatedStream | undefined {
    const stream = this.#core.streams.get(id);
    if (stream === undefined || stream.isDeleted || stream.owner === undefined) return undefined;
    return stream.counts.epoch === epoch && stream.counts.enabled ? stream : undefined;
  }

  redeliveredAll(streamId: string, count: number, now: number): void {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined || stream.isDeleted) return;
    const rows = [...stream.counts.rows.values()];
    const failed = rows.filter(({ state }) => state === 'failed').map(({ eventId }) => eventId);
    if (failed.length !== count)
      this.#core.violate('counters', `${count} failures, not ${failed.length}`);
    this.redelivered(streamId, failed, now);
  }

  tested(streamId: string, eventId: string, now: number): void {
    const stream = this.#core.streams.get(streamId);
    stream?.tests.add(eventId);
    stream?.counts.rows.set(eventId, {
      eventId,
      offset: undefined,
      kind: 'test',
      state: 'retrying',
      attempt: 1,
      dueAt: now,
      failedAt: undefined,
    });
  }
}
