import { checkOf, type Position } from '../core/offset.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import type { AccessCheck } from './access-checks.ts';
import type { ConnectionTimes } from './connection-times.ts';
import type { Page } from './page.ts';
import type { Sink } from './sink.ts';

/** Client and start of a pull. */
export interface ReaderOptions {
  readonly client: string;
  /** The position before the first event that it receives. */
  readonly position: Position;
  readonly access: AccessCheck;
}

/** One open pull; its hub changes the state. A class, as there may be thousands. */
export class Reader {
  readonly client: string;
  readonly access: AccessCheck;
  readonly group: FilterGroup;
  readonly sink: Sink;
  readonly endsAtMs: number;
  /** When the next heartbeat is due. */
  beatAtMs: number;
  /**
   * `behind`: pages are read for it, from `position` on. `live`: it is at the end of the log and
   * receives new events; its position is the head of the log.
   */
  state: 'behind' | 'live' | 'ended' = 'behind';
  /** Every matching event up to this offset was written. */
  position: Offset;
  /** The last position that was sent to the client, or its start. */
  reportedPosition: Position;
  /** Whether a page is being read for it, or will be. */
  isReading = false;
  /** Whether the timeout of a client that does not read is running. */
  isTimed = false;

  constructor(options: ReaderOptions, times: ConnectionTimes, group: FilterGroup, sink: Sink) {
    this.client = options.client;
    this.access = options.access;
    this.position = options.position.offset;
    this.reportedPosition = options.position;
    this.endsAtMs = times.endsAtMs;
    this.beatAtMs = times.beatAtMs;
    this.group = group;
    this.sink = sink;
  }

  /** Writes a page and moves the position after it. */
  write({ bytes, last, scannedTo }: Page): void {
    if (last !== undefined) {
      this.sink.write(bytes);
      this.reportedPosition = last;
    }
    this.position = Math.max(this.position, scannedTo);
  }

  /** Leaves the end of the log: pages are read for it from this offset on. */
  fallBehind(position: Offset): void {
    this.state = 'behind';
    this.position = position;
  }

  /** Starts the timeout of a client that does not read, unless it is running. */
  startTimeout(stalledMs: number): void {
    if (this.isTimed) return;
    this.isTimed = true;
    this.sink.stallsAfter(stalledMs);
  }

  /** Stops that timeout. */
  stopTimeout(): void {
    this.isTimed = false;
    this.sink.stallsAfter(undefined);
  }
}

/** Gathered events as bytes for all live readers of a filter group. */
export interface Chunk {
  readonly bytes: Uint8Array;
  /** Every matching event up to this offset was in an earlier chunk. */
  readonly after: Offset;
  /** The last event of the chunk. */
  readonly last: Position;
}

/** Characters of frames that complete a chunk: a reader without room reads the rest from the log. */
const chunkCharactersMax = 65_536;

/**
 * The readers of a tenant with the same event types. New events are encoded once for all live readers
 * of the group.
 */
export class FilterGroup {
  /** Sorted; absent for every type. */
  readonly types: readonly string[] | undefined;
  /** Equal for equal types alone. */
  readonly key: string;
  /** Live or not: a group without readers is removed. */
  readonly readers = new Set<Reader>();
  readonly live = new Set<Reader>();
  #frames: string[] = [];
  #characters = 0;
  #after: Offset = 0;
  #last: Pick<LogEvent, 'offset' | 'id'> = { offset: 0, id: '' };

  constructor(types: readonly string[] | undefined, key: string) {
    this.types = types;
    this.key = key;
  }

  /** Adds an event to the next chunk. Returns whether the chunk is complete. */
  gather(event: Pick<LogEvent, 'offset' | 'id'>, frame: string): boolean {
    if (this.#frames.length === 0) this.#after = event.offset - 1;
    this.#frames.push(frame);
    this.#characters += frame.length;
    this.#last = event;
    return this.#characters >= chunkCharactersMax;
  }

  /** Returns the gathered chunk and starts the next one; `undefined` when it is empty. */
  takeChunk(): Chunk | undefined {
    if (this.#frames.length === 0) return undefined;
    const bytes = Buffer.from(this.#frames.join(''));
    this.#frames = [];
    this.#characters = 0;
    const { offset, id } = this.#last;
    return { bytes, after: this.#after, last: { offset, check: checkOf(id) } };
  }
}
