import { inspect } from 'node:util';
import type { CommanderError } from 'commander';
import { type LeatError, StartRefused, StoreUnavailable } from '../core/errors.ts';
import { CommandFailed, exitCodes, failureJson, failureText } from './errors.ts';

/** How a command that failed ends. */
export interface Outcome {
  readonly exitCode: number;
  /** For the standard error, without a line end; may be empty. */
  readonly text: string;
}

/** Returns whether errors are JSON; read before the options are parsed, because that can fail. */
export function wantsJson(words: readonly string[]): boolean {
  const end = words.indexOf('--');
  return words.slice(0, end === -1 ? undefined : end).includes('--json');
}

/** Maps errors to exit codes: one line for an error that the operator can fix, a trace for a bug. */
export function outcomeOf(error: unknown, json: boolean): Outcome {
  // The parser has printed the requested help, or the usage error as text.
  if (isOfParser(error)) {
    if (error.exitCode === 0) return { exitCode: exitCodes.done, text: '' };
    const isHelp = error.code === 'commander.help';
    const message = isHelp ? 'A command is missing.' : error.message.replace(/^error: /, '');
    const text = json ? failureJson(exitCodes.usage, message) : '';
    return { exitCode: exitCodes.usage, text };
  }
  if (error instanceof CommandFailed) {
    const { exitCode, message, details } = error;
    const text = json ? failureJson(exitCode, message, details) : failureText(error);
    return { exitCode, text };
  }
  const message = isFixable(error) ? error.message : inspect(error);
  const text = json ? failureJson(exitCodes.failed, message) : message;
  return { exitCode: exitCodes.failed, text };
}

/** By its name: a service does not load the parser. */
function isOfParser(error: unknown): error is CommanderError {
  return error instanceof Error && error.name === 'CommanderError';
}

function isFixable(error: unknown): error is LeatError {
  return error instanceof StartRefused || error instanceof StoreUnavailable;
}
