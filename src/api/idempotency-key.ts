import { badQuery, type Problem } from './http/problem.ts';

/**
 * Returns the value of the header `Idempotency-Key`: as a quoted string, as the IETF draft of that name writes it, or
 * bare. Throws 400 for one that cannot be the id of an event.
 */
export function idempotencyKeyOf(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(header)?.[1];
  const key = quoted === undefined ? header : quoted.replaceAll(/\\(.)/g, '$1');
  // What a header has beyond ASCII is not the text that its sender meant (RFC 9110 section 5.5).
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) throw badKey('Expected 1 to 255 characters of ASCII');
  return key;
}

/** Returns 400 for the header. */
export function badKey(reason: string): Problem {
  return badQuery(reason, 'Idempotency-Key', 'Header, id of the one event of the body');
}
