import type { Queries } from './database.ts';

/**
 * Waits until nobody else is at this `topic`, and keeps others waiting until the transaction ends:
 * for what depends on rows that are not there, which nobody can lock.
 */
export async function advisoryLock(tx: Queries, topic: string): Promise<void> {
  await tx.get`select pg_advisory_xact_lock(hashtextextended(${`leat ${topic}`}, 0))`;
}
