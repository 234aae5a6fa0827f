import { checkOf, type Position } from '../core/offset.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import type { Sink } from './sink.ts';

/** Whether the token that a request came with still permits what it does. */
export interface AccessCheck {
  /** The header that carries it; equal for equal tokens, which are checked together. */
  readonly token: string;
  /** Checks it as of now. Rejects with `StoreUnavailable` when that cannot be found out. */
  stillValid(): boolean | Promise<boolean>;
}

/** What a pull was opened with. */
export interface ReaderFacts {
  readonly client: string;
  /** Before the first event that it gets. */
  readonly position: Position;
  readonly access: AccessCheck;
}

/** Instants in elapsed milliseconds. */
export interface ReaderTimes {
  readonly beatAtMs: number;
  readonly endsAtMs: number;
}

/** One open pull. A class, as there may be thousands; the hub moves it. */
export class Reader {
  readonly client: string;
  readonly access: AccessCheck;
  readonly group: FilterGroup;
  readonly sink: Sink;
  readonly endsAtMs: number;
  /** When the next heartbeat is due. */
  beatAtMs: number;
  /**
   * `behind`: it reads by itself, from `position` on. `live`: it stands at the end of the log and is
   * handed what joins it; its position is that of the log.
   */
  state: 'behind' | 'live' | 'ended' = 'behind';
  /** Every event it wants up to here was written. */
  position: Offset;
  /** The last position that the client was told, or began with. */
  reportedPosition: Position;
  /** Whether a page is being read for it, or will be. */
  isReading = false;
  /** Whether {@link Sink.stallsAfter} was set because the client takes nothing. */
  isWatched = false;

  constructor(facts: ReaderFacts, times: ReaderTimes, group: FilterGroup, sink: Sink) {
    this.client = facts.client;
    this.access = facts.access;
    this.position = facts.position.offset;
    this.reportedPosition = facts.position;
    this.endsAtMs = times.endsAtMs;
    this.beatAtMs = times.beatAtMs;
    this.group = group;
    this.sink = sink;
  }
}

/** A text for all live readers of an audience, and where it stands in the log. */
export interface Chunk {
  readonly bytes: Uint8Array;
  /** Every event the audience wants up to here was in a piece before. */
  readonly after: Offset;
  /** The last event of the piece. */
  readonly last: Position;
}

/** Characters of frames that make a piece: a reader that is full leaves the rest in the log. */
const chunkCharactersMax = 65_536;

/**
 * The readers of a tenant that want the same types. What joins the log is made into bytes once for
 * all of them that are live, however many they are.
 */
export class FilterGroup {
  /** As the filter names them; absent for every type. */
  readonly types: readonly string[] | undefined;
  /** All of them, so that an audience without any can be forgotten. */
  readonly readers = new Set<Reader>();
  readonly live = new Set<Reader>();
  #frames: string[] = [];
  #characters = 0;
  #after: Offset = 0;
  #last: Pick<LogEvent, 'offset' | 'id'> = { offset: 0, id: '' };

  constructor(types: readonly string[] | undefined) {
    this.types = types;
  }

  /** Adds an event to the next piece; answers whether that should go out before another is added. */
  gather(event: Pick<LogEvent, 'offset' | 'id'>, frame: string): boolean {
    if (this.#frames.length === 0) this.#after = event.offset - 1;
    this.#frames.push(frame);
    this.#characters += frame.length;
    this.#last = event;
    return this.#characters >= chunkCharactersMax;
  }

  /** The piece that was gathered; `undefined` when that is nothing. */
  takeChunk(): Chunk | undefined {
    if (this.#frames.length === 0) return undefined;
    const bytes = Buffer.from(this.#frames.join(''));
    this.#frames = [];
    this.#characters = 0;
    const { offset, id } = this.#last;
    return { bytes, after: this.#after, last: { offset, check: checkOf(id) } };
  }
}
