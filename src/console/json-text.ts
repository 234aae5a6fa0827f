import { parseKeepingNumbers } from './request.ts';

/** An object that was read from a text, or what is wrong with the text and where. */
export type JsonReading =
  | { readonly value: Readonly<Record<string, unknown>> }
  | { readonly problem: string };

/** Reads the text of a JSON object, as somebody types it; numbers keep their digits. */
export function readObject(text: string): JsonReading {
  if (text.trim() === '') return { problem: 'Enter a JSON object, for example {}.' };
  try {
    const value = parseKeepingNumbers(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return { value: value as Readonly<Record<string, unknown>> };
    }
    return { problem: 'This is JSON, but no object: begin with {.' };
  } catch (error) {
    return { problem: problemOf(text, error instanceof Error ? error.message : '') };
  }
}

/** Returns the error of a parser with line and column, where it names a position. */
function problemOf(text: string, message: string): string {
  const position = /at position (?<position>\d+)/.exec(message)?.groups?.['position'];
  if (position === undefined) return `This is no JSON: ${message}.`;
  const before = text.slice(0, Number(position)).split('\n');
  const what = message.replace(/ (?:in JSON )?at position.*$/s, '');
  return `This is no JSON: ${what}, line ${before.length}, column ${(before.at(-1) ?? '').length + 1}.`;
}
