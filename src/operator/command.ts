import type { Config } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import type { UnknownHosts } from '../core/unknown-hosts.ts';
import type { Store } from '../store/port/store.ts';

/** The dependencies of an operator's command. */
export interface CommandDeps {
  readonly store: Store;
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  /** Version of the server that runs the command; absent where the command line runs it. */
  readonly serverVersion?: string;
  /** What the server that runs the command has seen; absent where the command line runs it. */
  readonly unknownHosts?: Pick<UnknownHosts, 'seen'> | undefined;
}

/**
 * An operator's command: reads or changes the store and returns the text to print. It runs in the
 * server that holds the store, else in the process of the command line. Throws `StartRefused` with
 * a line for the operator.
 */
export type Command = (deps: CommandDeps, args: Args, call: Call) => Promise<string>;

/** Options and arguments by name, as JSON carries them. */
export type Args = Readonly<Record<string, string | boolean | undefined>>;

/** The caller's side of one run of a command. */
export interface Call {
  /** Reports progress. */
  progress(point: ProgressPoint): void;
  /**
   * Sends a file to the caller: `write` receives the path of an empty file and fills it.
   */
  file(write: (path: string) => Promise<void>): Promise<void>;
  /** Aborted when the caller disconnects or the server stops. */
  readonly signal: AbortSignal;
}

export interface ProgressPoint {
  /** The current step, such as `copying pages`. */
  readonly step: string;
  readonly done: number;
  /** Absent while unknown. */
  readonly total?: number | undefined;
}

/** Returns a required argument, whose presence the command line has checked. */
export function textOf(args: Args, name: string): string {
  const value = args[name];
  if (typeof value === 'string') return value;
  throw new StartRefused(`The command lacks its argument "${name}".`);
}

/** Returns an optional argument. */
export function optionOf(args: Args, name: string): string | undefined {
  const value = args[name];
  return typeof value === 'string' ? value : undefined;
}
