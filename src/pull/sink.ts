/** The connection to one client, as the pull writes to it. */
export interface Sink {
  /** Bytes that were written and have not left yet. */
  readonly waiting: number;
  /** Whether so much waits that nothing should be added before {@link SinkEvents.drained}. */
  readonly isBlocked: boolean;
  write(chunk: string | Uint8Array): void;
  /** {@link SinkEvents.stalled} is called when nothing moves for so long; absent: for the usual. */
  stallsAfter(ms: number | undefined): void;
  /** Ends the answer after what waits. */
  end(): void;
  /** Ends the connection at once. */
  cut(): void;
}

/** What a connection tells; nothing follows `gone`. */
export interface SinkEvents {
  /** It takes more. */
  drained(): void;
  /** Something waits, and nothing of it has moved for a long time. */
  stalled(): void;
  /** It has ended, whoever ended it. */
  gone(): void;
}
