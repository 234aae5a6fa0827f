/**
 * Holds a number as its text where a double cannot represent it; `JSON.stringify` writes the text
 * (ECMA-262, JSON.rawJSON). TypeScript has no type definitions for it yet.
 */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

export { isRawJSON, rawJSON };
