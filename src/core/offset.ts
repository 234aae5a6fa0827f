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
  const millions = Math.floor(offset / 1e6);
  const decimal = sixDecimals(millions) + sixDecimals(offset - millions * 1e6);
  if (check === undefined) return decimal;
  const dotAndByte = base64(dotCode, hexCode(check >>> 28), hexCode(check >>> 24));
  return decimal + dotAndByte + threeHexDigits(check >>> 12) + threeHexDigits(check);
}

function sixDecimals(value: number): string {
  const thousands = Math.floor(value / 1000);
  return threeDecimals(thousands) + threeDecimals(value - thousands * 1000);
}

function threeDecimals(value: number): string {
  const tens = Math.floor(value / 10);
  const hundreds = Math.floor(value / 100);
  return base64(zeroCode + hundreds, zeroCode + tens - hundreds * 10, zeroCode + value - tens * 10);
}

function threeHexDigits(value: number): string {
  return base64(hexCode(value >>> 8), hexCode(value >>> 4), hexCode(value));
}

const zeroCode = 0x30;
const dotCode = 0x2e;

/** Returns the character code of the lowest hexadecimal digit. */
function hexCode(value: number): number {
  const digit = value & 0xf;
  return digit < 10 ? zeroCode + digit : 0x57 + digit;
}

/** Encodes three characters. With `btoa` an offset takes a microsecond, for each published event. */
function base64(first: number, second: number, third: number): string {
  const bits = (first << 16) | (second << 8) | third;
  return (pairs[bits >>> 12] ?? '') + (pairs[bits & 0xfff] ?? '');
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The two characters of every number of 12 bits. */
const pairs = Array.from(
  { length: 64 * 64 },
  (_, value) => alphabet.charAt(value >>> 6) + alphabet.charAt(value & 0x3f),
);

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
