/** Intervals and bounds of the recorder; the values are in `settings/stats.ts`. */
export interface StatsSettings {
  /** From one write to the next. */
  readonly everyMs: number;
  /** Minutes that could not be written are dropped after this time. */
  readonly unwrittenMs: number;
  /** Rows of one write. */
  readonly rowsMax: number;
}
