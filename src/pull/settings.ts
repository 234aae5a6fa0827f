/** Every number the pull goes by; the values are in `settings/pull.ts`. */
export interface PullSettings {
  /** LEAT_SSE_MAX_CONNECTIONS: open pulls of a tenant on this node; one client has half of them. */
  readonly connectionsMax: number;
  /** LEAT_EVENT_RETENTION_DAYS: a position before older events is gone, wherever they still are. */
  readonly eventRetentionMs: number;
  /** From one sign of life to the next. */
  readonly heartbeatMs: number;
  /** A healthy connection ends after this time at the latest, and up to `spreadMs` earlier. */
  readonly lifetimeMs: number;
  readonly spreadMs: number;
  /** What may wait for a client that does not read, in bytes: written, or still in the log. */
  readonly waitingBytesMax: number;
  /** A client does not read when nothing has moved for so long. */
  readonly stalledMs: number;
  /** While the store fails for so long, readers are told and sent away. */
  readonly outageMs: number;
  /** Events in memory per tenant that has readers, by count and by characters of bodies. */
  readonly tailEventsMax: number;
  readonly tailBytesMax: number;
  /** Events read at once for one reader, by count and by characters of bodies. */
  readonly pageEvents: number;
  readonly pageBytes: number;
  /** How often the times of all readers are looked at, and whether their tokens still hold. */
  readonly tickMs: number;
  /** How often the head of a log is looked at: the backstop of hints that got lost. */
  readonly pollMs: number;
}
