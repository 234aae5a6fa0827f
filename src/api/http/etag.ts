import { createHash } from 'node:crypto';
import { yieldToEventLoop } from '../../core/slices.ts';

/**
 * Returns whether `If-None-Match` names a representation that exists and has this ETag, so that the
 * response is 304. Compares weakly (RFC 9110 sections 8.8.3.2 and 13.1.2).
 */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.matchAll(entityTags).some(([, tag]) => tag === etag);
}

/** RFC 9110 section 8.8.3. */
const entityTags = /(?:W\/)?("[\x21\x23-\x7E\x80-\xFF]*")/g;

/**
 * Returns the opaque tag of a JSON body over everything but its field `as_of`, which is another one
 * each time that the same data are read. The ETag is a weak one for that reason.
 */
export async function tagOf(json: string | readonly Buffer[], asOf: unknown): Promise<string> {
  const hash = createHash('sha256');
  const field = `"as_of":${JSON.stringify(asOf)}`;
  for (const piece of typeof json === 'string' ? [Buffer.from(json)] : json) {
    // What a list has in a field of that name comes before.
    const at = asOf === undefined ? -1 : piece.lastIndexOf(field);
    if (at === -1) hash.update(piece);
    else hash.update(piece.subarray(0, at)).update(piece.subarray(at + field.length));
    if (typeof json !== 'string') await yieldToEventLoop();
  }
  return `"${hash.digest('base64url')}"`;
}
