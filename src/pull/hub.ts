import type { Clock } from '../core/clock.ts';
import { isSafe, type Position } from '../core/offset.ts';
import { errorFrame, eventFrame, heartbeat, offsetFrame, type PullErrorCode } from '../core/sse.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import { Tail } from '../log/tail.ts';
import type { ReadLimiter } from '../log/read-limiter.ts';
import type { LogStore } from '../store/port/log.ts';
import { FilterGroup, type Reader } from './reader.ts';
import { CheckedPositions } from './checked-positions.ts';
import { pageOf } from './page.ts';
import { Pages } from './pages.ts';
import type { PullSettings } from './settings.ts';
import { StoreCalls } from './store-calls.ts';

export interface HubDeps {
  readonly tenant: number;
  readonly log: Pick<LogStore, 'head' | 'page' | 'firstSince'>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly settings: PullSettings;
  readonly reads: ReadLimiter;
  /** Called when a reader was closed because its client did not read. */
  readonly onSlow: (reader: Reader, position: Offset) => void;
  /** Receives an error that is not a store outage: a bug. */
  readonly onBug: (error: unknown) => void;
  /** Called when a reader has ended, for any reason. */
  readonly onEnd: (reader: Reader) => void;
}

/**
 * Serves the readers of one tenant's log on this node; it exists while there are any. A live reader
 * is at the end of the log: it receives new events, and costs nothing while there are none. A reader
 * that is behind, or whose client is slow, reads pages of the log as fast as its client does.
 */
export class Hub {
  readonly readers = new Set<Reader>();
  readonly #deps: HubDeps;
  readonly #groups = new FilterGroups();
  readonly #pages: Pages;
  readonly #positions: CheckedPositions;
  readonly #calls: StoreCalls;
  /** Absent until the head was read from the store. */
  #tail: Tail<FilterGroup> | undefined;
  /** The highest offset that the log is known to have. */
  #head: Offset = 0;
  #isPolling = false;
  /** Asked for while the head was being read, perhaps before what is asked about. */
  #pollsAgain = false;
  #isReading = false;
  #isClosed = false;
  /** Raised by each restart: results of earlier calls are about another log. */
  #restarts = 0;

  constructor(deps: HubDeps) {
    this.#deps = deps;
    this.#pages = new Pages(deps);
    this.#positions = new CheckedPositions(deps);
    this.#calls = new StoreCalls(deps.clock);
  }

  /** Returns the filter group of these types; a group belongs to one hub. */
  groupOf(types: readonly string[] | undefined): FilterGroup {
    return this.#groups.of(types);
  }

  /** Starts to serve a reader. */
  add(reader: Reader): void {
    this.readers.add(reader);
    reader.group.readers.add(reader);
    if (this.#tail === undefined) return this.pollHead();
    this.advance(reader);
  }

  /** Handles events that this process appended. */
  appended(events: readonly LogEvent[]): void {
    const [first, last] = [events[0], events.at(-1)];
    if (first === undefined || last === undefined) return;
    // Other nodes have appended before these: everything is read in order.
    if (this.#tail === undefined || first.offset > this.#tail.head + 1) this.reached(last.offset);
    else this.#push(this.#tail, events);
  }

  /** Handles a hint that the log has this offset. */
  reached(head: Offset): void {
    this.#head = Math.max(this.#head, head);
    this.#catchUp();
  }

  /** Reads the head of the log from the store: a hint is best effort. */
  pollHead(): void {
    this.#pollsAgain = this.#isPolling;
    if (!this.#isPolling) void this.#readHead();
  }

  /** Drops cached pages, and events that were in memory at the previous call. */
  age(): void {
    this.#tail?.age();
    this.#pages.clear();
  }

  /** Periodic tick: heartbeats, expiries, retries after a store outage. */
  onTick(): void {
    const nowMs = this.#deps.clock.elapsedMs();
    const isOut = this.#calls.failingMs >= this.#deps.settings.outageMs;
    if (this.#tail === undefined && this.readers.size > 0) this.pollHead();
    this.#catchUp();
    for (const reader of this.readers) {
      if (isOut) this.fail(reader, 'service_unavailable');
      else if (nowMs >= reader.endsAtMs) this.end(reader);
      else {
        if (nowMs >= reader.beatAtMs) this.#beat(reader, nowMs);
        this.advance(reader);
      }
    }
  }

  /** Writes events to a reader that is behind, as long as its client reads them. */
  advance(reader: Reader): void {
    const { settings, reads } = this.#deps;
    const tail = this.#tail;
    if (tail === undefined) return;
    while (reader.state === 'behind' && !reader.isReading) {
      if (reader.sink.isBlocked) return reader.startTimeout(settings.stalledMs);
      if (reader.position > tail.head) {
        // It has read events before the hint of them arrived: they are read for all.
        if (reader.position > this.#head) this.reached(reader.position);
        // Continues when this node knows as many, or skips those in between.
        return;
      }
      if (reader.position === tail.head) return this.#follow(tail, reader);
      if (!tail.covers(reader.position)) {
        reader.isReading = true;
        reads.enqueue(() => this.#readPage(reader));
        return;
      }
      const { types } = reader.group;
      reader.write(pageOf(tail.read(reader.position, undefined, types, settings.pageBytes)));
    }
  }

  /** Continues when the client reads again. */
  drained(reader: Reader): void {
    if (reader.state === 'ended') return;
    reader.stopTimeout();
    this.advance(reader);
  }

  /** Handles that nothing was sent for `stalledMs`. */
  stalled(reader: Reader): void {
    reader.isTimed = false;
    if (reader.state === 'ended') reader.sink.cut();
    // A live reader has been written everything, within its limit.
    else if (reader.state === 'live') reader.sink.stallsAfter(undefined);
    else this.#deps.reads.enqueue(() => this.#checkSlow(reader));
  }

  /** Ends a pull without an error: the client reconnects and resumes. */
  end(reader: Reader): void {
    if (this.#remove(reader)) this.#finish(reader);
  }

  /** Ends a pull with an error. */
  fail(reader: Reader, code: PullErrorCode): void {
    const position = this.#checkedPositionOf(reader) ?? reader.reportedPosition;
    if (!this.#remove(reader)) return;
    reader.sink.write(errorFrame(code, isSafe(position) ? position : undefined));
    this.#finish(reader);
  }

  /** Handles that the connection is closed. */
  gone(reader: Reader): void {
    this.#remove(reader);
  }

  /**
   * Ends every pull and forgets the log, after the store was replaced: its log may be another one.
   * Clients reconnect with their offsets, which are checked against the new log.
   */
  restart(): void {
    for (const reader of this.readers) this.end(reader);
    this.#tail = undefined;
    this.#positions.clear();
    this.#head = 0;
    this.#restarts += 1;
    this.#pages.clear();
  }

  /** Ends every pull. */
  close(): void {
    this.#isClosed = true;
    for (const reader of this.readers) {
      this.#remove(reader);
      // A client that does not read would delay shutdown; it resumes at another node.
      if (reader.sink.isBlocked) reader.sink.cut();
      else reader.sink.end();
    }
  }

  async #readHead(): Promise<void> {
    this.#isPolling = true;
    const restarts = this.#restarts;
    await this.#call(async () => {
      const head = await this.#deps.log.head(this.#deps.tenant);
      if (restarts !== this.#restarts) return;
      if (this.#tail === undefined) {
        this.#tail = new Tail<FilterGroup>(this.#deps.settings, head);
        for (const reader of this.readers) this.advance(reader);
      }
      this.reached(head);
    });
    this.#isPolling = false;
    if (this.#pollsAgain) this.pollHead();
  }

  #remove(reader: Reader): boolean {
    if (reader.state === 'ended') return false;
    this.#leave(reader);
    reader.state = 'ended';
    this.#groups.remove(reader);
    this.readers.delete(reader);
    this.#deps.onEnd(reader);
    return true;
  }

  /** Ends the response; a client that does not read the rest is cut off. */
  #finish({ sink }: Reader): void {
    sink.stallsAfter(this.#deps.settings.stalledMs);
    sink.end();
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
    if (group.live.delete(reader) && group.live.size === 0) this.#tail?.leave(group);
  }

  #beat(reader: Reader, nowMs: number): void {
    while (reader.beatAtMs <= nowMs) reader.beatAtMs += this.#deps.settings.heartbeatMs;
    // It would be queued after data that the client does not read.
    if (reader.sink.isBlocked) return;
    const position = this.#checkedPositionOf(reader);
    if (position !== undefined && position.offset > reader.reportedPosition.offset) {
      reader.sink.write(heartbeat + offsetFrame(position));
      reader.reportedPosition = position;
      return;
    }
    reader.sink.write(heartbeat);
    const offset = this.#positionOf(reader);
    if (position === undefined && offset > reader.reportedPosition.offset)
      void this.#reportPosition(reader, offset);
  }

  /** Returns the position of a reader with the check of its event, if that is in memory. */
  #checkedPositionOf(reader: Reader): Position | undefined {
    const offset = this.#positionOf(reader);
    return this.#positions.find(offset, reader.reportedPosition, this.#tail);
  }

  /** Reads the event at a reader's offset, for its check, and writes the position. */
  async #reportPosition(reader: Reader, offset: Offset): Promise<void> {
    await this.#call(async () => {
      const position = await this.#positions.read(offset, () => this.#tail?.head === offset);
      const hasMoved = reader.state === 'ended' || this.#positionOf(reader) !== offset;
      if (hasMoved || reader.sink.isBlocked || reader.reportedPosition.offset >= offset) return;
      reader.reportedPosition = position;
      if (isSafe(position)) reader.sink.write(offsetFrame(position));
    }, reader);
  }

  #push(tail: Tail<FilterGroup>, events: readonly LogEvent[]): void {
    const gathered = new Set<FilterGroup>();
    const sendAll = (): void => {
      for (const group of gathered) this.#send(group);
      gathered.clear();
    };
    const newest = events.at(-1);
    if (newest !== undefined) this.#positions.appended(newest);
    for (const event of events) {
      if (event.offset <= tail.head) continue;
      if (event.offset > tail.head + 1) {
        sendAll();
        this.#skip(tail, event.offset - 1);
      }
      // A copy: a group that is sent to may leave and join again meanwhile.
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

  /** Writes the gathered events to the live readers; those without room for them fall behind. */
  #send(group: FilterGroup): void {
    const chunk = group.takeChunk();
    if (chunk === undefined) return;
    const { waitingBytesMax } = this.#deps.settings;
    const slow: Reader[] = [];
    for (const reader of group.live) {
      if (reader.sink.waiting + chunk.bytes.length > waitingBytesMax) {
        this.#leave(reader);
        reader.fallBehind(chunk.after);
        slow.push(reader);
      } else {
        reader.sink.write(chunk.bytes);
        reader.reportedPosition = chunk.last;
      }
    }
    // Only after all were written to: a reader that catches up at once is live again.
    for (const reader of slow) this.advance(reader);
  }

  /** Moves the tail to `head`; live readers fall behind and read the log from their positions. */
  #skip(tail: Tail<FilterGroup>, head: Offset): void {
    const before = tail.head;
    for (const group of tail.skipTo(head)) {
      for (const reader of group.live) reader.fallBehind(before);
      group.live.clear();
    }
    for (const reader of this.readers) this.advance(reader);
  }

  /** Reads events that other processes appended, once for all live readers. */
  #catchUp(): void {
    const tail = this.#tail;
    if (this.#isReading || tail === undefined || tail.head >= this.#head) return;
    if (!tail.hasFollowers) return this.#skip(tail, this.#head);
    void this.#readForAll(tail);
  }

  async #readForAll(tail: Tail<FilterGroup>): Promise<void> {
    await this.#call(() => this.#readPages(tail));
    // Of a log that was replaced meanwhile: hints about the present one have waited.
    if (tail !== this.#tail) this.#catchUp();
    for (const reader of this.readers) this.advance(reader);
  }

  async #readPages(tail: Tail<FilterGroup>): Promise<void> {
    const { tenant, log, settings } = this.#deps;
    const { pageEvents: take, pageBytes: bytesMax } = settings;
    this.#isReading = true;
    try {
      while (tail.head < this.#head && tail.hasFollowers) {
        const { head } = tail;
        const page = await log.page(tenant, { after: head, upTo: this.#head, take, bytesMax });
        if (this.#isClosed || tail !== this.#tail) return;
        this.#push(tail, page.events);
        // The oldest may have been pruned.
        if (page.scannedTo > tail.head) this.#skip(tail, page.scannedTo);
        // A log that ends before its head is read again at the next tick, not at once.
        if (tail.head === head) return;
      }
      if (tail.head < this.#head) this.#skip(tail, this.#head);
    } finally {
      // Not later: a hint that arrives after the last look at the head starts the next read.
      this.#isReading = false;
    }
  }

  /** Closes a stalled reader when too much waits for it, in its sink and in the log. */
  async #checkSlow(reader: Reader): Promise<void> {
    const { waitingBytesMax, stalledMs } = this.#deps.settings;
    const { position, group } = reader;
    await this.#call(async () => {
      const waits = await this.#pages.waiting(group, position, this.#tail?.head ?? 0);
      // It has read meanwhile, or has ended.
      if (reader.state !== 'behind' || reader.position !== position) return;
      if (!reader.sink.isBlocked) return;
      if (reader.sink.waiting + waits < waitingBytesMax) return reader.startTimeout(stalledMs);
      this.#remove(reader);
      reader.sink.cut();
      this.#deps.onSlow(reader, position);
    }, reader);
  }

  async #readPage(reader: Reader): Promise<void> {
    const { position: after, group } = reader;
    if (reader.state !== 'ended') {
      await this.#call(async () => {
        const page = await this.#pages.page(group, after);
        if (page.isOvertaken) this.fail(reader, 'cursor_expired');
        else if (reader.state === 'behind') reader.write(page);
      }, reader);
    }
    reader.isReading = false;
    // An empty page is read again at the next tick, not at once.
    if (reader.position > after) this.advance(reader);
  }

  /** Runs store calls for one reader, or for all; a bug ends their pulls. */
  #call(calls: () => Promise<void>, reader?: Reader): Promise<void> {
    return this.#calls.run(calls, (error) => {
      this.#deps.onBug(error);
      const failed = reader === undefined ? this.readers : [reader];
      for (const each of failed) this.fail(each, 'processing_error');
    });
  }
}

/** The filter groups of one tenant that have readers. */
class FilterGroups {
  readonly #groups = new Map<string, FilterGroup>();

  /** Returns the group of these event types, in any order; creates it when there is none. */
  of(types: readonly string[] | undefined): FilterGroup {
    const sorted = types && [...new Set(types)].toSorted();
    const key = sorted?.join(',') ?? '*';
    const group = this.#groups.get(key) ?? new FilterGroup(sorted, key);
    this.#groups.set(key, group);
    return group;
  }

  /** Removes a reader from its group, and the group when it was the last. */
  remove(reader: Reader): void {
    const { group } = reader;
    group.readers.delete(reader);
    if (group.readers.size === 0) this.#groups.delete(group.key);
  }
}
