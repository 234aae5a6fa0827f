import type { Offset } from './types.ts';

/** A position in a log as a client names it. */
export interface Position {
  readonly offset: Offset;
  /** {@link checkOf} of the event at the offset; absent where no event confirms the position. */
  readonly check?: number | undefined;
}

/**
 * Returns whether a client may receive the position: a later request can check that it belongs to the
 * same log. Offset 0 belongs to every log.
 */
export function isSafe({ offset, check }: Position): boolean {
  return check !== undefined || offset === 0;
}

const digits = 12;
const checkDigits = 8;

/**
 * Returns an offset as clients see it, opaque to them: the base64 of its 12 decimal digits
 * (`MDAwMDAwMDAwMDQy` for 42), or of these, a dot and the 8 hexadecimal digits of {@link checkOf}. It
 * needs no escaping: neither `+`, `/` nor padding can occur.
 */
export function formatOffset(offset: Offset, eventId?: string): string {
  return formatPosition({ offset, check: eventId === undefined ? undefined : checkOf(eventId) });
}

/** Returns a position as clients see it; see {@link formatOffset}. */
export function formatPosition({ offset, check }: Position): string {
  const decimal = String(offset).padStart(digits, '0');
  if (check === undefined) return btoa(decimal);
  return btoa(`${decimal}.${check.toString(16).padStart(checkDigits, '0')}`);
}

/** Parses a text of {@link formatOffset}; `undefined` for anything else. */
export function parseOffset(text: string): Position | undefined {
  if (!/^(?:[A-Za-z0-9]{16}|[A-Za-z0-9]{28})$/.test(text)) return undefined;
  const found = /^(?<decimal>[0-9]{12})(?:\.(?<hex>[0-9a-f]{8}))?$/.exec(atob(text))?.groups;
  if (found === undefined) return undefined;
  const { decimal, hex } = found;
  return { offset: Number(decimal), ...(hex !== undefined && { check: parseInt(hex, 16) }) };
}

/**
 * Returns a 32-bit checksum of an event id. It distinguishes two events at the same offset, which
 * happens after the log was restored from a backup. FNV-1a with the final mixing step of MurmurHash3,
 * because ids made at one instant share their first characters.
 */
export function checkOf(eventId: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < eventId.length; index += 1) {
    hash = Math.imul(hash ^ eventId.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
