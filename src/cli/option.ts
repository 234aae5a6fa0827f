import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { codeOf } from '../core/errors.ts';
import { isTooDeep } from '../core/json-parts.ts';
import { printable } from '../core/setting.ts';
import { readVerbatim } from '../core/verbatim.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import { readJson } from './json.ts';
import { utf8Text } from './utf8-text.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Parses names separated by commas; a repeated option adds to them. Throws a usage error. */
export function listOption(text: string, before: readonly string[] = []): readonly string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes(''))
    throw new InvalidArgumentError('Names separated by commas, for example a,b');
  return [...before, ...items];
}

/** Creates a parser for whole numbers within bounds. It throws a usage error. */
export function wholeNumberOption(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^[0-9]{1,12}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`A whole number from ${min} to ${max}.`);
  };
}

/** A JSON object or `null`, which commander would take for a missing value. */
export interface JsonOption {
  readonly value: object | null;
}

/** Parses a JSON object or `null`. Throws a usage error. */
export function jsonOption(text: string): JsonOption {
  const value = parsedJson(text);
  if (value === null || isObject(value)) {
    const repeated = repeatedText(text);
    if (repeated !== undefined) throw new InvalidArgumentError(repeated);
    return { value };
  }
  throw new InvalidArgumentError('A JSON object in quotes, or null.');
}

/** Returns whether parsed JSON is an object. A number that keeps its digits has no prototype. */
export function isObject(value: unknown): value is object {
  return (
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}

/** Says which field a JSON text has twice: of those only the last one would be sent. */
export function repeatedText(json: string): string | undefined {
  // Reading a text needs a stack of its depth, and the server refuses one that is deeper.
  if (isTooDeep(new TextEncoder().encode(json))) return undefined;
  const path = readVerbatim(json).repeated;
  return path && `The field "${printable(path.join('.'))}" is repeated: write it once.`;
}

function parsedJson(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

/**
 * Reads the file that an option names, `-` for the standard input. Throws {@link CommandFailed} when
 * it cannot be read.
 */
export async function fileOption(
  option: string,
  file: string,
  terminal: Terminal,
): Promise<string> {
  if (file === '-') return terminal.readInput();
  let bytes: Uint8Array;
  try {
    bytes = await readFile(file);
  } catch (error) {
    const code = codeOf(error) ?? 'unreadable';
    const message = `${option}: ${file} cannot be read (${code}).`;
    throw new CommandFailed(exitCodes.usage, message, { cause: error });
  }
  return utf8Text(bytes, `${option}: ${file}`);
}

/** Reads a secret from a file, without white space around it. Throws a usage error when it is empty. */
export async function secretOption(
  option: string,
  file: string,
  terminal: Terminal,
): Promise<string> {
  const secret = (await fileOption(option, file, terminal)).trim();
  if (secret !== '') return secret;
  throw usageError(`${option}: ${file === '-' ? 'the standard input' : file} is empty.`);
}
