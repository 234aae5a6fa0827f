import type { Appended, LogEvent, Node, Stream, Subscription } from '../../src/core/types.ts';
import { selectionNow } from '../../src/core/subscription.ts';
import type { KnownStream } from '../../src/store/port/ownership.ts';
import * as model from '../store/contract/model.ts';
import { OracleCore, processOf } from './oracle-core.ts';
import { Attempts } from './attempts.ts';
import { lostMaxMs } from './disk.ts';
import { FailureWorks } from './failure-works.ts';
import { Leases } from './leases.ts';
import {
  type SimulatedStream,
  newSimulatedStream,
  selectedTypes,
  tokenOf,
} from './simulated-stream.ts';
import { type StreamSnapshot, putBack, refill, stateOf } from './stream-state.ts';
import { Removals } from './removals.ts';
import { Replays } from './replays.ts';
import { Results } from './results.ts';
import { Tables } from './tables.ts';
import type { TenantLogState } from './tenant-log.ts';

/** The expected contents of the store at one moment. */
export interface OracleState {
  /** In the order of the tenants. */
  readonly logs: readonly TenantLogState[];
  readonly streams: ReadonlyMap<SimulatedStream, StreamSnapshot>;
  readonly batches: ReadonlySet<string>;
  readonly dueClaims: ReadonlyMap<string, number>;
  readonly cursors: ReadonlyMap<SimulatedStream, number>;
  readonly leased: readonly string[];
  readonly works: ReturnType<FailureWorks['snapshot']>;
  /** How many settlements were recorded. */
  readonly settlements: number;
}

/** Events of all logs. */
export const eventsOf = ({ logs }: OracleState): number =>
  logs.reduce((sum, { head }) => sum + head, 0);

/** Follows everything that happens and records the first violation of a guarantee. */
export class Oracle extends OracleCore {
  readonly tables = new Tables(this);
  readonly leases = new Leases(this, this.tables);
  readonly removals = new Removals(this);
  readonly attempts = new Attempts(this, this);
  readonly results = new Results(this, this.tables, this.attempts);
  readonly replays = new Replays(this, this.tables);
  readonly works = new FailureWorks(this, this.tables, (stream, eventId) =>
    this.results.endedAs(stream, eventId),
  );
  /** How often the store was restored. */
  #restores = 0;
  /** The value of `#restores` when appends were committed. */
  readonly #committed = new WeakMap<readonly Appended[], number>();

  // Restores of the store

  snapshot(): OracleState {
    return {
      logs: this.logs.map((log) => log.snapshot()),
      streams: new Map([...this.streams.values()].map((stream) => [stream, stateOf(stream)])),
      batches: new Set(this.results.batches),
      dueClaims: new Map(this.leases.dueClaims),
      cursors: new Map(this.tables.cursors),
      leased: [...this.leases.leases.keys()],
      works: this.works.snapshot(),
      settlements: this.results.settledAt.length,
    };
  }

  /**
   * Continues with the contents of the disk after a power cut. Acknowledged events and changes must be
   * there, and at most the settlements of the stated time are lost. No lease remains.
   */
  cut(state: OracleState): void {
    this.logs.forEach(({ acknowledgedTo, isRemovalKnown }, index) => {
      const head = state.logs[index]?.head ?? 0;
      if (isRemovalKnown && state.logs[index]?.removal === 'none')
        this.violate('lost', 'the removal of a tenant');
      if (head < acknowledgedTo) {
        this.violate('lost', `the disk ends at ${head}, not at ${acknowledgedTo}`);
      }
    });
    for (const [stream, { counts }] of state.streams) {
      if (counts.version < stream.knownVersion) this.violate('lost', `a change of ${stream.label}`);
    }
    const lostAt = this.results.settledAt[state.settlements];
    if (lostAt !== undefined && lostAt < this.deps.nowMs() - lostMaxMs) {
      this.violate('synced', `what was recorded at ${lostAt} was not on the disk`);
    }
    this.restore({ ...state, leased: [] }, 0);
    for (const stream of this.streams.values()) stream.owner = undefined;
  }

  /**
   * Continues with an earlier state of the store, with leases of `leaseMs` from now. Later changes are
   * lost, and that violates nothing. Processes that have not noticed may continue for the rest of their leases.
   */
  restore(state: OracleState, leaseMs: number): void {
    this.#restores += 1;
    for (const [process, untilMs] of this.leases.leases)
      this.leases.staleLeases.set(process, untilMs);
    this.results.settledAt.length = state.settlements;
    for (const [index, log] of this.logs.entries()) {
      const then = state.logs[index];
      if (then !== undefined) log.restore(then);
    }
    for (const stream of this.streams.values())
      if (!state.streams.has(stream)) this.streams.delete(stream.id);
    for (const [stream, then] of state.streams) {
      putBack(stream, then, (eventId) => stream.log.offsetOf(eventId) !== undefined);
      if (!stream.isDeleted) stream.log.model.streams.set(stream.id, stream.counts);
    }
    this.removals.restored();
    this.works.restore(state.works);
    refill(this.results.batches, [...state.batches]);
    refill(this.leases.dueClaims, [...state.dueClaims]);
    refill(this.tables.cursors, [...state.cursors]);
    const untilMs = this.deps.nowMs() + leaseMs;
    refill(
      this.leases.leases,
      state.leased.map((process) => [process, untilMs]),
    );
  }

  // The log

  /** Notes the results of a commit: results that arrive after a restore are void. */
  committed(appended: readonly Appended[]): void {
    this.#committed.set(appended, this.#restores);
  }

  appended(tenant: number, events: readonly LogEvent[]): void {
    const now = this.deps.now();
    const log = this.logOf(tenant);
    for (const event of events) {
      const before = log.events.at(-1)?.publishedAt ?? 0;
      if (event.publishedAt !== Math.max(before, now)) {
        this.violate('time', `${event.id} is published at ${event.publishedAt} and not at ${now}`);
      }
      if (event.offset !== log.head + 1) {
        this.violate('log', `offset ${event.offset} follows ${log.head}`);
      }
      log.append(event);
    }
  }

  /** Checks the results of an append that a client received. */
  acknowledged(tenant: number, appended: readonly Appended[]): void {
    if (this.#committed.get(appended) !== this.#restores) return;
    const log = this.logOf(tenant);
    for (const { id, offset } of appended) {
      const event = log.event(offset);
      log.acknowledgedTo = Math.max(log.acknowledgedTo, offset);
      if (event?.id !== id)
        this.violate('lost', `${id} was acknowledged at ${offset} and is not there`);
    }
  }

  pruned(
    tenant: number,
    { olderThanMs, take }: { readonly olderThanMs: number; readonly take: number },
    count: number,
  ): void {
    const log = this.logOf(tenant);
    if (log.removal !== 'none') return;
    // Ages use the clock of the store, but never an instant after its newest event.
    const newest = Math.max(...this.present().map(({ events }) => events.at(-1)?.publishedAt ?? 0));
    const before = Math.min(this.deps.now(), newest > 0 ? newest : Infinity) - olderThanMs;
    const cursors = [...this.streams.values()].filter((stream) => stream.log === log);
    const expected = model.prune(log.model, before, take);
    if (count !== expected)
      this.violate('lost', `${count} events were pruned instead of ${expected}`);
    this.tables.checkKept();
    for (const stream of cursors) if (!stream.counts.enabled) skipPruned(stream);
  }

  // Streams

  /** `start`: the requested offset after which the stream begins. */
  created(stored: Stream, types: readonly string[], start: number | undefined): void {
    const log = this.logOf(stored.tenant);
    const counts = model.newModelStream(log.model, '');
    const begins = Math.min(start ?? log.head, log.head);
    counts.cursor = begins;
    const stream = newSimulatedStream(stored, types, {
      counts,
      log,
      retry: this.deps.settings.retry,
    });
    // Pruned between the choice of the start and the creation.
    skipPruned(stream);
    this.streams.set(stored.id, stream);
    log.model.streams.set(stored.id, stream.counts);
    this.tables.check(stream);
    if (counts.cursor !== begins) {
      this.violate(
        'requested',
        `${stream.label} begins after ${counts.cursor}, not after ${begins}`,
      );
    }
  }

  /** Notes that a PATCH took effect, with its `resume`. */
  updated(
    after: Stream,
    request: { readonly resume: 'latest' | 'held' | undefined; readonly isHeld: boolean },
    now: number,
  ): void {
    const stream = this.streams.get(after.id);
    if (stream === undefined) return;
    const { counts, spans, log } = stream;
    const isHeld = request.resume === 'held';
    if (after.status === 'enabled' && !counts.enabled && isHeld !== request.isHeld) {
      this.violate('requested', `${stream.label} was to resume from ${request.resume ?? 'latest'}`);
    }
    const types = selectedTypes(selectionNow(after.subscriptions));
    if (after.status === 'disabled' && counts.enabled) model.disable(counts, now);
    else if (after.status === 'enabled' && !counts.enabled) this.#enable(stream, isHeld);
    else if (after.version > counts.version) counts.version += 1;
    counts.paused = after.paused !== undefined;
    if (types.join(' ') !== spans.at(-1)?.types.join(' ')) spans.push({ after: log.head, types });
    stream.selection = selectionNow(after.subscriptions);
    stream.endpoint = after.destination.endpoint;
    stream.tokens.add(tokenOf(after));
    this.tables.check(stream);
  }

  /**
   * Notes changes of subscriptions that apply later, because their owner had taken events before it read
   * them: never after an event that was published after the response to the operator, which is also sent
   * when the lease of the owner has ended.
   */
  delayed(node: Node, known: readonly KnownStream[]): void {
    for (const { tenant, stream: id, taken } of known) {
      const stream = this.streams.get(id);
      const row = this.deps.sharedStore.db.get<{ version: number; subscriptions: string }>`
        select version, subscriptions from streams where tenant = ${tenant} and id = ${id}`;
      if (stream === undefined || row === undefined || taken === undefined) continue;
      const { counts, spans } = stream;
      if (row.version === counts.version) continue;
      // A node whose machine was suspended relies on its former state for a while.
      const isExempt = this.leases.suspended.has(processOf(node));
      const isInForce = counts.version <= stream.knownVersion && taken.upTo > stream.knownAt;
      if (isInForce && !isExempt) {
        this.violate('destination', `a change of ${stream.label} that was in force applies later`);
      }
      counts.version = row.version;
      const present = JSON.parse(row.subscriptions) as readonly Subscription[];
      const from = Math.max(spans[0]?.after ?? 0, present[0]?.after ?? 0);
      const kept = spans.filter(({ after }) => after < from);
      const later = present.map((one) => ({
        after: Math.max(from, one.after),
        types: selectedTypes(one),
      }));
      spans.splice(0, spans.length, ...kept, ...later);
      this.tables.check(stream);
    }
  }

  #enable(stream: SimulatedStream, isHeld: boolean): void {
    const { counts, skipped, log } = stream;
    // Not to the head: events may have been appended since the change.
    const skippedTo = isHeld ? 0 : this.tables.cursorNow(stream);
    for (let offset = counts.cursor + 1; offset <= skippedTo; offset += 1) skipped.add(offset);
    model.enable(log.model, counts, isHeld ? 'held' : 'latest');
  }

  deleted(id: string): void {
    const stream = this.streams.get(id);
    if (stream === undefined) return;
    stream.isDeleted = true;
    stream.log.model.streams.delete(id);
    this.works.deleted(stream);
  }

  /** Notes that a tenant is unknown from now on. */
  left(tenant: number): void {
    const log = this.logOf(tenant);
    this.removals.left(log);
    this.works.left(tenant);
  }

  /** Notes a step of the removal of a tenant. */
  removed(tenant: number, isDone: boolean): void {
    for (const { id } of this.removals.stepped(this.logOf(tenant), isDone)) this.deleted(id);
  }

  /** Notes that a stream was disabled because its oldest unsettled event is too old. */
  disabledForLag(streamId: string): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined) return;
    const { lagMaxMs } = this.deps;
    const publishedAt = stream.log.event(stream.counts.cursor + 1)?.publishedAt ?? Infinity;
    if (this.deps.now() - publishedAt < lagMaxMs) {
      this.violate('disabled', `${stream.label} is disabled for a lag that it does not have`);
    }
    model.disable(stream.counts, this.deps.now());
    this.tables.check(stream);
  }
}

/** Skips events above the cursor that were pruned while the stream was disabled. */
function skipPruned({ log, counts, skipped }: SimulatedStream): void {
  const oldest = log.model.log[0]?.offset ?? log.head + 1;
  for (let offset = counts.cursor + 1; offset < oldest; offset += 1) skipped.add(offset);
}
