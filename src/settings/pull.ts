import { KIB, MIB } from '../core/units.ts';

/** Constants of clients that read the log as server-sent events; pull/settings.ts documents each. */
export const pullLimits = {
  heartbeatMs: 15_000,
  lifetimeMs: 300_000,
  spreadMs: 30_000,
  /**
   * The kernel reports what a client reads in steps of some 100 KiB, and Node reports the last step
   * up to `stalledMs` late: a client that stops reading is cut off after 5 to 10 s.
   */
  waitingBytesMax: MIB,
  stalledMs: 5_000,
  outageMs: 30_000,
  tailEventsMax: 2_000,
  tailBytesMax: 4 * MIB,
  pageEvents: 500,
  pageBytes: 128 * KIB,
  /** Clients whose right to read was revoked are cut off within 2 s: their rows are at most 1 s old. */
  tickMs: 500,
  pollMs: 5_000,
} as const;
