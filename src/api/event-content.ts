import { createHash } from 'node:crypto';
import { isRawJSON } from '../core/verbatim.ts';

/**
 * Returns 32 hexadecimal digits that are the same for events with the same type and the same data: the order of
 * members and blanks do not count, and numbers are compared by their text. `data` is as {@link JSON.parse} returns it,
 * or with numbers as {@link JSON.rawJSON}.
 */
export function contentOf(type: string, data: unknown): string {
  const text = `${type}\n${JSON.stringify(data, sorted)}`;
  return createHash('sha256').update(text).digest('hex').slice(0, digits);
}

const digits = 32;

/** Replaces an object by one that has its members in the order of their names. */
function sorted(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isRawJSON(value)) {
    return value;
  }
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members);
}
