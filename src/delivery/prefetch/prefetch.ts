import { Counts } from '../../core/counts.ts';
import { selectionNow, spanAt } from '../../core/subscription.ts';
import type { LogEvent, Offset } from '../../core/types.ts';
import type { LogPage } from '../../store/port/log.ts';
import { type CatchUp, createCatchUp } from './catch-up.ts';
import type { Json } from '../../core/filter-values.ts';
import { orderKeyOf } from '../../core/order-key.ts';
import type { EventFilters } from './event-filters.ts';
import { createFilteredPages, type FilteredPageReader } from './filtered-pages.ts';
import type { PaceLimits } from '../pace.ts';
import type { Lease } from '../lease.ts';
import { createPageReader, type PageReader, type PageReaderDeps } from './page-reader.ts';
import type { Scheduler } from '../scheduler.ts';
import type { HeldBackEvent, KeyOf, Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';
import { roomFor } from '../shares.ts';
import type { Tail } from '../../log/tail.ts';

/** Full pages in the queues of the node; above that each runner reads small pages. */
const fullPagesMax = 16;
const smallPageBytes = 16_384;

/** The events of such a page are parsed for their keys in one turn of the event loop. */
const orderedPageBytes = 262_144;

/** Fills the queues of the runners, from memory or from the store. */
export interface Prefetch {
  /** Pages that are being read, or will be. */
  readonly reads: number;
  /** Characters of bodies in the queues of all runners. */
  readonly queuedBytes: number;
  /** Takes over events that were appended by this process. */
  appended(tenant: number, tail: Tail<Runner>, events: readonly LogEvent[]): void;
  /** Reads on up to `head`: another process has appended events. */
  reached(tenant: number, tail: Tail<Runner>, head: Offset): void;
  /** Moves the tail to `head`; each runner reads the events in between for itself. */
  skipped(tail: Tail<Runner>, head: Offset): void;
  /**
   * Reads on for a runner whose queue is short, or makes it follow the head of the log. Before that it
   * holds back events that wait behind their keys, as there may be room for them now.
   */
  fill(runner: Runner): void;
  /** The same for a runner that is new, or whose state was read again: from the present log. */
  renew(runner: Runner): void;
  /** Notes that an event was taken from the runner's queue, or from those that it has held back. */
  taken(runner: Runner, bodyBytes: number): void;
  /** Empties the queue of a runner: its events are read again, or the stream does not send. */
  empty(runner: Runner): void;
  /** Empties the queue of a runner for good, and drops the events that it has held back. */
  forget(runner: Runner): void;
  /** Notes that events that were held back are dropped. */
  dropped(runner: Runner, events: readonly HeldBackEvent[]): void;
  /** Returns the runners that have read pages of the store since the last call. */
  takeReaders(): Set<Runner>;
  /** Drops pages in memory that were read before the last call. */
  age(): void;
  close(): void;
}

export interface PrefetchDeps extends Pick<PageReaderDeps, 'log' | 'clock' | 'storeRetry'> {
  readonly scheduler: Pick<Scheduler, 'enqueue' | 'dispatch'>;
  readonly settings: Pick<DeliverySettings, 'pageEvents' | 'pageBytes' | 'disable'> & PaceLimits;
  readonly filters: Pick<EventFilters, 'test' | 'select'>;
  /** Whether several tenants have streams on this node. */
  readonly isShared: () => boolean;
  readonly lease: Pick<Lease, 'isHeld'>;
  /** An event waits behind its key from now on. */
  readonly heldBack: (runner: Runner, held: HeldBackEvent) => void;
}

/** See {@link Prefetch}. */
export function createPrefetch(deps: PrefetchDeps): Prefetch {
  return new LogPrefetch(deps);
}

/**
 * A runner at the head of the log receives each matching event as it is appended. A runner that
 * falls behind leaves the head, costs the publisher nothing from then on, and reads pages ahead of
 * its attempts until it is at the head again.
 */
class LogPrefetch implements Prefetch {
  readonly #deps: PrefetchDeps;
  readonly #reader: PageReader;
  readonly #filteredReader: FilteredPageReader;
  readonly #catchUp: CatchUp;
  #readers = new Set<Runner>();
  /** Characters of queued bodies, by tenant. */
  readonly #queued = new Counts<number>();
  readonly #keyOf = keyReader();

  constructor(deps: PrefetchDeps) {
    this.#deps = deps;
    const reading: PageReaderDeps = {
      ...deps,
      pageBytes: (runner) => this.#pageBytes(runner),
      read: (runner, page) => this.#takePage(runner, page),
    };
    this.#reader = createPageReader(reading);
    this.#filteredReader = createFilteredPages({ ...reading, filters: deps.filters });
    this.#catchUp = createCatchUp({
      ...deps,
      push: (tail, events) => this.#push(tail, events),
      skip: (tail, head) => this.skipped(tail, head),
      done: () => deps.scheduler.dispatch(),
    });
  }

  get reads(): number {
    return this.#reader.reads + this.#filteredReader.reads + this.#catchUp.reads;
  }

  get queuedBytes(): number {
    return this.#queued.total;
  }

  appended(tenant: number, tail: Tail<Runner>, events: readonly LogEvent[]): void {
    const [first] = events;
    const last = events.at(-1);
    if (first === undefined || last === undefined) return;
    // Another process has appended before these: all are read in order.
    if (first.offset > tail.head + 1) this.#catchUp.reached(tenant, tail, last.offset);
    else this.#push(tail, events);
  }

  reached(tenant: number, tail: Tail<Runner>, head: Offset): void {
    this.#catchUp.reached(tenant, tail, head);
  }

  #push(tail: Tail<Runner>, events: readonly LogEvent[]): void {
    for (const event of events) {
      if (event.offset <= tail.head) continue;
      if (event.offset > tail.head + 1) this.skipped(tail, event.offset - 1);
      const refused: Runner[] = [];
      for (const runner of tail.push(event)) if (!this.#offer(runner, event)) refused.push(runner);
      // A runner without an attempt under way would not read on otherwise.
      for (const runner of refused) this.fill(runner);
    }
  }

  skipped(tail: Tail<Runner>, head: Offset): void {
    const headBefore = tail.head;
    for (const runner of tail.skipTo(head)) {
      runner.following = false;
      runner.scannedTo = Math.max(runner.scannedTo, headBefore);
      this.fill(runner);
    }
  }

  renew(runner: Runner): void {
    this.#filteredReader.shared.drop(runner.tenant);
    this.fill(runner);
  }

  fill(runner: Runner): void {
    this.#holdBack(runner);
    const { tail } = runner;
    const changedAt = runner.stream.subscriptions.at(-1)?.after ?? 0;
    // The log has events up to the last change of subscriptions, even if their hints are late: they
    // must not be filtered by the subscriptions after it.
    if (changedAt > tail.head) this.skipped(tail, changedAt);
    while (this.#needsMore(runner)) {
      if (runner.scannedTo >= tail.head) return follow(runner);
      const { types, filter, upTo } = spanAt(runner.stream.subscriptions, runner.scannedTo + 1);
      if (types.length === 0) runner.scannedTo = Math.min(upTo ?? tail.head, tail.head);
      else if (filter !== undefined) return this.#filteredReader.request(runner);
      else if (!tail.covers(runner.scannedTo)) return this.#reader.request(runner);
      else this.#take(runner, tail.read(runner.scannedTo, upTo, types, this.#pageBytes(runner)));
    }
  }

  taken(runner: Runner, bodyBytes: number): void {
    this.#queued.add(runner.tenant, -bodyBytes);
    if (runner.following) this.#holdBack(runner);
    else this.fill(runner);
  }

  empty(runner: Runner): void {
    runner.scannedTo = runner.position;
    for (let next = runner.dequeue(); next; next = runner.dequeue()) {
      this.#queued.add(runner.tenant, -next.event.body.length);
    }
  }

  forget(runner: Runner): void {
    this.empty(runner);
    this.dropped(runner, runner.order?.drop(Infinity) ?? []);
  }

  dropped(runner: Runner, events: readonly HeldBackEvent[]): void {
    for (const { event } of events) this.#queued.add(runner.tenant, -event.body.length);
  }

  takeReaders(): Set<Runner> {
    const readers = this.#readers;
    this.#readers = new Set();
    return readers;
  }

  age(): void {
    this.#filteredReader.shared.age();
  }

  close(): void {
    this.#reader.close();
    this.#filteredReader.close();
    this.#catchUp.close();
  }

  #room({ tenant }: Runner): number {
    const { settings, isShared } = this.#deps;
    const left = fullPagesMax * settings.pageBytes - this.#queued.total;
    return roomFor(this.#queued.of(tenant), left, isShared());
  }

  /**
   * Returns a full page while there is room for several; a small one otherwise, as all streams need
   * some, and for a slow stream.
   */
  #pageBytes(runner: Runner): number {
    const { settings } = this.#deps;
    if (!runner.sends || !runner.pace.isQuick(settings)) {
      return Math.min(smallPageBytes, settings.pageBytes);
    }
    const most = runner.order ? Math.min(orderedPageBytes, settings.pageBytes) : settings.pageBytes;
    return Math.max(smallPageBytes, Math.min(most, this.#room(runner) / 4));
  }

  /** Returns whether to read on: with half a queue left, or with none where memory is short. */
  #needsMore(runner: Runner): boolean {
    const { state, enabled, following, reading, queue } = runner;
    if (state !== 'active' || !enabled || following || reading) return false;
    const left = this.#room(runner) > smallPageBytes ? this.#queueMax(runner) / 2 : 0;
    return queue.length <= left;
  }

  /**
   * A slow stream has few events in memory: it needs them late. A paused one passes events that it does
   * not want, up to the first that it has to send.
   */
  #queueMax(runner: Runner): number {
    const { settings } = this.#deps;
    const { pageEvents } = settings;
    if (!runner.sends) return 1;
    if (runner.pace.isQuick(settings)) return pageEvents;
    return Math.min(pageEvents, 2 * runner.slots(settings));
  }

  /**
   * Returns false without room in the queue, or without time for its filter: the runner leaves the
   * head of the log then.
   */
  #offer(runner: Runner, event: LogEvent): boolean {
    const { filter } = runner;
    const matches = filter === undefined || this.#deps.filters.test(filter, event);
    if (matches === false) return true;
    if (matches && runner.queue.length < this.#queueMax(runner) && this.#room(runner) > 0) {
      this.#enqueue(runner, event);
      return true;
    }
    const scannedTo = Math.max(runner.scannedTo, event.offset - 1);
    runner.unfollow();
    runner.scannedTo = scannedTo;
    return false;
  }

  #enqueue(runner: Runner, event: LogEvent): void {
    if (!runner.enqueue(event, this.#keyOf)) return;
    this.#queued.add(runner.tenant, event.body.length);
    this.#holdBack(runner);
    this.#deps.scheduler.enqueue(runner);
  }

  /**
   * Holds back events that wait behind their keys, while there is room: they count as queued until
   * they leave memory. That takes them, by the subscriptions that this node knows; without its lease,
   * and until it has read the stream again, others may be in force.
   */
  #holdBack(runner: Runner): void {
    const { clock, settings, lease, heldBack } = this.#deps;
    const mayTake = (): boolean => runner.state === 'active' && lease.isHeld;
    while (runner.order?.isFrontBlocked === true && this.#room(runner) > 0 && mayTake()) {
      const held = runner.holdBack(clock.elapsedMs(), settings);
      if (held === undefined) return;
      heldBack(runner, held);
    }
  }

  #take(runner: Runner, page: LogPage): void {
    for (const event of page.events) this.#enqueue(runner, event);
    runner.scannedTo = Math.max(runner.scannedTo, page.scannedTo);
  }

  #takePage(runner: Runner, page: LogPage | undefined): void {
    const before = runner.scannedTo;
    if (page !== undefined) {
      this.#readers.add(runner);
      this.#take(runner, page);
    }
    // A log that ends before the reported head is read again at the next poll, not at once.
    if (page === undefined || runner.scannedTo > before) this.fill(runner);
    this.#deps.scheduler.dispatch();
  }
}

function follow(runner: Runner): void {
  const { types, filter } = selectionNow(runner.stream.subscriptions);
  runner.following = true;
  runner.filter = runner.filterOf(filter);
  runner.tail.join(runner, types);
}

/** Returns the keys of events; an event is parsed once for streams that get it one after the other. */
function keyReader(): KeyOf {
  let last: { readonly event: LogEvent; readonly envelope: Json } | undefined;
  return (event, tokens) => {
    if (last?.event !== event) last = { event, envelope: JSON.parse(event.body) as Json };
    return orderKeyOf(last.envelope, tokens);
  };
}
