/**
 * A number that is kept as its text, because a double cannot hold it: `JSON.stringify` writes the
 * text (ECMA-262, JSON.rawJSON). The type definitions of TypeScript do not know it yet.
 */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

export { isRawJSON, rawJSON };
