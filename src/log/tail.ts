import assert from 'node:assert/strict';
import type { LogEvent, Offset } from '../core/types.ts';
import { Deque } from './deque.ts';

export interface TailLimits {
  readonly tailEventsMax: number;
  /** Characters of bodies. */
  readonly tailBytesMax: number;
}

/** The matching events up to `scannedTo`. */
export interface TailPage {
  readonly events: readonly LogEvent[];
  readonly scannedTo: Offset;
}

/**
 * The newest events of one tenant's log in memory, bounded, and its followers by event type: an
 * event costs nothing to followers that it does not match. Followers are at the head of the log,
 * whatever their types; they leave when they cannot keep up.
 */
export class Tail<Follower> {
  readonly #limits: TailLimits;
  /** Without gaps; the last one has the offset `head`. */
  readonly #events = new Deque<LogEvent>();
  #bytes = 0;
  #head: Offset;
  /** The head at the last {@link age}. */
  #agedTo: Offset;
  readonly #followers = new Map<Follower, readonly string[] | undefined>();
  readonly #byType = new Map<string, Set<Follower>>();
  /** Followers of every type. */
  readonly #ofEveryType = new Set<Follower>();

  constructor(limits: TailLimits, head: Offset) {
    this.#limits = limits;
    this.#head = head;
    this.#agedTo = head;
  }

  /** The last offset of the log that this node knows of. */
  get head(): Offset {
    return this.#head;
  }

  /** Whether there are followers. */
  get hasFollowers(): boolean {
    return this.#followers.size > 0;
  }

  /** All followers. */
  get followers(): Iterable<Follower> {
    return this.#followers.keys();
  }

  /** Characters of bodies in memory. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds the next event and returns the followers that it matches. */
  push(event: LogEvent): Iterable<Follower> {
    assert(event.offset === this.#head + 1, 'the tail has no gaps');
    this.#head = event.offset;
    this.#events.push(event);
    this.#bytes += event.body.length;
    while (this.#isFull()) this.#dropOldest();
    const waiting = this.#byType.get(event.type) ?? [];
    return this.#ofEveryType.size === 0 ? waiting : [...this.#ofEveryType, ...waiting];
  }

  #isFull(): boolean {
    const { tailEventsMax, tailBytesMax } = this.#limits;
    return this.#events.length > tailEventsMax || this.#bytes > tailBytesMax;
  }

  #dropOldest(): void {
    this.#bytes -= this.#events.shift()?.body.length ?? 0;
  }

  /**
   * Drops the events that were here at the last call, so that an idle log takes no memory. Returns
   * whether the head has moved since then.
   */
  age(): boolean {
    while ((this.#events.at(0)?.offset ?? Infinity) <= this.#agedTo) this.#dropOldest();
    const hasMoved = this.#head !== this.#agedTo;
    this.#agedTo = this.#head;
    return hasMoved;
  }

  /**
   * Drops all events and continues after `head`, as some may have been missed. Returns the
   * followers, which it removes: they have to read from the store at their positions.
   */
  skipTo(head: Offset): Follower[] {
    const followers = [...this.#followers.keys()];
    this.#followers.clear();
    this.#byType.clear();
    this.#ofEveryType.clear();
    this.#events.clear();
    this.#bytes = 0;
    this.#head = Math.max(head, this.#head);
    return followers;
  }

  /** Returns the first event in memory after `offset`. */
  next(offset: Offset): LogEvent | undefined {
    const first = this.#head - this.#events.length + 1;
    return this.#events.at(Math.max(0, offset + 1 - first));
  }

  /** Returns whether every event after `offset` is in memory. */
  covers(offset: Offset): boolean {
    return offset >= this.#head - this.#events.length;
  }

  /**
   * Returns the events after `after`, which must be covered, up to `upTo`, of the given types (all
   * when absent), until `bytesMax` characters of bodies are reached.
   */
  read(
    after: Offset,
    upTo: Offset | undefined,
    types: readonly string[] | undefined,
    bytesMax: number,
  ): TailPage {
    assert(this.covers(after), 'the events to read are in memory');
    const first = this.#head - this.#events.length + 1;
    const end = Math.min(upTo ?? this.#head, this.#head);
    const events: LogEvent[] = [];
    let bytes = 0;
    for (let offset = after + 1; offset <= end; offset += 1) {
      const event = this.#events.at(offset - first);
      if (event === undefined || types?.includes(event.type) === false) continue;
      if (bytes >= bytesMax) return { events, scannedTo: offset - 1 };
      bytes += event.body.length;
      events.push(event);
    }
    return { events, scannedTo: Math.max(after, end) };
  }

  /** Adds a follower of these types, of all when absent. */
  join(follower: Follower, types: readonly string[] | undefined): void {
    this.leave(follower);
    this.#followers.set(follower, types);
    if (types === undefined) {
      this.#ofEveryType.add(follower);
      return;
    }
    for (const type of types) {
      const waiting = this.#byType.get(type);
      if (waiting === undefined) this.#byType.set(type, new Set([follower]));
      else waiting.add(follower);
    }
  }

  leave(follower: Follower): void {
    for (const type of this.#followers.get(follower) ?? []) {
      const waiting = this.#byType.get(type);
      waiting?.delete(follower);
      if (waiting?.size === 0) this.#byType.delete(type);
    }
    this.#ofEveryType.delete(follower);
    this.#followers.delete(follower);
  }
}
