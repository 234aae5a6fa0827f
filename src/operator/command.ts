import type { Config } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import type { Store } from '../store/port/store.ts';

/** What an operator's command works on. */
export interface CommandDeps {
  readonly store: Store;
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
}

/**
 * An operator's command: works on the store, returns the text to print. It runs in the server, where
 * one holds the store, else in the process of the command line. Throws `StartRefused` with a line
 * for the operator.
 */
export type Command = (deps: CommandDeps, args: Args, call: Call) => Promise<string>;

/** Options and arguments by name, as JSON carries them. */
export type Args = Readonly<Record<string, string | boolean | undefined>>;

/** The caller's side of one run of a command. */
export interface Call {
  /** Shows how far the command is. */
  progress(point: ProgressPoint): void;
  /**
   * Hands a file to the caller: `write` fills the file at the path that it receives, which is empty.
   */
  file(write: (path: string) => Promise<void>): Promise<void>;
  /** Aborted when the caller has gone or the server stops. */
  readonly signal: AbortSignal;
}

export interface ProgressPoint {
  /** What is being done, as in `copying pages`. */
  readonly step: string;
  readonly done: number;
  /** Absent while nobody knows. */
  readonly total?: number | undefined;
}

/** The text of a required argument; the command line has checked that it is there. */
export function textOf(args: Args, name: string): string {
  const value = args[name];
  if (typeof value === 'string') return value;
  throw new StartRefused(`The command lacks its argument "${name}".`);
}

/** The text of an optional argument. */
export function optionOf(args: Args, name: string): string | undefined {
  const value = args[name];
  return typeof value === 'string' ? value : undefined;
}
