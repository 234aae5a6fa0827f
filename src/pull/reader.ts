import type { Position } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import type { Audience } from './audience.ts';
import type { Sink } from './sink.ts';

/** Whether the token of a reader still holds. */
export interface Permit {
  /** Readers with the same token are judged together. */
  readonly token: string;
  /** Judges it as of now. Rejects with `StoreUnavailable` when that cannot be found out. */
  holds(): boolean | Promise<boolean>;
}

/** What a pull was opened with. */
export interface ReaderFacts {
  readonly client: string;
  /** Before the first event that it gets. */
  readonly position: Position;
  readonly permit: Permit;
}

/** Instants in elapsed milliseconds. */
export interface ReaderTimes {
  readonly beatAtMs: number;
  readonly endsAtMs: number;
}

/** One open pull. A class, as there may be thousands; the hub moves it. */
export class Reader {
  readonly client: string;
  readonly permit: Permit;
  readonly audience: Audience;
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
  told: Position;
  /** Whether a page is being read for it, or will be. */
  isReading = false;
  /** Whether {@link Sink.stallsAfter} was set because the client takes nothing. */
  isWatched = false;

  constructor(facts: ReaderFacts, times: ReaderTimes, audience: Audience, sink: Sink) {
    this.client = facts.client;
    this.permit = facts.permit;
    this.position = facts.position.offset;
    this.told = facts.position;
    this.endsAtMs = times.endsAtMs;
    this.beatAtMs = times.beatAtMs;
    this.audience = audience;
    this.sink = sink;
  }
}
