/** How statistics of deliveries are written; stats/settings.ts documents each. */
export const statsLimits = {
  everyMs: 10_000,
  unwrittenMs: 300_000,
  /** Some milliseconds of SQLite. */
  rowsMax: 100,
} as const;
