/** The connection to one client. */
export interface Sink {
  /** Bytes that were written and are not sent yet. */
  readonly waiting: number;
  /** Whether nothing should be written before {@link SinkEvents.drained}. */
  readonly isBlocked: boolean;
  write(chunk: string | Uint8Array): void;
  /** Sets the timeout of {@link SinkEvents.stalled}; `undefined` restores the default. */
  stallsAfter(ms: number | undefined): void;
  /** Ends the response after what was written. */
  end(): void;
  /** Closes the connection at once. */
  cut(): void;
}

/** Events of a connection; none follows `gone`. */
export interface SinkEvents {
  /** It accepts more. */
  drained(): void;
  /** Something is waiting, and nothing was sent until the timeout. */
  stalled(): void;
  /** It is closed, by either side. */
  gone(): void;
}
