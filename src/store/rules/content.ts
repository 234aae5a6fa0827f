import { createHash } from 'node:crypto';
import { StoreEventIdInUse } from '../../core/errors.ts';
import type { NewEvent } from '../../core/types.ts';

/**
 * Returns the hash of an event's content that the log keeps, 8 bytes. It is keyed, so that nobody can compute two
 * contents with one hash. PostgreSQL computes it in `leat_append`.
 */
export function contentHash(key: Uint8Array, content: string): Uint8Array {
  return createHash('sha256').update(key).update(content, 'hex').digest().subarray(0, 8);
}

/** Throws `StoreEventIdInUse` for an event that has the id of an earlier one, and other content. */
export function requireSameContent(events: readonly NewEvent[]): void {
  if (events.length < 2) return;
  const known = new Map<string, string>();
  for (const [index, { id, content }] of events.entries()) {
    if (content === undefined) continue;
    const first = known.get(id);
    if (first === undefined) known.set(id, content);
    else if (first !== content) throw new StoreEventIdInUse(index);
  }
}
