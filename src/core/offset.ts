import type { Offset } from './types.ts';

/** A place in a log as a client names it. */
export interface Position {
  readonly offset: Offset;
  /** {@link checkOf} of the event at the offset; absent where no event stands for the place. */
  readonly check?: number | undefined;
}

/**
 * Whether a client may be given the position: a later look at the log can tell whether it is one of
 * that log. Offset 0 is one of every log.
 */
export function isSafe({ offset, check }: Position): boolean {
  return check !== undefined || offset === 0;
}

const digits = 12;
const checkDigits = 8;

/**
 * An offset as clients see it: the base64 of its 12 decimal digits, `MDAwMDAwMDAwMDQy` for 42, and
 * after a dot of 8 hexadecimal digits that check its event. It is opaque to them; its letters and
 * digits need no escaping anywhere, as neither `+`, `/` nor padding can come out.
 */
export function formatOffset(offset: Offset, eventId?: string): string {
  return formatPosition({ offset, check: eventId === undefined ? undefined : checkOf(eventId) });
}

/** The same for a position. */
export function formatPosition({ offset, check }: Position): string {
  const decimal = String(offset).padStart(digits, '0');
  if (check === undefined) return btoa(decimal);
  return btoa(`${decimal}.${check.toString(16).padStart(checkDigits, '0')}`);
}

/** The position of such a text; `undefined` for anything that {@link formatOffset} does not make. */
export function parseOffset(text: string): Position | undefined {
  if (!/^(?:[A-Za-z0-9]{16}|[A-Za-z0-9]{28})$/.test(text)) return undefined;
  const found = /^(?<decimal>[0-9]{12})(?:\.(?<hex>[0-9a-f]{8}))?$/.exec(atob(text))?.groups;
  if (found === undefined) return undefined;
  const { decimal, hex } = found;
  return { offset: Number(decimal), ...(hex !== undefined && { check: parseInt(hex, 16) }) };
}

/**
 * 32 bits that tell the event of an offset from another one at the same offset, as there may be after
 * the log was restored: FNV-1a of the id with the last mixing step of MurmurHash3, as ids of one
 * instant share their beginning.
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
