import type { Clock } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import { checkOf, isSafe, type Position } from '../core/offset.ts';
import { errorFrame, eventFrame, heartbeat, offsetFrame, type PullErrorCode } from '../core/sse.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import { Tail } from '../log/tail.ts';
import type { ReadLimiter } from '../log/read-limiter.ts';
import type { LogStore } from '../store/port/log.ts';
import { FilterGroup, type Reader } from './reader.ts';
import { pageOf, Pages } from './pages.ts';
import type { PullSettings } from './settings.ts';
import type { Page } from './page-cache.ts';
import { positionAt } from './start-position.ts';

export interface HubDeps {
  readonly tenant: number;
  readonly log: Pick<LogStore, 'head' | 'page' | 'firstSince'>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly settings: PullSettings;
  readonly turns: ReadLimiter;
  /** A reader was closed because its client did not read. */
  readonly slow: (reader: Reader, position: Offset) => void;
  /** An error that is no outage of the store: a bug. */
  readonly unexpected: (error: unknown) => void;
  /** A reader has ended, by whatever. */
  readonly ended: (reader: Reader) => void;
}

/**
 * The end of one tenant's log on this node, and its readers. It exists as long as it has any. A
 * reader at the end of the log is handed what joins it, and costs nothing while nothing does. One
 * that is behind, or whose client takes no more, reads on by itself as fast as the client does.
 */
export class Hub {
  readonly readers = new Set<Reader>();
  readonly #deps: HubDeps;
  readonly #groups = new Map<string, FilterGroup>();
  readonly #pages: Pages;
  /** Absent until the store was asked where the log ends. */
  #tail: Tail<FilterGroup> | undefined;
  /** The position after an event that was at the end of the log. */
  #last: Position | undefined;
  /** The log is known to reach this offset. */
  #reach: Offset = 0;
  #isPolling = false;
  #isReading = false;
  #isClosed = false;
  /** Raised by each restart: what was asked before says nothing about the log as it is now. */
  #term = 0;
  /** Since when the store fails, in elapsed milliseconds. */
  #failingSinceMs: number | undefined;

  constructor(deps: HubDeps) {
    this.#deps = deps;
    this.#pages = new Pages(deps);
  }

  /** The readers of these types; several hubs never share one. */
  groupOf(types: readonly string[] | undefined): FilterGroup {
    const wanted = types && [...new Set(types)].toSorted();
    const key = wanted?.join(',') ?? '*';
    const group = this.#groups.get(key) ?? new FilterGroup(wanted);
    this.#groups.set(key, group);
    return group;
  }

  /** Begins to serve a reader. */
  add(reader: Reader): void {
    this.readers.add(reader);
    reader.group.readers.add(reader);
    if (this.#tail === undefined) return this.pollHead();
    // The store may have told the reader of more than this node has heard of.
    this.reached(reader.position);
    this.advance(reader);
  }

  /** Events joined the log by this process. */
  appended(events: readonly LogEvent[]): void {
    const [first, last] = [events[0], events.at(-1)];
    if (first === undefined || last === undefined) return;
    // Others have appended before these: all of it is read in order.
    if (this.#tail === undefined || first.offset > this.#tail.head + 1) this.reached(last.offset);
    else this.#push(this.#tail, events);
  }

  /** The log reaches this offset. */
  reached(head: Offset): void {
    this.#reach = Math.max(this.#reach, head);
    this.#catchUp();
  }

  /** Asks the store how far the log reaches; hints of it may have been lost. */
  pollHead(): void {
    if (!this.#isPolling) void this.#readHead();
  }

  /** Forgets events that were in memory already the last time, and pages that were read. */
  age(): void {
    this.#tail?.age();
    this.#pages.clear();
  }

  /** What time has brought: signs of life, ends, and another try where the store has failed. */
  checkLog(): void {
    const nowMs = this.#deps.clock.elapsedMs();
    const { outageMs } = this.#deps.settings;
    const isAway = nowMs - (this.#failingSinceMs ?? Infinity) >= outageMs;
    if (this.#tail === undefined && this.readers.size > 0) this.pollHead();
    this.#catchUp();
    for (const reader of this.readers) {
      if (isAway) this.fail(reader, 'service_unavailable');
      else if (nowMs >= reader.endsAtMs) this.end(reader);
      else {
        if (nowMs >= reader.beatAtMs) this.#beat(reader, nowMs);
        this.advance(reader);
      }
    }
  }

  /** Reads on for a reader that is behind, as far as its client takes it. */
  advance(reader: Reader): void {
    const { settings, turns } = this.#deps;
    const tail = this.#tail;
    if (tail === undefined) return;
    while (reader.state === 'behind' && !reader.isReading) {
      if (reader.sink.isBlocked) return this.#watch(reader);
      // Ahead of what this node has read, it waits: what lies between is not for it.
      if (reader.position > tail.head) return;
      if (reader.position === tail.head) return this.#follow(tail, reader);
      if (!tail.covers(reader.position)) {
        reader.isReading = true;
        turns.want(() => this.#readPage(reader));
        return;
      }
      const { types } = reader.group;
      const read = tail.read(reader.position, undefined, types, settings.pageBytes);
      give(reader, pageOf(read));
    }
  }

  /** The client takes more, after it had not for a while. */
  drained(reader: Reader): void {
    if (reader.state === 'ended') return;
    reader.isWatched = false;
    reader.sink.stallsAfter(undefined);
    this.advance(reader);
  }

  /** Nothing has moved for a while. */
  stalled(reader: Reader): void {
    reader.isWatched = false;
    if (reader.state === 'ended') reader.sink.cut();
    // All there is for it was written, and that is not too much, or nothing at all.
    else if (reader.state === 'live') reader.sink.stallsAfter(undefined);
    else this.#deps.turns.want(() => this.#checkSlow(reader));
  }

  /** Ends a pull as a matter of course: the client comes back and reads on. */
  end(reader: Reader): void {
    if (this.#remove(reader)) this.#finish(reader);
  }

  /** Ends a pull with the reason why it cannot go on. */
  fail(reader: Reader, code: PullErrorCode): void {
    const place = this.#stateOf(reader) ?? reader.reportedPosition;
    if (!this.#remove(reader)) return;
    reader.sink.write(errorFrame(code, isSafe(place) ? place : undefined));
    this.#finish(reader);
  }

  /** The connection is gone. */
  gone(reader: Reader): void {
    this.#remove(reader);
  }

  /**
   * The store was replaced, and its log may be another one: ends every pull and forgets the log. The
   * clients come back with their offsets, which are checked against the log as it is now.
   */
  restart(): void {
    for (const reader of this.readers) this.end(reader);
    this.#tail = undefined;
    this.#last = undefined;
    this.#reach = 0;
    this.#term += 1;
    this.#pages.clear();
  }

  /** Ends every pull. */
  close(): void {
    this.#isClosed = true;
    for (const reader of this.readers) {
      this.#remove(reader);
      // What a client does not take would hold up the end; it reads that again elsewhere.
      if (reader.sink.isBlocked) reader.sink.cut();
      else reader.sink.end();
    }
  }

  async #readHead(): Promise<void> {
    this.#isPolling = true;
    const term = this.#term;
    await this.#ask(async () => {
      const head = await this.#deps.log.head(this.#deps.tenant);
      if (term !== this.#term) return;
      if (this.#tail === undefined) {
        this.#tail = new Tail<FilterGroup>(this.#deps.settings, head);
        for (const reader of this.readers) this.advance(reader);
      }
      this.reached(head);
    });
    this.#isPolling = false;
  }

  #remove(reader: Reader): boolean {
    if (reader.state === 'ended') return false;
    this.#leave(reader);
    reader.state = 'ended';
    const { group } = reader;
    group.readers.delete(reader);
    if (group.readers.size === 0) this.#groups.delete(group.types?.join(',') ?? '*');
    this.readers.delete(reader);
    this.#deps.ended(reader);
    return true;
  }

  /** A client that does not take the rest is not waited for. */
  #finish({ sink }: Reader): void {
    sink.stallsAfter(this.#deps.settings.stalledMs);
    sink.end();
  }

  /** Waits for a client that takes nothing; not anew when it is waited for already. */
  #watch(reader: Reader): void {
    if (reader.isWatched) return;
    reader.isWatched = true;
    reader.sink.stallsAfter(this.#deps.settings.stalledMs);
  }

  #positionOf(reader: Reader): Offset {
    return reader.state === 'live' ? (this.#tail?.head ?? reader.position) : reader.position;
  }

  #follow(tail: Tail<FilterGroup>, reader: Reader): void {
    const { live, types } = reader.group;
    if (live.size === 0) tail.join(reader.group, types);
    live.add(reader);
    reader.state = 'live';
  }

  #leave(reader: Reader): void {
    const { group } = reader;
    if (!group.live.delete(reader)) return;
    if (group.live.size === 0) this.#tail?.leave(group);
  }

  #beat(reader: Reader, nowMs: number): void {
    while (reader.beatAtMs <= nowMs) reader.beatAtMs += this.#deps.settings.heartbeatMs;
    // It would lie behind what the client does not take, and nobody would see it.
    if (reader.sink.isBlocked) return;
    const place = this.#stateOf(reader);
    if (place !== undefined && place.offset > reader.reportedPosition.offset) {
      reader.sink.write(heartbeat + offsetFrame(place));
      reader.reportedPosition = place;
      return;
    }
    reader.sink.write(heartbeat);
    const offset = this.#positionOf(reader);
    if (place === undefined && offset > reader.reportedPosition.offset)
      void this.#reportPosition(reader, offset);
  }

  /** Where a reader stands, with the check of the event there; `undefined` where that is not known. */
  #stateOf(reader: Reader): Position | undefined {
    const offset = this.#positionOf(reader);
    if (offset === reader.reportedPosition.offset && isSafe(reader.reportedPosition))
      return reader.reportedPosition;
    const last = this.#last;
    if (last?.offset === offset) return last;
    const event = this.#tail?.next(offset - 1);
    return event?.offset === offset ? { offset, check: checkOf(event.id) } : undefined;
  }

  /** Tells a reader where it stands once the store has said which event is there, if any is. */
  async #reportPosition(reader: Reader, offset: Offset): Promise<void> {
    await this.#ask(async () => {
      const place = await positionAt(this.#deps.log, this.#deps.tenant, offset);
      if (isSafe(place) && this.#tail?.head === offset) this.#last = place;
      const hasMoved = reader.state === 'ended' || this.#positionOf(reader) !== offset;
      if (hasMoved || reader.sink.isBlocked || reader.reportedPosition.offset >= offset) return;
      reader.reportedPosition = place;
      if (isSafe(place)) reader.sink.write(offsetFrame(place));
    }, reader);
  }

  #push(tail: Tail<FilterGroup>, events: readonly LogEvent[]): void {
    const gathered = new Set<FilterGroup>();
    const sendAll = (): void => {
      for (const group of gathered) this.#send(group);
      gathered.clear();
    };
    const newest = events.at(-1);
    if (newest !== undefined) this.#last = { offset: newest.offset, check: checkOf(newest.id) };
    for (const event of events) {
      if (event.offset <= tail.head) continue;
      if (event.offset > tail.head + 1) {
        sendAll();
        this.#skip(tail, event.offset - 1);
      }
      // A copy: an audience that is sent to may leave and join again meanwhile.
      const woken = [...tail.push(event)];
      let frame: string | undefined;
      for (const group of woken) {
        gathered.add(group);
        frame ??= eventFrame(event);
        if (group.gather(event, frame)) this.#send(group);
      }
    }
    sendAll();
  }

  /** Writes what was gathered to all that have room for it; the others go on by themselves. */
  #send(group: FilterGroup): void {
    const chunk = group.takeChunk();
    if (chunk === undefined) return;
    const { waitingBytesMax } = this.#deps.settings;
    const left: Reader[] = [];
    for (const reader of group.live) {
      if (reader.sink.waiting + chunk.bytes.length > waitingBytesMax) {
        this.#leave(reader);
        reader.state = 'behind';
        reader.position = chunk.after;
        left.push(reader);
      } else {
        reader.sink.write(chunk.bytes);
        reader.reportedPosition = chunk.last;
      }
    }
    // Not before all have had the piece: one that catches up at once is live again.
    for (const reader of left) this.advance(reader);
  }

  /** Goes on after `head`: readers that were live read for themselves from where they stood. */
  #skip(tail: Tail<FilterGroup>, head: Offset): void {
    const stoodAt = tail.head;
    for (const group of tail.skipTo(head)) {
      for (const reader of group.live) {
        reader.state = 'behind';
        reader.position = stoodAt;
      }
      group.live.clear();
    }
    for (const reader of this.readers) this.advance(reader);
  }

  /** Reads what other processes appended, once for all live readers. */
  #catchUp(): void {
    const tail = this.#tail;
    if (this.#isReading || tail === undefined || tail.head >= this.#reach) return;
    if (!tail.hasFollowers) return this.#skip(tail, this.#reach);
    void this.#readForAll(tail);
  }

  async #readForAll(tail: Tail<FilterGroup>): Promise<void> {
    this.#isReading = true;
    await this.#ask(() => this.#readPages(tail));
    this.#isReading = false;
    for (const reader of this.readers) this.advance(reader);
  }

  async #readPages(tail: Tail<FilterGroup>): Promise<void> {
    const { tenant, log, settings } = this.#deps;
    const { pageEvents: take, pageBytes: bytesMax } = settings;
    while (tail.head < this.#reach && tail.hasFollowers) {
      const { head } = tail;
      const page = await log.page(tenant, { after: head, upTo: this.#reach, take, bytesMax });
      if (this.#isClosed || tail !== this.#tail) return;
      this.#push(tail, page.events);
      // The oldest may have been pruned.
      if (page.scannedTo > tail.head) this.#skip(tail, page.scannedTo);
      // A log that ends before the head it told of is asked again at the next look, not at once.
      if (tail.head === head) return;
    }
    if (tail.head < this.#reach) this.#skip(tail, this.#reach);
  }

  /** Closes a reader whose client has taken nothing when too much waits for it, here or in the log. */
  async #checkSlow(reader: Reader): Promise<void> {
    const { waitingBytesMax } = this.#deps.settings;
    const { position, group } = reader;
    await this.#ask(async () => {
      const waits = await this.#pages.waiting(group, position, this.#tail?.head ?? 0);
      // It has read meanwhile, or is gone.
      if (reader.state !== 'behind' || reader.position !== position) return;
      if (!reader.sink.isBlocked) return;
      if (reader.sink.waiting + waits < waitingBytesMax) return this.#watch(reader);
      this.#remove(reader);
      reader.sink.cut();
      this.#deps.slow(reader, position);
    }, reader);
  }

  async #readPage(reader: Reader): Promise<void> {
    const { position: after, group } = reader;
    if (reader.state !== 'ended') {
      await this.#ask(async () => {
        const page = await this.#pages.page(group, after);
        if (page.isOvertaken) this.fail(reader, 'cursor_expired');
        else if (reader.state === 'behind') give(reader, page);
      }, reader);
    }
    reader.isReading = false;
    // What brought nothing is asked again at the next look, not at once.
    if (reader.position > after) this.advance(reader);
  }

  /** Asks the store; what fails for an outage is tried again by and by. */
  async #ask(work: () => Promise<void>, reader?: Reader): Promise<void> {
    try {
      await work();
      this.#failingSinceMs = undefined;
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        this.#failingSinceMs ??= this.#deps.clock.elapsedMs();
        return;
      }
      this.#deps.unexpected(error);
      const failed = reader === undefined ? this.readers : [reader];
      for (const each of failed) this.fail(each, 'processing_error');
    }
  }
}

/** Writes a page and moves the reader on. */
function give(reader: Reader, { bytes, last, scannedTo }: Page): void {
  if (last !== undefined) {
    reader.sink.write(bytes);
    reader.reportedPosition = last;
  }
  reader.position = Math.max(reader.position, scannedTo);
}
