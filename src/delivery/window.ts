import assert from 'node:assert/strict';
import type { Offset } from '../core/types.ts';
import { Deque } from '../log/deque.ts';

/** An event of the log that was taken by a runner and is settled later. */
export interface WindowEntry {
  readonly offset: Offset;
  settled: boolean;
}

/**
 * The events of the log that a stream has taken above its durable cursor. The cursor is the offset
 * just below the oldest event that is not settled, so that it never passes one that is neither
 * settled nor in a row. One window serves one run of the stream.
 */
export class Window<E extends WindowEntry> {
  readonly #start: Offset;
  /** By offset. Entries are removed when the durable cursor has passed them. */
  readonly #entries = new Deque<E>();
  /** Settled entries before the oldest open one. */
  #closed = 0;
  #settled = 0;
  /** Everything up to here was taken or did not match. */
  #scannedTo: Offset;
  #durable: Offset;
  #taken: Offset;

  /** `cursor` is that of the run in the store. */
  constructor(cursor: Offset) {
    this.#start = cursor;
    this.#scannedTo = cursor;
    this.#durable = cursor;
    this.#taken = cursor;
  }

  /** Every matching event up to here is settled. */
  get cursor(): Offset {
    const oldest = this.oldest();
    return oldest === undefined ? this.#scannedTo : oldest.offset - 1;
  }

  /** The cursor that the store has. */
  get durable(): Offset {
    return this.#durable;
  }

  /** The last event that was taken, or the cursor in the store if that is later. */
  get taken(): Offset {
    return Math.max(this.#taken, this.#durable);
  }

  /** Settled events that a new owner would send again: the cursor in the store is below them. */
  get settledAbove(): number {
    return this.#settled;
  }

  /** Events that settled although an older one has not. */
  get settledLater(): number {
    return this.#settled - this.#closed;
  }

  /** Returns the settled events above an offset, in order. */
  settledOffsets(after: Offset): Offset[] {
    const offsets: Offset[] = [];
    for (let index = 0; index < this.#entries.length; index += 1) {
      const entry = this.#entries.at(index);
      if (entry?.settled === true && entry.offset > after) offsets.push(entry.offset);
    }
    return offsets;
  }

  /** The oldest event that is not settled. */
  oldest(): E | undefined {
    return this.#entries.at(this.#closed);
  }

  /** Takes the next event of the log. */
  take(entry: E): void {
    assert(entry.offset > this.#scannedTo, 'events are taken in the order of the log');
    this.#scannedTo = entry.offset;
    this.#taken = entry.offset;
    this.#entries.push(entry);
  }

  /** Notes that no matching event lies between those taken and `offset`. */
  pass(offset: Offset): void {
    if (offset > this.#scannedTo) this.#scannedTo = offset;
  }

  /** Notes that events after {@link taken} are filtered again; returns that offset. */
  rewind(): Offset {
    this.#scannedTo = this.taken;
    return this.#scannedTo;
  }

  /** Marks an event that has ended or has a row. Idempotent; ignores events of a former run. */
  settle(entry: E): void {
    if (entry.settled) return;
    entry.settled = true;
    if (entry.offset <= this.#start) return;
    this.#settled += 1;
    this.#close();
  }

  /** Notes that the store has the cursor. */
  commit(cursor: Offset): void {
    if (cursor <= this.#durable) return;
    this.#durable = cursor;
    for (let entry = this.#entries.at(0); entry !== undefined; entry = this.#entries.at(0)) {
      if (entry.offset > cursor) return;
      assert(entry.settled, 'the cursor does not pass an open event');
      this.#entries.shift();
      this.#closed -= 1;
      this.#settled -= 1;
    }
  }

  /**
   * Returns the window of a new run that begins at `cursor`. It takes over the events above it, so
   * that none is sent twice; those up to it have no effect on the cursor any more.
   */
  reopened(cursor: Offset): Window<E> {
    const next = new Window<E>(cursor);
    for (let index = 0; index < this.#entries.length; index += 1) {
      const entry = this.#entries.at(index);
      if (entry !== undefined && entry.offset > cursor) next.#adopt(entry);
    }
    next.#close();
    return next;
  }

  #adopt(entry: E): void {
    this.take(entry);
    if (entry.settled) this.#settled += 1;
  }

  #close(): void {
    while (this.oldest()?.settled) this.#closed += 1;
  }
}
