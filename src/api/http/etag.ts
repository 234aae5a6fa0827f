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
