import type { Millis } from '../core/clock.ts';
import { differWithin } from '../core/subscription.ts';
import type {
  DeliveredEvent,
  Delivery,
  DeliveryKind,
  LogEvent,
  Offset,
  Stream,
} from '../core/types.ts';
import type { CursorRaise, OwnedStream } from '../store/port/ownership.ts';
import type { PendingRequest } from './http/transport.ts';
import { Deque } from '../log/deque.ts';
import type { DeliverySettings } from './settings.ts';
import { Pace, type PaceLimits } from './pace.ts';
import type { RequestTemplate } from './request.ts';
import type { Expectation, Slot } from './shares.ts';
import { nextWork, type Work } from './slots.ts';
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
  /** When the event was accepted; `undefined` where this runner did not take it from the log. */
  readonly publishedAt: Millis | undefined;
  /** By the clock of this node: receivers check the signature against it. */
  readonly at: Millis;
  /** Monotonic start; the wait for a name lookup is added when the attempt ends. */
  startedMs: number;
  /** Whether `deliveries` has a row for it, or will have with the next batch. */
  hasRow: boolean;
  /** The template that it was sent with; the stream's secrets may have changed since. */
  template: RequestTemplate | undefined;
  request: PendingRequest | undefined;
  /** It has been under way for longer than `parkAfterMs`. */
  isSlow: boolean;
  ended: boolean;
}

/** A row whose attempt has to begin soon, as its lease is running. */
export interface Claimed {
  readonly row: Delivery;
  /** Monotonic. */
  readonly claimedMs: number;
  /** The replay that was running then. */
  readonly replay: string | undefined;
}

/**
 * What a node knows of a stream that it works for. The parts of the dispatcher act on it; here are
 * the facts and what follows from them. A class, as a node has ten thousand, most of them idle.
 */
export class Runner {
  readonly tenant: number;
  readonly id: string;
  readonly epoch: number;
  readonly tail: Tail<Runner>;
  tenantName: string;

  /**
   * `stale`: a change was announced, so nothing begins until the stream was read again. `gone`: it
   * is no longer this node's.
   */
  state: 'active' | 'stale' | 'gone' = 'active';
  /** It is to be handed to another node, as soon as nothing of it is under way. */
  leaving = false;
  /** Announcements so far; an answer older than the last one is out of date. */
  changes = 0;
  stream: Stream;
  run: number;
  /** Worked out at the first attempt. */
  template: RequestTemplate | undefined;

  window: Window<InFlightAttempt>;
  /** Events to be sent, in order. */
  readonly queue = new Deque<LogEvent>();
  /** Every matching event up to here was taken or is in the queue. */
  scannedTo: Offset;
  /** At the head of the log: the tail names this runner for each event that it wants. */
  following = false;
  /** A page is being read for it, or will be. */
  reading = false;
  /** Events of the log that have a row already; absent without any, as a set takes its room. */
  #rowsAbove: ReadonlySet<Offset> | undefined;

  /** Rows of first and test deliveries that wait for a retry or are under way, in the store… */
  rows: number;
  /** …and what results add to them that are not in the store yet. */
  rowsPending = 0;
  /** Results that are not in the store yet. */
  unsettled = 0;
  /** Those of them that are in the batch under way. */
  recording = 0;
  /** When events were accepted whose retries this node is to send; absent without any. */
  publishedAt: Map<string, Millis> | undefined;

  /** When the next row is due by the monotonic clock, as far as known. */
  nextDueMs: number | undefined;
  /** That time has come. */
  dueWaits = false;
  /** Slots kept for rows that are being claimed; absent without any. */
  granted: Slot[] | undefined;
  /** Rows that were claimed while the runner became stale; their slots are kept. */
  claimed: Claimed[] | undefined;

  /** Id of the replay that is running. */
  replay: string | undefined;
  /** The one that attempts of a replay belong to that are {@link replayPending}. */
  fedReplay: string | undefined;
  /** Attempts of replays that are under way, or whose results are not in the store yet. */
  replayPending = 0;
  /** The store is being asked to go on with it. */
  feeding = false;

  /** How long its recent attempts took, and whether they got a response. */
  readonly pace = new Pace();
  /** Its receiver does not respond, so nothing begins for a moment. */
  isBackingOff = false;
  freshInFlight = 0;
  /** With those {@link granted}. */
  dueInFlight = 0;
  last: Work | undefined;
  /** In which queue of the scheduler it waits; the others may hold entries of it that are void. */
  waitsAs: Expectation | undefined;
  /** In which queues of the scheduler it has an entry, as bits. */
  entries = 0;
  /** Waits for the address of its receiver. */
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
    this.#rowsAbove = setOf(owned.rowsAbove);
    this.replay = owned.replay;
  }

  /** Slots that it uses. */
  get inFlight(): number {
    return this.freshInFlight + this.dueInFlight;
  }

  get enabled(): boolean {
    return this.stream.status === 'enabled';
  }

  /** Every matching event up to here was taken. */
  get position(): Offset {
    const first = this.queue.at(0);
    if (first !== undefined) return first.offset - 1;
    return this.following ? Math.max(this.scannedTo, this.tail.head) : this.scannedTo;
  }

  /** Adds an event unless it was scanned or has a row; answers whether there is one to send more. */
  enqueue(event: LogEvent): boolean {
    if (event.offset <= this.scannedTo) return false;
    this.scannedTo = event.offset;
    if (this.#rowsAbove?.has(event.offset)) return false;
    this.queue.push(event);
    return true;
  }

  /** What it begins next, `undefined` when it has nothing to do or may not. */
  nextWork(settings: RunnerLimits): Work | undefined {
    if (this.state !== 'active' || this.leaving || this.isBackingOff) return undefined;
    return nextWork(
      {
        freshWaits: this.queue.length > 0 && this.takesFresh(settings),
        dueWaits: this.dueWaits,
        freshInFlight: this.freshInFlight,
        dueInFlight: this.dueInFlight,
        last: this.last,
      },
      this.pace.slots(settings),
    );
  }

  /** Bytes of the next event's body. */
  nextBytes(): number {
    return Buffer.byteLength(this.queue.at(0)?.body ?? '');
  }

  /**
   * Two bounds besides the slots. What has settled above the durable cursor would be sent again
   * after a crash. And a stream whose deliveries all fail must be disabled before it has turned its
   * whole backlog into failures: no more events than bring it to the limit wait for a retry.
   */
  takesFresh(limits: RunnerLimits): boolean {
    const { parkAfterEvents, streamConcurrency, settleMax, disable } = limits;
    // While a batch is on its way to the store the next one gathers, or each commit would be a pause.
    const gathering = Math.max(streamConcurrency, Math.min(this.recording, settleMax));
    return (
      this.enabled &&
      this.window.settledAbove <= parkAfterEvents + gathering &&
      this.rows + this.rowsPending < disable.consecutive
    );
  }

  /**
   * How many events of its replay could be sent now. None while it has anything else to do, or while
   * attempts of a replay that was cancelled are not over: their results would be taken for this
   * one's. A quarter of the slots is left to fresh events.
   */
  replayRoom(limits: PaceLimits): number {
    const mayBegin = this.state === 'active' && !this.leaving && !this.isBackingOff;
    const hasWork = !this.following || this.queue.length > 0 || this.dueWaits;
    const isMixed = this.fedReplay !== this.replay && this.replayPending > 0;
    if (this.replay === undefined || !mayBegin || !this.enabled || hasWork || isMixed) return 0;
    const slots = this.pace.slots(limits);
    return Math.min(slots - this.inFlight, replaySlots(slots) - this.replayPending);
  }

  /** How far the cursor may be written, as of what has ended so far. */
  cursor(): Offset {
    this.window.pass(this.position);
    return this.window.cursor;
  }

  /** So many results of it, which leave so many rows more, are in the store with this cursor. */
  settled(results: number, rows: number, cursor: Offset): void {
    this.unsettled -= results;
    this.rows += rows;
    this.rowsPending -= rows;
    this.window.commit(cursor);
  }

  /** The cursor to write where no result goes along: one that waits must not be passed. */
  cursorUpdate(): CursorRaise {
    const cursor = this.unsettled === 0 ? this.cursor() : this.window.durable;
    const { tenant, id: stream, epoch, run } = this;
    return { tenant, stream, epoch, run, version: this.stream.version, cursor };
  }

  /** It hears of no event any more; those appended after this moment are not scanned. */
  unfollow(): void {
    this.scannedTo = Math.max(this.scannedTo, this.following ? this.tail.head : 0);
    this.following = false;
    this.tail.leave(this);
  }

  /** Whether it has judged events by what the stream, as it is now, did not want of them. */
  scannedWithStaleFilter({ stream, cursor }: OwnedStream): boolean {
    const judged = { after: cursor, upTo: this.position };
    return differWithin(this.stream.subscriptions, stream.subscriptions, judged);
  }

  /**
   * The stream as it is now. A new destination holds from the next attempt on. A new run begins at
   * its own cursor; what is under way above that is taken over, and what was taken before is not
   * taken again.
   */
  update(owned: OwnedStream): void {
    if (owned.stream.version !== this.stream.version) this.template = undefined;
    this.stream = owned.stream;
    this.tenantName = owned.tenantName;
    this.rows = owned.waiting;
    this.#rowsAbove = setOf(owned.rowsAbove);
    this.replay = owned.replay;
    if (owned.run === this.run) return;
    this.run = owned.run;
    this.publishedAt = undefined;
    this.window = this.window.reopened(owned.cursor);
    this.scannedTo = Math.max(owned.cursor, this.scannedTo);
  }
}

/** Slots of a stream that its replay may have: fresh events find one at once. */
export function replaySlots(streamConcurrency: number): number {
  return streamConcurrency === 1 ? 1 : streamConcurrency - Math.ceil(streamConcurrency / 4);
}

function setOf(offsets: readonly Offset[]): ReadonlySet<Offset> | undefined {
  return offsets.length === 0 ? undefined : new Set(offsets);
}

export type RunnerLimits = Pick<DeliverySettings, 'parkAfterEvents' | 'settleMax' | 'disable'> &
  PaceLimits;
