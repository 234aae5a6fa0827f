/** Limits and intervals of pulls; the values are in `settings/pull.ts`. */
export interface PullSettings {
  /** LEAT_SSE_MAX_CONNECTIONS: open pulls of a tenant on this node; one client has at most half. */
  readonly connectionsMax: number;
  /** LEAT_EVENT_RETENTION_DAYS: a position before older events is rejected even if they still exist. */
  readonly eventRetentionMs: number;
  /** From one heartbeat to the next. */
  readonly heartbeatMs: number;
  /** A healthy connection ends after this time at the latest, and up to `spreadMs` earlier. */
  readonly lifetimeMs: number;
  readonly spreadMs: number;
  /** Bytes that may wait for a client that does not read, in its sink and in the log. */
  readonly waitingBytesMax: number;
  /** A client is stalled when nothing was sent to it for this long. */
  readonly stalledMs: number;
  /** Pulls end with an error after a store outage of this length. */
  readonly outageMs: number;
  /** Events in memory per tenant that has readers, by count and by characters of bodies. */
  readonly tailEventsMax: number;
  readonly tailBytesMax: number;
  /** Events per page, by count and by characters of bodies. */
  readonly pageEvents: number;
  readonly pageBytes: number;
  /** How often heartbeats, lifetimes and tokens of all readers are checked. */
  readonly tickMs: number;
  /** How often the head of each log is read: a hint is best effort. */
  readonly pollMs: number;
}
