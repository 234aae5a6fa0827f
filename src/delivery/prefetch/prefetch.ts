import { spanAt, typesNow } from '../../core/subscription.ts';
import type { LogEvent, Offset } from '../../core/types.ts';
import type { LogPage } from '../../store/port/log.ts';
import { type CatchUp, createCatchUp } from './catch-up.ts';
import type { PaceLimits } from '../pace.ts';
import { createPageReader, type PageReader, type PageReaderDeps } from './page-reader.ts';
import type { Scheduler } from '../scheduler.ts';
import type { Runner } from '../runner.ts';
import type { DeliverySettings } from '../settings.ts';
import { roomFor } from '../shares.ts';
import type { Tail } from '../../log/tail.ts';

/** Queues of the node hold so many full pages; beyond that each runner reads little at a time. */
const fullPagesMax = 16;
const smallPageBytes = 16_384;

/** Fills the queues of the runners, from memory or from the store. */
export interface Prefetch {
  /** Pages that are being read, or will be. */
  readonly reads: number;
  /** Characters of bodies in the queues of all runners. */
  readonly queuedBytes: number;
  /** Events joined a log. */
  appended(tenant: number, tail: Tail<Runner>, events: readonly LogEvent[]): void;
  /** A log reaches this offset, unheard. */
  reached(tenant: number, tail: Tail<Runner>, head: Offset): void;
  /** Events up to `head` may have joined the log unheard, and are not read for all at once. */
  skipped(tail: Tail<Runner>, head: Offset): void;
  /** Reads on for a runner whose queue is short, or lets it wait at the head of the log. */
  fill(runner: Runner): void;
  /** An event was taken from the runner's queue. */
  taken(runner: Runner, bodyBytes: number): void;
  /** Empties the queue of a runner: it is read again, or belongs to the disabled time. */
  empty(runner: Runner): void;
  /** Returns the runners that have read pages of the store since the last call. */
  takeReaders(): Set<Runner>;
  close(): void;
}

export interface PrefetchDeps extends Pick<PageReaderDeps, 'log' | 'clock' | 'storeRetry'> {
  readonly scheduler: Pick<Scheduler, 'enqueue' | 'dispatch'>;
  readonly settings: Pick<DeliverySettings, 'pageEvents' | 'pageBytes'> & PaceLimits;
  /** Whether several tenants have streams on this node. */
  readonly isShared: () => boolean;
}

/** See {@link Prefetch}. */
export function createPrefetch(deps: PrefetchDeps): Prefetch {
  return new LogPrefetch(deps);
}

/**
 * A runner at the head of the log is handed each event that it wants as it is appended. One that
 * falls behind leaves the head, costs the publisher nothing from then on, and reads on by itself,
 * ahead of what it sends, until it is back.
 */
class LogPrefetch implements Prefetch {
  readonly #deps: PrefetchDeps;
  readonly #reader: PageReader;
  readonly #catchUp: CatchUp;
  #queuedBytes = 0;
  #readers = new Set<Runner>();
  /** Of each tenant that has any. */
  readonly #queuedOf = new Map<number, number>();

  constructor(deps: PrefetchDeps) {
    this.#deps = deps;
    this.#reader = createPageReader({
      ...deps,
      pageBytes: (runner) => this.#pageBytes(runner),
      read: (runner, page) => this.#takePage(runner, page),
    });
    this.#catchUp = createCatchUp({
      ...deps,
      push: (tail, events) => this.#push(tail, events),
      skip: (tail, head) => this.skipped(tail, head),
      done: () => deps.scheduler.dispatch(),
    });
  }

  get reads(): number {
    return this.#reader.reads + this.#catchUp.reads;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  appended(tenant: number, tail: Tail<Runner>, events: readonly LogEvent[]): void {
    const [first] = events;
    const last = events.at(-1);
    if (first === undefined || last === undefined) return;
    // Others have appended before these: all of it is read in order.
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
      // One whose queue is empty ends no attempt after which it would read on.
      for (const runner of refused) this.fill(runner);
    }
  }

  skipped(tail: Tail<Runner>, head: Offset): void {
    const stoodAt = tail.head;
    for (const runner of tail.skipTo(head)) {
      runner.following = false;
      runner.scannedTo = Math.max(runner.scannedTo, stoodAt);
      this.fill(runner);
    }
  }

  fill(runner: Runner): void {
    const { tail } = runner;
    const changedAt = runner.stream.subscriptions.at(-1)?.after ?? 0;
    // The log reaches as far as the last change at least, whatever this node has heard of it: what
    // lies before must not be judged by what follows it.
    if (changedAt > tail.head) this.skipped(tail, changedAt);
    while (this.#wantsMore(runner)) {
      if (runner.scannedTo >= tail.head) return follow(runner);
      const { types, upTo } = spanAt(runner.stream.subscriptions, runner.scannedTo + 1);
      if (types.length === 0) runner.scannedTo = Math.min(upTo ?? tail.head, tail.head);
      else if (!tail.covers(runner.scannedTo)) return this.#reader.want(runner);
      else this.#take(runner, tail.read(runner.scannedTo, upTo, types, this.#pageBytes(runner)));
    }
  }

  taken(runner: Runner, bodyBytes: number): void {
    this.#count(runner, -bodyBytes);
    if (!runner.following) this.fill(runner);
  }

  empty(runner: Runner): void {
    runner.scannedTo = runner.position;
    for (let event = runner.queue.shift(); event; event = runner.queue.shift()) {
      this.#count(runner, -event.body.length);
    }
  }

  takeReaders(): Set<Runner> {
    const readers = this.#readers;
    this.#readers = new Set();
    return readers;
  }

  close(): void {
    this.#reader.close();
    this.#catchUp.close();
  }

  #count({ tenant }: Runner, bytes: number): void {
    this.#queuedBytes += bytes;
    const own = (this.#queuedOf.get(tenant) ?? 0) + bytes;
    if (own === 0) this.#queuedOf.delete(tenant);
    else this.#queuedOf.set(tenant, own);
  }

  #room({ tenant }: Runner): number {
    const { settings, isShared } = this.#deps;
    const left = fullPagesMax * settings.pageBytes - this.#queuedBytes;
    return roomFor(this.#queuedOf.get(tenant) ?? 0, left, isShared());
  }

  /**
   * A full page while there is room for several; little when there is not, as all want some, and for
   * a stream that sends slowly.
   */
  #pageBytes(runner: Runner): number {
    const { settings } = this.#deps;
    if (!runner.pace.isQuick(settings)) return Math.min(smallPageBytes, settings.pageBytes);
    return Math.max(smallPageBytes, Math.min(settings.pageBytes, this.#room(runner) / 4));
  }

  /** Half a page is left when the next is asked for; where memory is short, nothing. */
  #wantsMore(runner: Runner): boolean {
    const { state, enabled, following, reading, queue } = runner;
    if (state !== 'active' || !enabled || following || reading) return false;
    const left = this.#room(runner) > smallPageBytes ? this.#queueMax(runner) / 2 : 0;
    return queue.length <= left;
  }

  /** A slow stream keeps few events in memory: it needs them late. */
  #queueMax(runner: Runner): number {
    const { settings } = this.#deps;
    const { pageEvents } = settings;
    if (runner.pace.isQuick(settings)) return pageEvents;
    return Math.min(pageEvents, 2 * runner.pace.slots(settings));
  }

  /** Returns false when there is no room: the runner leaves the head of the log. */
  #offer(runner: Runner, event: LogEvent): boolean {
    if (runner.queue.length < this.#queueMax(runner) && this.#room(runner) > 0) {
      this.#enqueue(runner, event);
      return true;
    }
    const scannedTo = Math.max(runner.scannedTo, event.offset - 1);
    runner.unfollow();
    runner.scannedTo = scannedTo;
    return false;
  }

  #enqueue(runner: Runner, event: LogEvent): void {
    if (!runner.enqueue(event)) return;
    this.#count(runner, event.body.length);
    this.#deps.scheduler.enqueue(runner);
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
    // A log that ends before the head it told of is asked again at the next look, not at once.
    if (page === undefined || runner.scannedTo > before) this.fill(runner);
    this.#deps.scheduler.dispatch();
  }
}

function follow(runner: Runner): void {
  runner.following = true;
  runner.tail.join(runner, typesNow(runner.stream.subscriptions));
}
