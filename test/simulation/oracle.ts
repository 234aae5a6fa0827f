import type { Appended, LogEvent, Stream } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';
import { Account } from './account.ts';
import { Attempts } from './attempts.ts';
import { lostMaxMs } from './disk.ts';
import { Leases } from './leases.ts';
import { type Line, newLine, tokenOf } from './line.ts';
import { type LineState, putBack, refill, stateOf } from './line-state.ts';
import { Replays } from './replays.ts';
import { Results } from './results.ts';
import { Tables } from './tables.ts';
import type { TenantLogState } from './tenant-log.ts';

/** What the store knows at one moment, as the ledger has it. */
export interface OracleState {
  /** In the order of the tenants. */
  readonly logs: readonly TenantLogState[];
  readonly lines: ReadonlyMap<Line, LineState>;
  readonly batches: ReadonlySet<string>;
  readonly dueClaims: ReadonlyMap<string, number>;
  readonly cursors: ReadonlyMap<Line, number>;
  readonly leased: readonly string[];
  /** How many settlements were recorded. */
  readonly settlements: number;
}

/** Events of all logs. */
export const eventsOf = ({ logs }: OracleState): number =>
  logs.reduce((sum, { head }) => sum + head, 0);

/** Keeps account of everything that happens, and notices the first promise that is broken. */
export class Oracle extends Account {
  readonly tables = new Tables(this);
  readonly leases = new Leases(this, this.tables);
  readonly attempts = new Attempts(this, this.tables, this.leases);
  readonly results = new Results(this, this.tables, this.attempts);
  readonly replays = new Replays(this, this.tables);
  /** How often the store went back. */
  #term = 0;
  /** In which term appends were committed. */
  readonly #committed = new WeakMap<readonly Appended[], number>();

  // The store goes back

  snapshot(): OracleState {
    return {
      logs: this.logs.map((log) => log.snapshot()),
      lines: new Map([...this.lines.values()].map((line) => [line, stateOf(line)])),
      batches: new Set(this.results.batches),
      dueClaims: new Map(this.leases.dueClaims),
      cursors: new Map(this.tables.cursors),
      leased: [...this.leases.leases.keys()],
      settlements: this.results.settledAt.length,
    };
  }

  /**
   * The power was cut, and this was on the disk: what clients and receivers were told of is among it, and of
   * what was recorded not more than the stated time is lost. No lease outlives it.
   */
  cut(state: OracleState): void {
    this.logs.forEach(({ knownTo }, index) => {
      const head = state.logs[index]?.head ?? 0;
      if (head < knownTo) {
        this.break('lost', `the disk ends at ${head}, not at ${knownTo}`);
      }
    });
    for (const [line, { counts }] of state.lines) {
      if (counts.version < line.knownVersion) this.break('lost', `a change of ${line.label}`);
    }
    const lostAt = this.results.settledAt[state.settlements];
    if (lostAt !== undefined && lostAt < this.deps.nowMs() - lostMaxMs) {
      this.break('synced', `what was recorded at ${lostAt} was not on the disk`);
    }
    this.restore({ ...state, leased: [] }, 0);
    for (const line of this.lines.values()) line.owner = undefined;
  }

  /**
   * The store is as it was, with leases of `leaseMs` from now: what came later is lost, and nobody
   * owes it. Processes that have not noticed may go on for what is left of their leases.
   */
  restore(state: OracleState, leaseMs: number): void {
    this.#term += 1;
    for (const [process, untilMs] of this.leases.leases) this.leases.unaware.set(process, untilMs);
    this.results.settledAt.length = state.settlements;
    for (const [index, log] of this.logs.entries()) {
      const then = state.logs[index];
      if (then !== undefined) log.restore(then);
    }
    for (const line of this.lines.values()) if (!state.lines.has(line)) this.lines.delete(line.id);
    for (const [line, then] of state.lines) {
      putBack(line, then, (eventId) => line.log.offsetOf(eventId) !== undefined);
      if (!line.isDeleted) line.log.model.streams.set(line.id, line.counts);
    }
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

  /** What a commit answered; a client that hears of it after the store went back was told too much. */
  committed(answers: readonly Appended[]): void {
    this.#committed.set(answers, this.#term);
  }

  appended(tenant: number, events: readonly LogEvent[]): void {
    const now = this.deps.now();
    const log = this.logOf(tenant);
    for (const event of events) {
      const before = log.events.at(-1)?.publishedAt ?? 0;
      if (event.publishedAt !== Math.max(before, now)) {
        this.break('time', `${event.id} is published at ${event.publishedAt} and not at ${now}`);
      }
      if (event.offset !== log.head + 1) {
        this.break('log', `offset ${event.offset} follows ${log.head}`);
      }
      log.append(event);
    }
  }

  /** The client has its answer. */
  acknowledged(tenant: number, answers: readonly Appended[]): void {
    if (this.#committed.get(answers) !== this.#term) return;
    const log = this.logOf(tenant);
    for (const { id, offset } of answers) {
      const event = log.event(offset);
      log.knownTo = Math.max(log.knownTo, offset);
      if (event?.id !== id)
        this.break('lost', `${id} was acknowledged at ${offset} and is not there`);
    }
  }

  pruned(
    tenant: number,
    { olderThanMs, take }: { readonly olderThanMs: number; readonly take: number },
    count: number,
  ): void {
    const log = this.logOf(tenant);
    // Ages are measured by the clock of the store, and not from later than its newest event.
    const newest = Math.max(...this.logs.map(({ events }) => events.at(-1)?.publishedAt ?? 0));
    const before = Math.min(this.deps.now(), newest > 0 ? newest : Infinity) - olderThanMs;
    const cursors = [...this.lines.values()].filter((line) => line.log === log);
    const expected = model.prune(log.model, before, take);
    if (count !== expected)
      this.break('lost', `${count} events were pruned instead of ${expected}`);
    this.tables.checkKept();
    for (const line of cursors) if (!line.counts.enabled) leaveOutPruned(line);
  }

  // Streams

  /** `start`: the offset after which it was asked to begin. */
  created(stream: Stream, types: readonly string[], start: number | undefined): void {
    const log = this.logOf(stream.tenant);
    const counts = model.newModelStream(log.model, '');
    const begins = Math.min(start ?? log.head, log.head);
    counts.cursor = begins;
    const line = newLine(stream, types, { counts, log });
    // Pruned between the choice of the start and the creation.
    leaveOutPruned(line);
    this.lines.set(stream.id, line);
    log.model.streams.set(stream.id, line.counts);
    this.tables.check(line);
    if (counts.cursor !== begins) {
      this.break('asked', `${line.label} begins after ${counts.cursor}, not after ${begins}`);
    }
  }

  /** A PATCH took effect; `resume` is what it asked for. */
  updated(
    after: Stream,
    asked: { readonly resume: 'latest' | 'held' | undefined; readonly isHeld: boolean },
    now: number,
  ): void {
    const line = this.lines.get(after.id);
    if (line === undefined) return;
    const { counts, spans, log } = line;
    const isHeld = asked.resume === 'held';
    if (after.status === 'enabled' && !counts.enabled && isHeld !== asked.isHeld) {
      this.break('asked', `${line.label} was to resume from ${asked.resume ?? 'latest'}`);
    }
    const types = after.subscriptions.at(-1)?.types ?? [];
    if (after.status === 'disabled' && counts.enabled) model.disable(counts, now);
    else if (after.status === 'enabled' && !counts.enabled) this.#enable(line, isHeld);
    else if (after.version > counts.version) counts.version += 1;
    if (types.join(' ') !== spans.at(-1)?.types.join(' ')) spans.push({ after: log.head, types });
    line.endpoint = after.destination.endpoint;
    line.tokens.add(tokenOf(after));
    this.tables.check(line);
  }

  #enable(line: Line, isHeld: boolean): void {
    const { counts, leftOut, log } = line;
    if (!isHeld) {
      for (let offset = counts.cursor + 1; offset <= log.head; offset += 1) leftOut.add(offset);
    }
    model.enable(log.model, counts, isHeld ? 'held' : 'latest');
  }

  deleted(id: string): void {
    const line = this.lines.get(id);
    if (line === undefined) return;
    line.isDeleted = true;
    line.log.model.streams.delete(id);
  }

  /** A stream was disabled because its oldest event that is not settled is too old. */
  disabledForLag(stream: string): void {
    const line = this.lines.get(stream);
    if (line === undefined) return;
    const { lagMaxMs } = this.deps;
    const publishedAt = line.log.event(line.counts.cursor + 1)?.publishedAt ?? Infinity;
    if (this.deps.now() - publishedAt < lagMaxMs) {
      this.break('disabled', `${line.label} is disabled for a lag that it does not have`);
    }
    model.disable(line.counts, this.deps.now());
    this.tables.check(line);
  }
}

/** The log no longer has these events above the cursor, and nobody had to keep them. */
function leaveOutPruned({ log, counts, leftOut }: Line): void {
  const oldest = log.model.log[0]?.offset ?? log.head + 1;
  for (let offset = counts.cursor + 1; offset < oldest; offset += 1) leftOut.add(offset);
}
