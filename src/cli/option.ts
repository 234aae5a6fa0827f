import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { codeOf } from '../core/errors.ts';
import { CommandFailed, exitCodes, usageError } from './errors.ts';
import type { Terminal } from './terminal/terminal.ts';

/** Parsers for options; they throw what commander turns into one line and exit code 2. */

/** Names with commas between, or the option repeated. */
export function listOption(text: string, before: readonly string[] = []): readonly string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes(''))
    throw new InvalidArgumentError('Names with commas between, for example a,b');
  return [...before, ...items];
}

/** A whole number within bounds. */
export function wholeNumberOption(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^[0-9]{1,12}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`A whole number from ${min} to ${max}.`);
  };
}

/**
 * The text of a file an option names, `-` for the standard input. Throws {@link CommandFailed} when
 * it cannot be read.
 */
export async function fileOption(
  option: string,
  file: string,
  terminal: Terminal,
): Promise<string> {
  if (file === '-') return terminal.readInput();
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const code = codeOf(error) ?? 'unreadable';
    const message = `${option}: ${file} cannot be read (${code}).`;
    throw new CommandFailed(exitCodes.usage, message, { cause: error });
  }
}

/** A secret in a file: its text without the white space around it, which must not be empty. */
export async function secretOption(
  option: string,
  file: string,
  terminal: Terminal,
): Promise<string> {
  const secret = (await fileOption(option, file, terminal)).trim();
  if (secret !== '') return secret;
  throw usageError(`${option}: ${file === '-' ? 'the standard input' : file} is empty.`);
}
