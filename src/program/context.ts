import { type Loaded, loadConfig } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';

/** The dependencies that `main.ts` passes to the commands of this machine. */
export interface ProgramContext {
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly version: string;
  /** Path of the program, to start it a second time; `undefined` in the single executable. */
  readonly programFile: string | undefined;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** Ends the process with the exit code of an error. */
  readonly fail: (this: void, error: unknown) => never;
}

/** Writes a line of the result. */
export function print({ stdout }: Pick<ProgramContext, 'stdout'>, text: string): void {
  stdout.write(`${text}\n`);
}

/** Reads the settings. Throws `StartRefused` with one line for each wrong value. */
export function load(): Loaded {
  const reading = loadConfig();
  if ('problems' in reading) throw new StartRefused(reading.problems.join('\n'));
  return reading;
}
