import type { Millis } from '../core/clock.ts';
import { storedFilter } from '../core/filter.ts';
import type { Filter } from '../core/filter-program.ts';
import { differWithin } from '../core/subscription.ts';
import type {
  DeliveredEvent,
  Delivery,
  DeliveryKind,
  LogEvent,
  Offset,
  Stream,
} from '../core/types.ts';
import type { CursorRaise, KnownStream, OwnedStream } from '../store/port/ownership.ts';
import type { PendingRequest } from './http/transport.ts';
import { type HeldBack, KeyOrder } from './key-order.ts';
import { Deque } from '../log/deque.ts';
import type { DeliverySettings } from './settings.ts';
import { FailureCounters } from './failure-counters.ts';
import { Outage } from './outage.ts';
import { Pace, type PaceLimits } from './pace.ts';
import type { RequestTemplate } from './request.ts';
import type { Expectation, Slot } from './shares.ts';
import { nextWork, quarterOf, type Work } from './slots.ts';
import type { Tail } from '../log/tail.ts';
import { Window, type WindowEntry } from './window.ts';

/** An attempt under way: one HTTP request for one event, from its start until it is settled. */
export interface InFlightAttempt extends WindowEntry {
  readonly runner: Runner;
  readonly slot: Slot;
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** Taken from the log by this runner, not from a row. */
  readonly fresh: boolean;
  /** The event's offset; 0 unless {@link fresh}, as it moves no cursor then. */
  readonly offset: Offset;
  /** See `order-key.ts`; `undefined` where the event is unordered. */
  readonly orderKey: string | undefined;
  /** Set when the event was held back: the window has it since then. */
  readonly heldBack: HeldBackEvent | undefined;
  /** When the event was accepted; `undefined` where this runner did not take it from the log. */
  readonly publishedAt: Millis | undefined;
  /** By the clock of this node: receivers check the signature against it. */
  readonly at: Millis;
  /** Monotonic start; the wait for a name lookup is added when the attempt ends. */
  startedMs: number;
  /** When the schedule lets this attempt begin, by the monotonic clock; set where it came before. */
  readonly trialDueMs: number | undefined;
  /** Whether `deliveries` has a row for it, or will have with the next batch. */
  hasRow: boolean;
  /** The template that it was sent with; the stream's secrets may have changed since. */
  template: RequestTemplate | undefined;
  request: PendingRequest | undefined;
  /** It has been under way for longer than `parkAfterMs`. */
  isSlow: boolean;
  ended: boolean;
}

/** An event that was taken from the log and waits behind its key. */
export type HeldBackEvent = HeldBack<InFlightAttempt>;

/** A claimed row; its attempt has to begin soon, before the lease of the row ends. */
export interface Claimed {
  readonly row: Delivery;
  /** Monotonic. */
  readonly claimedMs: number;
  /** The replay that was running at the claim. */
  readonly replay: string | undefined;
}

/**
 * The state of a stream that a node owns, and what follows from it; the parts of the dispatcher act
 * on it. A class, as a node has ten thousand, most of them idle.
 */
export class Runner {
  readonly tenant: number;
  readonly id: string;
  readonly epoch: number;
  readonly tail: Tail<Runner>;
  tenantName: string;

  /**
   * `stale`: a change was announced, so no attempt begins until the stream is refreshed. `gone`:
   * this node does not own it any more.
   */
  state: 'active' | 'stale' | 'gone' = 'active';
  /** It is released to another node as soon as none of its attempts is under way. */
  leaving = false;
  /** Number of announced changes; a result from before the last one is out of date. */
  changes = 0;
  stream: Stream;
  run: number;
  /** Built at the first attempt of a version. */
  template: RequestTemplate | undefined;

  window: Window<InFlightAttempt | HeldBackEvent>;
  /** Events to be sent, in order. */
  readonly queue = new Deque<LogEvent>();
  /** Every matching event up to here was taken or is in the queue. */
  scannedTo: Offset;
  /** At the head of the log: the tail passes this runner each event that matches. */
  following = false;
  /** While it follows: the filter of the events that are appended; absent without one. */
  filter: Filter | undefined;
  #filterText: string | undefined;
  #filter: Filter | undefined;
  /** A page is being read for it, or will be. */
  reading = false;
  /**
   * Events above the cursor that have a row, or that a former owner settled; `undefined` without any,
   * to save the memory of a set.
   */
  #takenAbove: ReadonlySet<Offset> | undefined;
  /** For a stream that sends in order, or has done so. */
  order: KeyOrder<InFlightAttempt> | undefined;

  /** Rows of first and test deliveries that wait for a retry or are parked, in the store… */
  rows: number;
  /** …and the change to them by outcomes that are not in the store yet. */
  rowsPending = 0;
  /** Rows of replays that wait or are in progress, in the store. */
  replayRows: number;
  /** Outcomes that are not in the store yet. */
  unsettled = 0;
  /** Those of them in the batch that is being recorded. */
  recording = 0;
  /** By event id, when the events with a retry on this node were accepted; `undefined` without any. */
  retriesPublishedAt: Map<string, Millis> | undefined;

  /** When the next row is due, by the monotonic clock, as far as known. */
  nextDueMs: number | undefined;
  /** A row is due. */
  dueWaits = false;
  /** Slots reserved for rows that are being claimed, or will be next; `undefined` without any. */
  granted: Slot[] | undefined;
  /** How many of them a claim under way may fill. */
  requested = 0;
  /** Rows that were claimed while the runner became stale; their slots stay reserved. */
  claimed: Claimed[] | undefined;

  /** Id of the replay that is running. */
  replay: string | undefined;
  /** Id of the replay that the {@link replayPending} attempts belong to. */
  pendingReplay: string | undefined;
  /** Attempts of replays that are under way, or whose outcomes are not in the store yet. */
  replayPending = 0;
  /** The store is making rows of it, or is about to. */
  isMaterializing = false;

  /** The latency of its recent attempts, and whether they got a response. */
  readonly pace = new Pace();
  /** Its receiver does not respond, so no attempt begins for a while. */
  isBackingOff = false;
  /** Whether its receiver is down; absent without a schedule of its own. */
  outage: Outage | undefined;
  readonly counters: FailureCounters;
  /** Results of it were refused by the store, and none was recorded since. */
  isRefused: boolean;
  /** Its attempts of the last second reach the limit of the stream. */
  isRateLimited = false;
  freshInFlight = 0;
  /** Includes those {@link granted}. */
  dueInFlight = 0;
  /** The kind of its last attempt. */
  last: Work | undefined;
  /** The queue of the scheduler in which it waits; entries of it in the others are void. */
  waitsAs: Expectation | undefined;
  /** The queues of the scheduler with an entry of it, as bits. */
  entries = 0;
  /** Waits for a name lookup. */
  preparing = false;

  constructor(owned: OwnedStream, tail: Tail<Runner>) {
    this.tenant = owned.stream.tenant;
    this.id = owned.stream.id;
    this.epoch = owned.epoch;
    this.tail = tail;
    this.tenantName = owned.tenantName;
    this.stream = owned.stream;
    this.run = owned.run;
    this.window = new Window(owned.cursor);
    this.scannedTo = owned.cursor;
    this.rows = owned.waiting;
    this.replayRows = owned.waitingReplays;
    this.counters = new FailureCounters(owned.health);
    this.isRefused = owned.isRefused;
    this.#updateOutage(owned);
    this.#takenAbove = setOf(owned.takenAbove);
    this.replay = owned.replay;
    this.#loadOrder(owned);
  }

  /** Slots that it uses. */
  get inFlight(): number {
    return this.freshInFlight + this.dueInFlight;
  }

  /** Deliveries that wait or are in progress with a row, redeliveries excepted. */
  get waiting(): number {
    return this.rows + this.rowsPending + this.replayRows;
  }

  get enabled(): boolean {
    return this.stream.status === 'enabled';
  }

  /** Whether it sends what it has; otherwise redeliveries only, and tests while it is enabled. */
  get sends(): boolean {
    return this.enabled && this.stream.paused === undefined;
  }

  /** Every matching event up to here has been taken. */
  get position(): Offset {
    const first = this.queue.at(0);
    if (first !== undefined) return first.offset - 1;
    return this.following ? Math.max(this.scannedTo, this.tail.head) : this.scannedTo;
  }

  /**
   * Adds an event to the queue unless it was scanned or has a row; returns whether it was added.
   * `keyOf` returns its key.
   */
  enqueue(event: LogEvent, keyOf: KeyOf): boolean {
    if (event.offset <= this.scannedTo) return false;
    this.scannedTo = event.offset;
    if (this.#takenAbove?.has(event.offset)) return false;
    const { order } = this;
    if (order !== undefined) order.enqueued(order.tokens && keyOf(event, order.tokens));
    this.queue.push(event);
    return true;
  }

  /** Removes the first event of the queue. */
  dequeue(): { readonly event: LogEvent; readonly orderKey: string | undefined } | undefined {
    const event = this.queue.shift();
    return event && { event, orderKey: this.order?.dequeued() };
  }

  /**
   * Holds back the first event of the queue if it waits behind its key, as the ones after it need
   * not wait; returns `undefined` if it does not, and after failures that reach a limit.
   */
  holdBack(nowMs: number, { disable }: Pick<RunnerLimits, 'disable'>): HeldBackEvent | undefined {
    const { order } = this;
    if (order === undefined || !order.isFrontBlocked || !order.hasRoom) return undefined;
    if (this.counters.reachLimit(disable)) return undefined;
    const next = this.dequeue();
    if (next?.orderKey === undefined) return undefined;
    const held = order.holdBack(next.event, next.orderKey, nowMs);
    this.window.take(held);
    return held;
  }

  /** Returns the kind of its next attempt; `undefined` when there is none or it may not begin. */
  nextWork(limits: RunnerLimits): Work | undefined {
    if (this.state !== 'active' || this.leaving) return undefined;
    if (this.isBackingOff || this.isRateLimited) return undefined;
    return nextWork(
      {
        freshWaits: this.#freshWaits(limits),
        dueWaits: this.dueWaits || this.#hasReadyRow(limits),
        freshInFlight: this.freshInFlight,
        dueInFlight: this.dueInFlight,
        reserved: this.slotsToFill - this.requested,
        last: this.last,
      },
      this.slots(limits),
    );
  }

  /** Whether a blocked row may be claimed for which no slot is reserved yet. */
  #hasReadyRow(limits: RunnerLimits): boolean {
    const readyRows = this.order?.readyRows ?? 0;
    return readyRows > this.slotsToFill && this.takesRows(limits);
  }

  /** Reserved slots that have no row yet. */
  get slotsToFill(): number {
    return (this.granted?.length ?? 0) - (this.claimed?.length ?? 0);
  }

  /** Whether blocked rows may be claimed: the first attempt of their events follows. */
  takesRows(limits: Pick<RunnerLimits, 'disable'>): boolean {
    return this.sends && this.#mayWait(limits);
  }

  #freshWaits(limits: RunnerLimits): boolean {
    const { order } = this;
    if (order?.readyEvent !== undefined) return this.takesRows(limits);
    return this.queue.length > 0 && order?.isFrontBlocked !== true && this.takesFresh(limits);
  }

  /** Returns how many attempts may be under way at once. */
  slots(limits: PaceLimits): number {
    const { concurrency } = this.stream.delivery ?? {};
    return concurrency === undefined
      ? this.pace.slots(limits)
      : Math.min(concurrency, this.pace.slots(limits));
  }

  /** Bytes of the next event's body. */
  nextBytes(): number {
    const event = this.order?.readyEvent?.event ?? this.queue.at(0);
    return Buffer.byteLength(event?.body ?? '');
  }

  /**
   * Returns whether it may take another event of the log. Besides the slots there are two bounds.
   * Events that settled above the durable cursor would be sent again after a crash. And a stream
   * whose deliveries all fail must be disabled before its whole backlog has failed: no more events
   * wait for a retry than bring it to the limit, and none begins after failures that reach it,
   * recorded or not. With a schedule of its own it stops waiting by the rules of `outage.ts` instead.
   */
  takesFresh(limits: RunnerLimits): boolean {
    return this.sends && this.#hasRoom(limits) && this.#mayWait(limits);
  }

  #hasRoom({ parkAfterEvents, streamConcurrency, settleMax }: RunnerLimits): boolean {
    // A new owner does not send again what an ordered stream has settled above the cursor.
    if (this.order !== undefined) return this.window.settledAbove < settledAboveMax;
    // The next batch gathers while one is recorded; otherwise each commit would be a pause.
    const gathering = Math.max(streamConcurrency, Math.min(this.recording, settleMax));
    return this.window.settledAbove <= parkAfterEvents + gathering;
  }

  #mayWait({ disable }: Pick<RunnerLimits, 'disable'>): boolean {
    if (this.counters.reachLimit(disable)) return false;
    return this.outage?.takesFresh ?? this.rows + this.rowsPending < disable.consecutive;
  }

  /**
   * Returns how many events of its replay could be sent now. None while it has other work, or while
   * attempts of a cancelled replay are pending: their outcomes would count for the present one. A
   * quarter of the slots stays free for fresh events.
   */
  freeReplaySlots(limits: PaceLimits): number {
    const mayBegin = this.state === 'active' && !this.leaving && !this.isBackingOff;
    const hasWork = !this.following || this.queue.length > 0 || this.dueWaits;
    const isMixed = this.pendingReplay !== this.replay && this.replayPending > 0;
    if (this.replay === undefined || !mayBegin || !this.sends || hasWork || isMixed) return 0;
    const slots = this.slots(limits);
    const free = Math.min(slots - this.inFlight, replaySlots(slots) - this.replayPending);
    if (this.outage?.state !== 'down') return free;
    return this.outage.mayTryEvent ? Math.min(1, free) : 0;
  }

  /**
   * Returns how many deliveries of its replay may wait or be in progress. By a long schedule they may
   * wait for days without ending the replay: then as many as do not bring the stream to its limit.
   */
  replayWaitingMax(limits: RunnerLimits): number {
    const slots = this.slots(limits);
    const least = replaySlots(slots);
    if (this.outage === undefined) return least;
    const { waiting, open } = this.outage.undelivered(this.waiting - this.replayRows);
    return Math.max(least, limits.disable.total - slots - waiting - open);
  }

  /** Returns the cursor to which everything is settled by now. */
  cursor(): Offset {
    this.window.pass(this.position);
    return this.window.cursor;
  }

  /**
   * Returns the settled events above a cursor, for a new owner; `undefined` where it sends them again.
   */
  settledAbove(cursor: Offset): Offset[] | undefined {
    if (this.order === undefined) return undefined;
    const before = [...(this.#takenAbove ?? [])].filter((offset) => offset > cursor);
    // After a refresh the store has told of some of them.
    return [...new Set([...before, ...this.window.settledOffsets(cursor)])];
  }

  /** Notes that so many outcomes, which added so many rows, are in the store with this cursor. */
  settled(outcomes: number, rows: number, cursor: Offset): void {
    this.unsettled -= outcomes;
    this.rows += rows;
    this.rowsPending -= rows;
    this.window.commit(cursor);
  }

  /**
   * Returns the cursor to write without outcomes: it must not pass an event whose outcome waits.
   */
  cursorUpdate(): CursorRaise {
    const cursor = this.unsettled === 0 ? this.cursor() : this.window.durable;
    const { tenant, id: stream, epoch, run } = this;
    return { tenant, stream, epoch, run, version: this.stream.version, cursor };
  }

  /** Returns the cursor with which it is released once nothing is under way. */
  lastUpdate(): CursorRaise & KnownStream {
    return { ...this.cursorUpdate(), ...this.known() };
  }

  /** Returns the stream as it knows it, with the events that it has taken. */
  known(): KnownStream {
    const { tenant, id: stream, epoch } = this;
    const { version, subscriptions } = this.stream;
    const upTo = this.window.taken;
    return { tenant, stream, taken: { epoch, version, subscriptions, upTo } };
  }

  /** Returns a filter of its subscriptions, given as text; it is parsed once while it stays. */
  filterOf(text: string | undefined): Filter | undefined {
    if (text === undefined) return undefined;
    if (this.#filterText !== text) this.#filter = storedFilter(text);
    this.#filterText = text;
    return this.#filter;
  }

  /** Leaves the head of the log; events that are appended from now on are not scanned. */
  unfollow(): void {
    this.scannedTo = Math.max(this.scannedTo, this.following ? this.tail.head : 0);
    this.following = false;
    this.tail.leave(this);
  }

  /** Returns whether it has taken events by subscriptions that differ from the present ones. */
  tookOthers(owned: OwnedStream): boolean {
    return this.#filteredOtherwise(owned, this.window.taken);
  }

  #filteredOtherwise({ stream, cursor }: OwnedStream, upTo: Offset): boolean {
    const range = { after: cursor, upTo };
    return differWithin(this.stream.subscriptions, stream.subscriptions, range);
  }

  /**
   * Takes over the present stream. A new destination applies from the next attempt on. A new run
   * begins at its own cursor; attempts above it continue, and their events are not taken again. Events
   * that other subscriptions passed over are filtered again.
   * Returns the events that were held back and are dropped, as the new run begins after them.
   */
  update(owned: OwnedStream): readonly HeldBackEvent[] {
    if (owned.stream.version !== this.stream.version) this.template = undefined;
    const { perSecond } = owned.stream.delivery ?? {};
    if (perSecond !== this.stream.delivery?.perSecond) this.isRateLimited = false;
    this.counters.update(owned.health);
    this.#updateOutage(owned);
    if (this.#filteredOtherwise(owned, this.position)) this.scannedTo = this.window.rewind();
    this.stream = owned.stream;
    this.tenantName = owned.tenantName;
    this.rows = owned.waiting;
    this.replayRows = owned.waitingReplays;
    this.#takenAbove = setOf(owned.takenAbove);
    this.replay = owned.replay;
    this.#loadOrder(owned);
    if (owned.run === this.run) return [];
    this.run = owned.run;
    this.retriesPublishedAt = undefined;
    this.window = this.window.reopened(owned.cursor);
    this.scannedTo = Math.max(owned.cursor, this.scannedTo);
    return this.order?.drop(owned.cursor) ?? [];
  }

  #loadOrder({ stream: { delivery }, keys }: OwnedStream): void {
    if (this.order === undefined && delivery?.orderBy === undefined && keys.length === 0) return;
    this.order ??= new KeyOrder(this.queue.length);
    this.order.load(delivery, keys);
  }

  /** A change of the stream may be a new endpoint, or a new schedule. */
  #updateOutage(owned: OwnedStream): void {
    if (owned.stream.delivery?.retry === undefined) this.outage = undefined;
    else if (this.outage === undefined) this.outage = new Outage(this.counters);
    else if (owned.stream.version !== this.stream.version) this.outage.isUncounted = true;
  }
}

/** Settled events above the cursor of a stream that sends in order. */
const settledAboveMax = 4096;

/** Returns the key of an event by the tokens of its stream. */
export type KeyOf = (event: LogEvent, tokens: readonly string[]) => string | undefined;

/** Returns how many slots of a stream its replay may use; the rest stays free for fresh events. */
function replaySlots(streamConcurrency: number): number {
  return streamConcurrency === 1 ? 1 : streamConcurrency - quarterOf(streamConcurrency);
}

function setOf(offsets: readonly Offset[]): ReadonlySet<Offset> | undefined {
  return offsets.length === 0 ? undefined : new Set(offsets);
}

export type RunnerLimits = Pick<DeliverySettings, 'parkAfterEvents' | 'settleMax' | 'disable'> &
  PaceLimits;
