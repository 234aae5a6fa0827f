import { exitCodes, CommandFailed } from '../../cli/errors.ts';
import { codeOf } from '../../core/errors.ts';
import type { ProgramContext } from '../context.ts';
import { interruption } from '../signals.ts';

/** How a command that has something to remove ends. */
export interface Ending {
  /** Aborts at Ctrl-C, when the terminal closes, and when the output can be written no longer. */
  readonly signal: AbortSignal;
  /** Throws where the output was lost: not to a reader such as `head`, which had enough. */
  throwIfOutputFailed(): void;
}

/** Listens for whatever ends the command; a second Ctrl-C ends it immediately. */
export function listenForEnding({
  clock,
  stdout,
  stderr,
}: Pick<ProgramContext, 'clock' | 'stdout' | 'stderr'>): Ending {
  const closing = new AbortController();
  let failure: Error | undefined;
  stderr.on('error', () => undefined);
  stdout.on('error', (error: Error) => {
    failure = error;
    closing.abort();
  });
  return {
    signal: AbortSignal.any([interruption(clock, ['SIGINT', 'SIGTERM', 'SIGHUP']), closing.signal]),
    throwIfOutputFailed: () => {
      if (failure === undefined || codeOf(failure) === 'EPIPE') return;
      const reason = codeOf(failure) ?? failure.message;
      throw new CommandFailed(exitCodes.failed, `The output cannot be written (${reason}).`);
    },
  };
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
