/**
 * Returns the names that lead to a field of an event, from its envelope: of a path with dots, such as
 * `data.object.id`, or of a JSON Pointer (RFC 6901), which begins with `/` and can name every field.
 * `undefined` when the text is neither. The empty text has no name: it is the whole envelope.
 */
export function fieldNames(path: string): readonly string[] | undefined {
  if (path === '') return [];
  if (path.startsWith('/')) return pointerNames(path);
  const names = path.split('.');
  return names.includes('') ? undefined : names;
}

/** Returns the names in a JSON Pointer (RFC 6901 section 3); `undefined` for an invalid one. */
export function pointerNames(pointer: string): readonly string[] | undefined {
  if (/~(?![01])/.test(pointer)) return undefined;
  return pointer
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/**
 * Returns whether a path with dots begins with a word, as every attribute of an envelope is one. `#/data/id`,
 * `data/id` and `data[0].id` are neither such a path nor a JSON Pointer. A pointer can name every field.
 */
export function beginsWithWord(path: string): boolean {
  return path.startsWith('/') || /^\w+(?:\.|$)/.test(path);
}
