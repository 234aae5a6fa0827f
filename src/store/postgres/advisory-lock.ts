import type { Queries } from './database.ts';

/**
 * Waits until no other transaction holds the lock of this `topic`, and holds it until the
 * transaction ends. For rules about rows that do not exist yet, which cannot be locked.
 */
export async function advisoryLock(tx: Queries, topic: string): Promise<void> {
  await tx.get`select pg_advisory_xact_lock(hashtextextended(${`leat ${topic}`}, 0))`;
}
