import { apiLimits } from './api.ts';

/** Constants of connections that report changes; changes/settings.ts documents each. */
export const changesLimits = {
  everyMs: 1_000,
  repeatMs: apiLimits.recentMs + apiLimits.pagesMs,
  announceMs: 10_000,
  watchedMs: 25_000,
  unheardMs: 5_000,
  // Together they fit into one notification of PostgreSQL, which has less than 8,000 bytes.
  sharedStreamsMax: 100,
  sharedMax: 30,
} as const;
