/**
 * Characters without a shape of their own that change how others are shown: controls, marks of direction
 * (Unicode Standard Annex 9), separators and spaces of no width. Joiners stay: letters and emoji need them.
 */
const invisible =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Returns a text in which such characters are written as `\u202e`, so that it reads as it is. */
export function plainText(text: string): string {
  return text.replaceAll(
    invisible,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Returns a value as JSON text in the same way: it is still JSON of the same value. */
export function jsonText(value: unknown, indent = 2): string {
  return plainText(JSON.stringify(value, undefined, indent) ?? '');
}

/** Returns the beginning of a value on one line. */
export function preview(value: unknown, length = 160): string {
  const text = jsonText(value, 0);
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}
