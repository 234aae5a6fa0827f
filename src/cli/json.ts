/** JSON of the API for programs: numbers keep their digits, and no control character is raw. */

/**
 * The value of a JSON text. A number that a double cannot hold keeps its text, which
 * {@link writeJson} writes again. Throws `SyntaxError`.
 */
export function readJson(text: string): unknown {
  return parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? rawJSON(source)
      : value,
  );
}

/** A value as JSON in one line; {@link indented} with line breaks, for people. */
export function writeJson(value: unknown): string {
  return terminalSafe(JSON.stringify(value));
}

/** A value as JSON over several lines. */
export function indented(value: unknown): string {
  return terminalSafe(JSON.stringify(value, undefined, 2));
}

/**
 * JSON with the characters escaped that a terminal could obey (DEL, C1 controls) or that turn the
 * order of what is read (bidirectional formats): the same JSON, harmless to look at.
 */
export function terminalSafe(json: string): string {
  // White space of the layout is raw, that of texts never (RFC 8259 sections 2 and 7).
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

/** ECMA-262 JSON.rawJSON and the source of a reviver, which TypeScript does not know yet. */
const { rawJSON, parse } = JSON as unknown as {
  rawJSON(text: string): object;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
};
