/**
 * Parses JSON. A number that a double cannot represent keeps its text, which {@link writeJson} writes
 * again. Throws `SyntaxError`.
 */
export function readJson(text: string): unknown {
  return parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? rawJSON(source)
      : value,
  );
}

/** Returns a value as JSON in one line, safe for a terminal. */
export function writeJson(value: unknown): string {
  return terminalSafe(JSON.stringify(value));
}

/** Returns a value as indented JSON, safe for a terminal. */
export function indented(value: unknown): string {
  return terminalSafe(JSON.stringify(value, undefined, 2));
}

/**
 * Escapes the characters of a JSON text that a terminal could obey (DEL, C1 controls) or that change
 * the order of the text (bidirectional formats); the value stays the same.
 */
export function terminalSafe(json: string): string {
  // Raw line breaks and tabs are layout; within strings they are escaped (RFC 8259, sections 2 and 7).
  return json
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) =>
      character === '\n' || character === '\t' ? character : escaped(character),
    );
}

function escaped(character: string): string {
  return Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`,
  ).join('');
}

/** JSON.rawJSON and the reviver's source (ECMA-262), for which TypeScript has no types yet. */
const { rawJSON, parse } = JSON as unknown as {
  rawJSON(text: string): object;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
};
