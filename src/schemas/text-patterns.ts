/**
 * The patterns of texts. Clients compile them from docs/openapi.json with their own engines, so they use
 * what ECMAScript, Python, Go and Rust read alike: no look-around, no Unicode properties, no `\u` escapes.
 */

/** The control characters (C0, DEL and C1, Unicode category Cc), for a class in brackets. */
const controls = '\\x00-\\x1F\\x7F-\\x9F';

/** A text without control characters, or an empty one. */
export const printable = `^[^${controls}]*$`;

/** The same without a colon, which ends the user name of Basic authorization (RFC 7617 section 2). */
export const printableWithoutColon = `^[^:${controls}]*$`;

/** A text without control characters and white space, or an empty one. */
export const printableWithoutBlanks = `^[^\\s${controls}]*$`;

/** A text without control characters that neither begins nor ends with white space. */
export const printableWithoutOuterBlanks = `^[^\\s${controls}](?:[^${controls}]*[^\\s${controls}])?$`;

/** A text that neither begins nor ends with white space, or an empty one. */
export const withoutOuterBlanks = '^(?:\\S(?:[\\s\\S]*\\S)?)?$';

/**
 * An http or https URL, or a reference without a scheme, such as a file name: no other scheme, and no
 * colon before the first `/`, `?` or `#` (RFC 3986 section 4.2).
 */
export const webReference =
  `^(?:[hH][tT]{2}[pP][sS]?://[^\\s${controls}]+` +
  `|[^\\s:/?#${controls}][^:/?#${controls}]*(?:[/?#][^${controls}]*)?|[/?#][^${controls}]*)$`;
