import { badQuery, type Problem } from './http/problem.ts';

/**
 * Returns the value of the header `Idempotency-Key`: a string in quotes, as the IETF draft of that name writes it
 * (draft-ietf-httpapi-idempotency-key-header section 2.1: RFC 9651 section 3.3.3), or bare. Throws 400 for any
 * other value, and for a header that was sent more than once.
 */
export function idempotencyKeyOf(sent: readonly string[]): string | undefined {
  const [header, ...others] = sent;
  if (header === undefined) return undefined;
  if (others.length > 0) throw badKey('Sent more than once: a request has one key');
  const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(header)?.[1];
  const key = quoted?.replaceAll(/\\(.)/g, '$1') ?? header;
  // What begins, ends or joins the parts of a structured field has no meaning in a bare key.
  if (quoted === undefined && /["\\,; ]/.test(header)) throw badKey(malformed);
  // What a header has beyond ASCII is not the text that its sender meant (RFC 9110 section 5.5).
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) throw badKey('Expected 1 to 255 characters of ASCII');
  return key;
}

const malformed =
  'Expected one key: in quotes with nothing after them, or without quotes, blanks, backslashes, commas and semicolons';

/** Returns 400 for the header. */
export function badKey(reason: string): Problem {
  return badQuery(reason, 'Idempotency-Key', 'Header, id of the one event of the body');
}
