/**
 * Indexes that SQLite is told to use: without statistics it prefers the key for its first column, and would
 * read all deliveries of a tenant, or of a stream all failures.
 */

import { perDialect } from './dialect.ts';

/** Of the deliveries of a stream that wait for an attempt. */
export const byDue = perDialect({ sqlite: 'indexed by deliveries_due', postgres: '' });

/** Of the deliveries of a stream by their keys. */
export const byOrder = perDialect({ sqlite: 'indexed by deliveries_order', postgres: '' });

/** Of all deliveries of a stream. */
export const byStream = perDialect({ sqlite: 'indexed by deliveries_offset', postgres: '' });

/** Of the deliveries of a tenant in a state. */
export const byState = perDialect({ sqlite: 'indexed by deliveries_waiting', postgres: '' });

/** Of the deliveries of a replay. */
export const byReplay = perDialect({ sqlite: 'indexed by deliveries_replay', postgres: '' });
