import type {
  Appended,
  DeliveryKind,
  Health,
  LogEvent,
  Replay,
  Stream,
} from '../../src/core/types.ts';
import type { DispatcherState } from '../../src/delivery/dispatcher.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type {
  CursorRaise,
  DueAnswer,
  DueAsk,
  DueRules,
  Node,
  OwnedStream,
  SettleAnswer,
  SettleBatch,
  Settlement,
} from '../../src/store/port.ts';
import type { FeedAnswer, FeedAsk, NewReplay } from '../../src/store/port-replays.ts';
import * as model from '../store/contract/model.ts';
import * as replays from '../store/contract/model-replays.ts';
import { lostMaxMs } from './disk.ts';
import { type LineState, putBack, refill, stateOf } from './line-state.ts';
import type { Broken, PromiseName } from './promises.ts';
import type { Site } from './site.ts';
import { labelOf } from './world.ts';

/** Characters of the longest body. */
const bodyMax = 100;

/** A stream as the simulation knows it: what was asked of Leat, and what Leat did. */
export interface Line {
  /** Short, for people: `s12`. */
  readonly label: string;
  readonly id: string;
  readonly counts: model.ModelStream;
  /** Types wanted after an offset, oldest first. */
  readonly spans: { readonly after: number; readonly types: readonly string[] }[];
  endpoint: string;
  readonly tokens: Set<string>;
  owner: { readonly process: string; readonly epoch: number } | undefined;
  /** Ids of events recorded as delivered. */
  readonly recorded: Set<string>;
  /** Ids of events that a receiver has accepted. */
  readonly accepted: Set<string>;
  /** Offsets that `latest` left out, or that were pruned while the stream was disabled. */
  readonly leftOut: Set<number>;
  /** How often an event's cycle was begun anew. */
  readonly cycles: Map<string, number>;
  /** How often a node began to work for it. */
  adoptions: number;
  /** Attempts begun, by event, cycle and attempt: in which adoption each. */
  readonly begun: Map<string, number[]>;
  /** Ids of accepted test events. */
  readonly tests: Set<string>;
  /** Rows that were handed out to be sent: the kind of each when it was. */
  readonly handedOut: Map<string, DeliveryKind>;
  /** Attempts under way, by process. */
  readonly open: Map<string, number>;
  /** The last version of which an operator was told that it holds. */
  toldVersion: number;
  /** Somebody has asked to delete it; nobody else asks for anything then. */
  isLeaving: boolean;
  isDeleted: boolean;
}

export interface LedgerDeps {
  readonly site: Pick<Site, 'db' | 'tenant'>;
  readonly settings: DeliverySettings;
  /** Whether the plan has nothing that may hold a process or the store up for long. */
  readonly isPunctual: boolean;
  /** See `UpkeepSettings`. */
  readonly lagMaxMs: number;
  readonly nowMs: () => number;
  /** The clock of the store. */
  readonly now: () => number;
}

/** What the store knows at one moment, as the ledger has it. */
export interface LedgerState {
  readonly head: number;
  readonly log: model.LoggedEvent[];
  readonly lines: ReadonlyMap<Line, LineState>;
  readonly batches: ReadonlySet<string>;
  readonly claims: ReadonlyMap<string, number>;
  readonly cursors: ReadonlyMap<Line, number>;
  readonly leased: readonly string[];
  /** How many settlements were recorded. */
  readonly settlements: number;
}

/** Keeps account of everything that happens, and notices the first promise that is broken. */
export class Ledger {
  readonly lines = new Map<string, Line>();
  readonly world = model.createModel();
  broken: Broken | undefined;
  /** Attempts begun, for the report. */
  attempts = 0;
  readonly #deps: LedgerDeps;
  readonly #log: LogEvent[] = [];
  readonly #batches = new Set<string>();
  readonly #claims = new Map<string, number>();
  readonly #leases = new Map<string, number>();
  /** Processes that have not joined since the store went back, and when their leases end. */
  readonly #unaware = new Map<string, number>();
  /** Processes whose machine was suspended: until when they may go by what they knew, and what they sent. */
  readonly #slept = new Map<
    string,
    { readonly untilMs: number; readonly sent: Map<Line, number> }
  >();
  /** How often the store went back. */
  #term = 0;
  /** In which term appends were committed. */
  readonly #committed = new WeakMap<readonly Appended[], number>();
  /** As last seen in the table. */
  readonly #cursors = new Map<Line, number>();
  /** When receivers accepted events, in order. */
  readonly #acceptedAt: number[] = [];
  /** When settlements were recorded, in order. */
  readonly #settledAt: number[] = [];
  /** The last offset that a client was told of. */
  #acknowledgedTo = 0;

  constructor(deps: LedgerDeps) {
    this.#deps = deps;
  }

  break(promise: PromiseName, how: string): void {
    this.broken ??= { promise, atMs: this.#deps.nowMs(), how };
  }

  /** Offset of the last event. */
  get head(): number {
    return this.#log.length;
  }

  event(offset: number): LogEvent | undefined {
    return this.#log[offset - 1];
  }

  // The store goes back

  snapshot(): LedgerState {
    return {
      head: this.head,
      log: [...this.world.log],
      lines: new Map([...this.lines.values()].map((line) => [line, stateOf(line)])),
      batches: new Set(this.#batches),
      claims: new Map(this.#claims),
      cursors: new Map(this.#cursors),
      leased: [...this.#leases.keys()],
      settlements: this.#settledAt.length,
    };
  }

  /**
   * The power was cut, and this was on the disk: what clients were told of is among it, and of what
   * was recorded not more than the stated time is lost. No lease outlives it.
   */
  cut(state: LedgerState): void {
    if (state.head < this.#acknowledgedTo) {
      this.break('lost', `the disk ends at ${state.head}, not at ${this.#acknowledgedTo}`);
    }
    for (const [line, { counts }] of state.lines) {
      if (counts.version < line.toldVersion) this.break('lost', `a change of ${line.label}`);
    }
    const lostAt = this.#settledAt[state.settlements];
    if (lostAt !== undefined && lostAt < this.#deps.nowMs() - lostMaxMs) {
      this.break('synced', `what was recorded at ${lostAt} was not on the disk`);
    }
    this.restore({ ...state, leased: [] }, 0);
    for (const line of this.lines.values()) line.owner = undefined;
  }

  /**
   * The store is as it was, with leases of `leaseMs` from now: what came later is lost, and nobody
   * owes it. Processes that have not noticed may go on for what is left of their leases.
   */
  restore(state: LedgerState, leaseMs: number): void {
    this.#term += 1;
    for (const [process, untilMs] of this.#leases) this.#unaware.set(process, untilMs);
    this.#log.length = state.head;
    this.#settledAt.length = state.settlements;
    this.#acknowledgedTo = Math.min(this.#acknowledgedTo, state.head);
    this.world.head = state.head;
    this.world.log.splice(0, Infinity, ...state.log);
    this.world.streams.clear();
    const isThere = (eventId: string): boolean => this.#offsetOf(eventId) !== undefined;
    for (const line of this.lines.values()) if (!state.lines.has(line)) this.lines.delete(line.id);
    for (const [line, then] of state.lines) {
      putBack(line, then, isThere);
      if (!line.isDeleted) this.world.streams.set(line.id, line.counts);
    }
    refill(this.#batches, [...state.batches]);
    refill(this.#claims, [...state.claims]);
    refill(this.#cursors, [...state.cursors]);
    const untilMs = this.#deps.nowMs() + leaseMs;
    refill(
      this.#leases,
      state.leased.map((process) => [process, untilMs]),
    );
  }

  // The log

  /** What a commit answered; a client that hears of it after the store went back was told too much. */
  committed(answers: readonly Appended[]): void {
    this.#committed.set(answers, this.#term);
  }

  appended(events: readonly LogEvent[]): void {
    const now = this.#deps.now();
    for (const event of events) {
      const before = this.#log.at(-1)?.publishedAt ?? 0;
      if (event.publishedAt !== Math.max(before, now)) {
        this.break('time', `${event.id} is published at ${event.publishedAt} and not at ${now}`);
      }
      if (event.offset !== this.head + 1) {
        this.break('log', `offset ${event.offset} follows ${this.head}`);
      }
      this.#log.push(event);
      this.world.head = event.offset;
      const { id, type, offset, publishedAt } = event;
      this.world.log.push({ id, type, offset, publishedAt });
    }
  }

  /** The client has its answer. */
  acknowledged(answers: readonly Appended[]): void {
    if (this.#committed.get(answers) !== this.#term) return;
    for (const { id, offset } of answers) {
      const event = this.event(offset);
      this.#acknowledgedTo = Math.max(this.#acknowledgedTo, offset);
      if (event?.id !== id)
        this.break('lost', `${id} was acknowledged at ${offset} and is not there`);
    }
  }

  pruned(olderThanMs: number, take: number, count: number): void {
    // Ages are measured by the clock of the store, and not from later than its newest event.
    const newest = this.world.log.at(-1)?.publishedAt ?? Infinity;
    const before = Math.min(this.#deps.now(), newest) - olderThanMs;
    const cursors = [...this.lines.values()];
    const expected = model.prune(this.world, before, take);
    if (count !== expected)
      this.break('lost', `${count} events were pruned instead of ${expected}`);
    this.checkKept();
    const oldest = this.world.log[0]?.offset ?? this.head + 1;
    for (const line of cursors) {
      if (line.counts.enabled) continue;
      for (let offset = line.counts.cursor + 1; offset < oldest; offset += 1) {
        line.leftOut.add(offset);
      }
    }
  }

  // Upkeep

  /** Bodies and entries of the history were removed: open deliveries keep theirs. */
  checkKept(): void {
    const { db, tenant } = this.#deps.site;
    const bodiless = db.all<{ stream: string; event: string }>`
      select d.stream, d.event_id as event from deliveries d
      where d.tenant = ${tenant} and d.body is null
        and not exists (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset)
        and not exists (
          select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    for (const { stream, event } of bodiless) {
      this.break('lost', `the body of ${event}, which ${labelOf(stream)} has not delivered`);
    }
    const silent = db.all<{ stream: string; event: string }>`
      select d.stream, d.event_id as event
      from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
      where d.tenant = ${tenant} and d.failed_at is not null and d.offset is not null
        and not exists (
          select 1 from attempts a where a.stream_key = r.key and a.event_key = d.offset)
        and not exists (
          select 1 from attempts_kept a where a.stream_key = r.key and a.event_key = d.offset)`;
    for (const { stream, event } of silent) {
      this.break('explained', `the failure of ${event} of ${labelOf(stream)} has no history`);
    }
  }

  /** Replays that were over longer ago are forgotten; no other is. */
  prunedReplays(olderThanMs: number): void {
    const before = this.#deps.now() - olderThanMs;
    for (const { id, counts } of this.living()) {
      for (const { id: replay, finishedAt } of counts.replays.values()) {
        const isThere = this.#deps.site.db.get`
          select 1 from replays where stream = ${id} and id = ${replay}`;
        if (isThere !== undefined || (finishedAt ?? Infinity) >= before) continue;
        counts.replays.delete(replay);
      }
    }
    for (const line of this.living()) this.#checkReplays(line);
  }

  /** A stream was disabled because its oldest event that is not settled is too old. */
  disabledForLag(stream: string): void {
    const line = this.lines.get(stream);
    if (line === undefined) return;
    const { lagMaxMs } = this.#deps;
    const publishedAt = this.event(line.counts.cursor + 1)?.publishedAt ?? Infinity;
    if (this.#deps.now() - publishedAt < lagMaxMs) {
      this.break('disabled', `${line.label} is disabled for a lag that it does not have`);
    }
    model.disable(line.counts, this.#deps.now());
    this.#look(line);
  }

  // Streams

  created(stream: Stream, types: readonly string[]): void {
    const line: Line = {
      label: labelOf(stream.id),
      id: stream.id,
      counts: model.newModelStream(this.world, ''),
      spans: [{ after: this.head, types }],
      endpoint: stream.destination.endpoint,
      tokens: new Set([tokenOf(stream)]),
      owner: undefined,
      recorded: new Set(),
      accepted: new Set(),
      leftOut: new Set(),
      cycles: new Map(),
      adoptions: 0,
      begun: new Map(),
      tests: new Set(),
      handedOut: new Map(),
      open: new Map(),
      toldVersion: 0,
      isLeaving: false,
      isDeleted: false,
    };
    this.lines.set(stream.id, line);
    this.world.streams.set(stream.id, line.counts);
    this.#look(line);
  }

  /** A PATCH took effect. */
  updated(after: Stream, isHeld: boolean, now: number): void {
    const line = this.lines.get(after.id);
    if (line === undefined) return;
    const { counts, spans } = line;
    const types = after.subscriptions.at(-1)?.types ?? [];
    if (after.status === 'disabled' && counts.enabled) model.disable(counts, now);
    else if (after.status === 'enabled' && !counts.enabled) this.#enable(line, isHeld);
    else if (after.version > counts.version) counts.version += 1;
    if (types.join(' ') !== spans.at(-1)?.types.join(' ')) spans.push({ after: this.head, types });
    line.endpoint = after.destination.endpoint;
    line.tokens.add(tokenOf(after));
    this.#look(line);
  }

  #enable(line: Line, isHeld: boolean): void {
    const { counts, leftOut } = line;
    if (!isHeld) {
      for (let offset = counts.cursor + 1; offset <= this.head; offset += 1) leftOut.add(offset);
    }
    model.enable(this.world, counts, isHeld ? 'held' : 'latest');
  }

  deleted(id: string): void {
    const line = this.lines.get(id);
    if (line === undefined) return;
    line.isDeleted = true;
    this.world.streams.delete(id);
  }

  /** Streams that are there, oldest first. */
  living(): Line[] {
    return [...this.lines.values()].filter(({ isDeleted }) => !isDeleted);
  }

  // Ownership

  joined(node: Node, leaseMs: number): void {
    this.#free(node.id);
    for (const process of this.#leases.keys()) {
      if (process.startsWith(`${node.id}#`)) this.#leases.delete(process);
    }
    for (const process of this.#unaware.keys()) {
      if (process.startsWith(`${node.id}#`)) this.#unaware.delete(process);
    }
    for (const process of this.#slept.keys()) {
      if (process.startsWith(`${node.id}#`)) this.#slept.delete(process);
    }
    this.#leases.set(processOf(node), this.#deps.nowMs() + leaseMs);
  }

  /**
   * The node wakes after its machine was suspended, and cannot know: for what its own clock says is
   * left of its lease it works by what it knew.
   */
  slept(node: Node): void {
    const untilMs = this.#deps.nowMs() + this.#deps.settings.leaseStopMs;
    this.#slept.set(processOf(node), { untilMs, sent: new Map() });
  }

  renewed(node: Node, leaseMs: number): void {
    this.#leases.set(processOf(node), this.#deps.nowMs() + leaseMs);
  }

  claimed(node: Node, claim: number, answer: readonly OwnedStream[], now: number): void {
    const process = processOf(node);
    const isRepeated = claim <= (this.#claims.get(process) ?? 0);
    if (!isRepeated && this.#isLeased(process)) {
      this.#claims.set(process, claim);
      this.#buryDead();
    }
    for (const { stream, epoch } of answer) {
      const line = this.lines.get(stream.id);
      if (line === undefined) continue;
      if (!isRepeated) this.#takeOver(line, { process, epoch }, now);
      else if (epoch !== line.counts.epoch) this.break('repeated', `${line.label}, a second time`);
    }
  }

  #takeOver(line: Line, owner: { process: string; epoch: number }, now: number): void {
    if (line.owner !== undefined) {
      this.break('lease', `${line.label} was taken from ${line.owner.process} during its lease`);
    }
    this.#checkSentAgain(line);
    model.claim(line.counts, now);
    line.owner = owner;
    this.#look(line);
  }

  /** Whether a process with a lease works for the stream. */
  isOwned({ owner }: Line): boolean {
    return owner !== undefined && this.#isLeased(owner.process);
  }

  #isLeased(process: string): boolean {
    return (this.#leases.get(process) ?? 0) > this.#deps.nowMs();
  }

  /** A claim frees what nodes own whose lease has ended. */
  #buryDead(): void {
    for (const line of this.lines.values()) {
      if (line.owner !== undefined && !this.#isLeased(line.owner.process)) line.owner = undefined;
    }
  }

  released(node: Node, cursors: readonly CursorRaise[]): void {
    for (const cursor of cursors) {
      this.raised(node, [cursor]);
      const line = this.lines.get(cursor.stream);
      if (line?.owner?.process === processOf(node) && line.owner.epoch === cursor.epoch) {
        line.owner = undefined;
      }
    }
  }

  left(node: Node): void {
    for (const line of this.lines.values()) {
      if (line.owner?.process === processOf(node)) line.owner = undefined;
    }
    this.#leases.delete(processOf(node));
  }

  /** `node` may have moved these cursors. */
  raised(node: Node, cursors: readonly CursorRaise[]): void {
    for (const { stream, epoch } of cursors) {
      const line = this.lines.get(stream);
      if (line !== undefined && !line.isDeleted)
        this.#look(line, { process: processOf(node), epoch });
    }
  }

  #free(nodeId: string): void {
    for (const line of this.lines.values()) {
      if (line.owner?.process.startsWith(`${nodeId}#`)) line.owner = undefined;
    }
  }

  /** How much a new owner sends again, of what the former one sent and did not get recorded. */
  #checkSentAgain(line: Line): void {
    const { parkAfterEvents, streamConcurrency, settleMax, concurrency } = this.#deps.settings;
    let above = 0;
    for (let offset = line.counts.cursor + 1; offset <= this.head; offset += 1) {
      const event = this.event(offset);
      if (event === undefined || line.counts.rows.has(event.id)) continue;
      if (line.begun.has(this.#attemptKey(line, event.id, 1)) && this.wants(line, offset))
        above += 1;
    }
    const parked = [...line.counts.rows.values()].filter(
      ({ state, eventId, attempt }) =>
        state === 'parked' && line.begun.has(this.#attemptKey(line, eventId, attempt)),
    );
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    if (above > bound) {
      this.break('twice', `${above} events above the cursor of ${line.label}, at most ${bound}`);
    }
    const all = above + parked.length;
    if (all > bound + settleMax + concurrency) {
      this.break('twice', `${all} events of ${line.label} are sent again`);
    }
  }

  /** Nothing that a node holds in memory grows with a backlog or with what fails. */
  checkMemory(process: string, state: DispatcherState): void {
    const { settings } = this.#deps;
    const { concurrency, settleMax, pageEvents, tailEventsMax, tailBytesMax } = settings;
    const bounds = {
      inFlight: concurrency,
      // An attempt that is parked has two results.
      unsettled: settleMax + 3 * concurrency,
      // Of each stream half a page is left when a page, or what the tail has, is added.
      queuedBytes: Math.max(1, state.streams) * (1.5 * pageEvents + tailEventsMax) * bodyMax,
      tailBytes: tailBytesMax,
    };
    for (const [name, bound] of Object.entries(bounds)) {
      const value = Number(state[name as keyof DispatcherState]);
      if (value > bound) this.break('bounds', `${name} of ${process} is ${value}, not ${bound}`);
    }
  }

  // Results

  attemptsRecorded(): number {
    return (
      this.#deps.site.db.get<{ count: number }>`select count(*) as count from attempts`?.count ?? 0
    );
  }

  settled(batch: SettleBatch, answer: SettleAnswer, attemptsBefore: number): void {
    const key = `${processOf(batch.node)} ${batch.batch}`;
    if (this.#batches.has(key)) {
      if (this.attemptsRecorded() !== attemptsBefore) {
        this.break('repeated', `batch ${key} was recorded a second time`);
      }
      for (const { stream } of batch.settlements) this.#lookAt(stream);
      return;
    }
    this.#batches.add(key);
    this.#settledAt.push(this.#deps.nowMs());
    batch.settlements.forEach((settlement, index) => {
      if (answer.streams[index]?.result === 'recorded') this.#record(batch, settlement);
      else this.#lookAt(settlement.stream);
    });
  }

  #record(batch: SettleBatch, settlement: Settlement): void {
    const line = this.lines.get(settlement.stream);
    const process = processOf(batch.node);
    if (line === undefined) return;
    if (line.owner?.process !== process || line.owner.epoch !== settlement.epoch) {
      this.break('owner', `results of ${process} for ${line.label}, which has another owner`);
    }
    const { limits } = batch;
    const now = this.#deps.now();
    settlement.outcomes.forEach((outcome, index) => {
      const { event, result } = outcome;
      if (result === 'delivered') {
        if (!line.accepted.has(event.id)) this.break('truth', `${event.id} of ${line.label}`);
        line.recorded.add(event.id);
      }
      this.checkText(line, 'error' in outcome ? outcome.error : undefined);
      if (!outcome.hasRow && line.counts.rows.has(event.id)) {
        this.break('twice', `${event.id} has a row of ${line.label} and was sent without it`);
      }
      const isLast = index === settlement.outcomes.length - 1;
      const cursor = isLast ? settlement.cursor : 0;
      model.settle(line.counts, outcome, { cursor, run: settlement.run, now, limits });
    });
    this.#look(line, { process, epoch: settlement.epoch }, settlement.cursor);
    this.#checkWaiting(line, limits);
  }

  #checkWaiting(line: Line, limits: Health): void {
    const { streamConcurrency } = this.#deps.settings;
    const rows = [...line.counts.rows.values()];
    const waiting = rows.filter(({ kind, dueAt }) => kind === 'first' && dueAt !== undefined);
    if (waiting.length > limits.consecutive + streamConcurrency) {
      this.break('bounds', `${waiting.length} deliveries of ${line.label} wait for a retry`);
    }
    const open = rows.filter((row) => model.isOpen(row) && row.offset !== undefined).length;
    if (open > limits.total + limits.consecutive + 2 * streamConcurrency) {
      this.break('bounds', `${open} open failures of ${line.label}`);
    }
  }

  /** Texts of strangers go on without the stream's secrets. */
  checkText(line: Line, text: string | undefined): void {
    for (const token of line.tokens) {
      if (text?.includes(token)) this.break('secrets', `${line.label}: ${text}`);
    }
  }

  claimedDue(
    asks: readonly DueAsk[],
    now: number,
    rules: DueRules,
    answers: readonly DueAnswer[],
  ): void {
    asks.forEach((ask, index) => {
      const line = this.lines.get(ask.stream);
      const rows = answers[index]?.rows ?? [];
      if (line === undefined || line.isDeleted) return;
      if (ask.epoch !== line.counts.epoch || line.owner === undefined) {
        if (rows.length > 0) this.break('owner', `a former owner got rows of ${line.label}`);
        return;
      }
      const { taken } = model.claimDue(line.counts, now, rules, ask.take);
      const got = rows.map(({ event }) => event.id);
      for (const { event, kind } of rows) line.handedOut.set(event.id, kind);
      if (got.join(' ') !== taken.join(' ')) {
        this.break(
          'counters',
          `${line.label} handed out [${got.join()}] and not [${taken.join()}]`,
        );
      }
    });
  }

  redelivered(stream: string, eventIds: readonly string[], now: number): void {
    const line = this.lines.get(stream);
    if (line === undefined) return;
    for (const eventId of eventIds) {
      model.redeliver(this.world, line.counts, eventId, now);
      line.cycles.set(eventId, (line.cycles.get(eventId) ?? 0) + 1);
    }
    this.#lookAt(stream);
  }

  redeliveredAll(stream: string, count: number, now: number): void {
    const rows = [...(this.lines.get(stream)?.counts.rows.values() ?? [])];
    const failed = rows.filter(({ state }) => state === 'failed').map(({ eventId }) => eventId);
    if (failed.length !== count) this.break('counters', `${count} failures, not ${failed.length}`);
    this.redelivered(stream, failed, now);
  }

  tested(stream: string, eventId: string, now: number): void {
    const line = this.lines.get(stream);
    line?.tests.add(eventId);
    line?.counts.rows.set(eventId, {
      eventId,
      offset: undefined,
      kind: 'test',
      state: 'retrying',
      attempt: 1,
      dueAt: now,
      failedAt: undefined,
    });
  }

  // Replays

  replayed(
    asked: NewReplay,
    answer: { readonly created: Replay } | { readonly refused: string },
    now: number,
  ): void {
    const line = this.lines.get(asked.stream);
    if (line === undefined || line.isDeleted) return;
    const expected = replays.createReplay(this.world, line.counts, asked, now);
    const isRefused = 'refused' in expected;
    if (isRefused !== 'refused' in answer) this.break('counters', `${asked.id} of ${line.label}`);
  }

  cancelled(stream: string, id: string, now: number): void {
    const line = this.lines.get(stream);
    if (line === undefined || line.isDeleted) return;
    replays.cancelReplay(line.counts, id, now);
    this.#look(line);
  }

  /** Answers the ids of the events that are sent again. */
  fed(node: Node, ask: FeedAsk, answer: FeedAnswer, now: number): readonly string[] {
    const line = this.lines.get(ask.stream);
    if (line === undefined || line.isDeleted) return [];
    const { counts } = line;
    if (ask.epoch !== counts.epoch || line.owner === undefined) {
      if (answer.result !== 'lost') this.break('owner', `a former owner feeds ${line.label}`);
      return [];
    }
    const by = { process: processOf(node), epoch: ask.epoch };
    if (replays.runningOf(counts)?.id !== ask.replay) {
      if (answer.fed > 0) this.break('counters', `${ask.replay} of ${line.label} is over`);
      this.#look(line, by);
      return [];
    }
    const cursor = this.#cursorNow(line);
    const wanted = line.spans.at(-1)?.types ?? [];
    const firstAt = (offset: number): number | undefined => this.#firstAt(line, offset);
    const { take, waitingMax } = ask;
    const asked = { cursor, take, waitingMax, wanted, firstAt };
    const { ids, result } = replays.feed(this.world, counts, asked, now);
    for (const id of ids) line.cycles.set(id, (line.cycles.get(id) ?? 0) + 1);
    if (answer.fed !== ids.length || answer.result !== result) {
      this.break('counters', `${ask.replay} was fed ${answer.fed} events, not ${ids.length}`);
    }
    this.#look(line, by);
    return ids;
  }

  #cursorNow({ id }: Line): number {
    const { db, tenant } = this.#deps.site;
    const row = db.get<{ cursor: number }>`
      select cursor from runs where tenant = ${tenant} and stream = ${id}`;
    return row?.cursor ?? 0;
  }

  /** The history is pruned, and the model's is not. */
  #firstAt({ id }: Line, offset: number): number | undefined {
    const { db, tenant } = this.#deps.site;
    const row = db.get<{ at: number | null }>`
      select min(a.at) as at from attempts a join runs r on r.key = a.stream_key
      where r.tenant = ${tenant} and r.stream = ${id} and a.event_key = ${offset}`;
    return row?.at ?? undefined;
  }

  // Attempts

  /** A request leaves a node. */
  begins(process: string, streamId: string, eventId: string, endpoint: string): Line | undefined {
    const line = this.lines.get(streamId);
    if (line === undefined) return undefined;
    this.attempts += 1;
    const unawareUntilMs = this.#unaware.get(process);
    const slept = this.#slept.get(process);
    if (slept !== undefined && this.#deps.nowMs() < slept.untilMs) {
      this.#checkSlept(line, process, slept.sent);
    } else if (unawareUntilMs === undefined) {
      this.#checkRight(line, process, eventId);
      this.#checkContent(line, eventId, endpoint);
      this.#checkTwice(line, eventId);
    } else if (this.#deps.nowMs() >= unawareUntilMs) {
      this.break('lease', `${process} sends for ${line.label} and never joined the store again`);
    }
    const open = (line.open.get(process) ?? 0) + 1;
    line.open.set(process, open);
    if (open > this.#deps.settings.streamConcurrency) {
      this.break('bounds', `${open} attempts of ${line.label} at once`);
    }
    return line;
  }

  ends(process: string, line: Line): void {
    line.open.set(process, (line.open.get(process) ?? 0) - 1);
  }

  /** Its attempts are over; a store that goes back may give its incarnation to the next process. */
  died(node: Node): void {
    for (const { open } of this.lines.values()) open.delete(processOf(node));
  }

  /** A receiver takes the event, whatever the sender learns. */
  accepts(line: Line, eventId: string): void {
    line.accepted.add(eventId);
    this.#acceptedAt.push(this.#deps.nowMs());
  }

  /** How many events receivers accepted from this instant on. */
  acceptedSince(fromMs: number): number {
    return this.#acceptedAt.length - firstIndex(this.#acceptedAt, fromMs);
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
    for (let offset = counts.cursor + 1; offset <= this.head; offset += 1) {
      const event = this.event(offset);
      if (event === undefined || leftOut.has(offset) || !this.wants(line, offset)) continue;
      if (!accepted.has(event.id) && !counts.rows.has(event.id)) rows.push(event.id);
    }
    return rows;
  }

  /** Of each stream that others may have taken it sends no more than they may after a crash. */
  #checkSlept(line: Line, process: string, sent: Map<Line, number>): void {
    if (line.owner?.process === process) return;
    const { parkAfterEvents, streamConcurrency, settleMax } = this.#deps.settings;
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    const count = (sent.get(line) ?? 0) + 1;
    sent.set(line, count);
    if (count > bound) {
      this.break('twice', `${process} slept and sends ${count} events of ${line.label}`);
    }
  }

  #checkRight(line: Line, process: string, eventId: string): void {
    if (line.isDeleted) {
      // A redelivery may have been on its way to its node.
      if (!line.handedOut.has(eventId)) this.break('disabled', `${line.label} is deleted`);
      return;
    }
    if (line.owner?.process !== process) {
      this.break(
        'owner',
        `${process} sends for ${line.label} of ${line.owner?.process ?? 'nobody'}`,
      );
    }
    if (!this.#isLeased(process)) {
      this.break('lease', `${process} sends for ${line.label}`);
    }
  }

  #checkContent(line: Line, eventId: string, endpoint: string): void {
    const row = line.counts.rows.get(eventId);
    if (!line.isDeleted && this.#mustHold(line)) {
      // Its row may be gone: settled by an attempt that outlived the lease of the row.
      const kind = row?.kind ?? line.handedOut.get(eventId);
      if (!line.counts.enabled && kind !== 'redelivery') {
        this.break('disabled', `${line.label} is disabled and is sent ${eventId}`);
      }
      if (endpoint !== line.endpoint) {
        this.break('destination', `${line.label} moved to ${line.endpoint}, not ${endpoint}`);
      }
    }
    const offset = this.#offsetOf(eventId);
    const isTest = line.tests.has(eventId);
    const isReplayed = line.handedOut.get(eventId) === 'replay';
    const isWanted = isTest || isReplayed || (offset !== undefined && this.wants(line, offset));
    if (!isWanted && row === undefined && this.#mustHold(line)) {
      this.break('destination', `${line.label} did not subscribe to ${eventId}`);
    }
  }

  /** A change holds once its owner has seen it, and anyway once an operator was told so. */
  #mustHold(line: Line): boolean {
    const { db, tenant } = this.#deps.site;
    const row = db.get<{ unseen: number }>`
      select unseen from runs where tenant = ${tenant} and stream = ${line.id}`;
    return row?.unseen === 0 || line.toldVersion >= line.counts.version;
  }

  /** Within one ownership, each attempt of a cycle is made once. */
  #checkTwice(line: Line, eventId: string): void {
    const row = line.counts.rows.get(eventId);
    // Its replay was cancelled between the claim and the attempt: which one it is cannot be told.
    if (row === undefined && line.handedOut.get(eventId) === 'replay') return;
    const attempt = row?.attempt ?? 1;
    const key = this.#attemptKey(line, eventId, attempt);
    const before = line.begun.get(key) ?? [];
    const { adoptions } = line;
    if (this.#deps.isPunctual && before.includes(adoptions)) {
      this.break('twice', `attempt ${attempt} of ${eventId} is made a second time by one owner`);
    }
    line.begun.set(key, [...before, adoptions]);
  }

  /** The last one: an id may come again once its event was pruned. */
  #offsetOf(eventId: string): number | undefined {
    return this.#log.findLast(({ id }) => id === eventId)?.offset;
  }

  #attemptKey(line: Line, eventId: string, attempt: number): string {
    return `${eventId} ${this.#offsetOf(eventId)} ${line.cycles.get(eventId) ?? 0} ${attempt}`;
  }

  wants(line: Line, offset: number): boolean {
    const type = this.event(offset)?.type ?? '';
    return line.spans.findLast(({ after }) => after < offset)?.types.includes(type) ?? false;
  }

  // Comparing with the tables

  #lookAt(streamId: string): void {
    const line = this.lines.get(streamId);
    if (line !== undefined && !line.isDeleted) this.#look(line);
  }

  /** `by` is who may have moved the cursor, and `to` where it may stand at most. */
  #look(line: Line, by?: { process: string; epoch: number }, to = Infinity): void {
    const row = this.#deps.site.db.get<RunRow>`
      select r.cursor, r.run, r.epoch, r.consecutive_failures as consecutive,
        r.total_failures as total, s.status, s.version,
        (select count(*) from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.failed_at is not null) as open,
        (select count(*) from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream) as rows
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.tenant = ${this.#deps.site.tenant} and r.stream = ${line.id}`;
    if (row === undefined) return this.break('lost', `${line.label} is gone`);
    this.#checkCounts(line, row);
    this.#checkReplays(line);
    this.#checkCursor(line, row.cursor, by, to);
  }

  #checkReplays({ id, label, counts }: Line): void {
    for (const expected of counts.replays.values()) {
      const row = this.#deps.site.db.get<Pick<Replay, 'status' | 'matched' | 'sent' | 'failed'>>`
        select status, matched, sent, failed from replays
        where tenant = ${this.#deps.site.tenant} and stream = ${id} and id = ${expected.id}`;
      for (const name of ['status', 'matched', 'sent', 'failed'] as const) {
        const [found, value] = [row?.[name], expected[name]];
        const what = `${name} of ${expected.id} of ${label}`;
        if (found !== value) this.break('counters', `${what} is ${found}, not ${value}`);
      }
      const { status, matched, sent, failed } = expected;
      if (status !== 'running' && status !== 'cancelled' && matched !== sent + failed) {
        this.break('lost', `${expected.id} found ${matched} and sent ${sent}, failed ${failed}`);
      }
    }
  }

  #checkCounts({ label, counts }: Line, row: RunRow): void {
    const health = model.healthOf(counts);
    const expected: Omit<RunRow, 'cursor'> = {
      run: counts.run,
      epoch: counts.epoch,
      ...health,
      open: health.total,
      rows: counts.rows.size,
      status: counts.enabled ? 'enabled' : 'disabled',
      version: counts.version,
    };
    for (const [name, value] of Object.entries(expected)) {
      const found = row[name as keyof RunRow];
      if (found !== value) this.break('counters', `${name} of ${label} is ${found}, not ${value}`);
    }
  }

  #checkCursor(
    line: Line,
    cursor: number,
    by: { process: string; epoch: number } | undefined,
    to: number,
  ): void {
    const { counts, label } = line;
    const before = this.#cursors.get(line) ?? 0;
    this.#cursors.set(line, cursor);
    if (cursor < before) this.break('passed', `the cursor of ${label} fell to ${cursor}`);
    counts.cursor = cursor;
    if (cursor <= before) return;
    const { owner } = line;
    if (by !== undefined && (owner?.process !== by.process || owner.epoch !== by.epoch)) {
      this.break('owner', `${by.process} moved the cursor of ${label}`);
    }
    if (cursor > to) this.break('passed', `the cursor of ${label} went to ${cursor}, not to ${to}`);
    for (let offset = before + 1; offset <= cursor; offset += 1) this.#checkPassed(line, offset);
  }

  #checkPassed(line: Line, offset: number): void {
    const event = this.event(offset);
    if (event === undefined)
      return this.break('passed', `${line.label} passed ${offset}, ahead of the log`);
    if (!this.wants(line, offset) || line.leftOut.has(offset)) return;
    const hasRow = this.#deps.site.db.get`
      select 1 from deliveries
      where tenant = ${this.#deps.site.tenant} and stream = ${line.id} and event_id = ${event.id}`;
    if (hasRow === undefined && !line.recorded.has(event.id)) {
      this.break('passed', `the cursor of ${line.label} passed ${event.id} at ${offset}`);
    }
  }
}

interface RunRow {
  readonly cursor: number;
  readonly run: number;
  readonly epoch: number;
  readonly consecutive: number;
  readonly total: number;
  readonly status: string;
  readonly version: number;
  readonly open: number;
  readonly rows: number;
}

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

export const processOf = ({ id, incarnation }: Node): string => `${id}#${incarnation}`;

function tokenOf({ destination }: Stream): string {
  const { authorization } = destination;
  return authorization.method === 'bearer' ? authorization.token : 'none';
}
