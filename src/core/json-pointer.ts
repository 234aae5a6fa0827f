/**
 * Returns the reference tokens of a JSON pointer (RFC 6901 section 3); `undefined` when the text is
 * none. The empty text has no token: it is the whole envelope.
 */
export function tokensOf(pointer: string): readonly string[] | undefined {
  if (pointer === '') return [];
  if (!pointer.startsWith('/') || /~(?![01])/.test(pointer)) return undefined;
  return pointer
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}
