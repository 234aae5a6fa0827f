import type { DevOptions } from '../../cli/dev-options.ts';
import { CommandFailed, exitCodes } from '../../cli/errors.ts';
import { createTerminal } from '../../cli/terminal/terminal.ts';
import { loadCliEnv } from '../../config.ts';
import type { ProgramContext } from '../context.ts';
import { refuseTakenAddress } from '../listener.ts';
import { createArrivals } from './arrivals.ts';
import { listenForEnding } from './ending.ts';
import { firstEventOf } from './first-event.ts';
import { startReceiver } from './receiver.ts';
import { run, type RunDeps, type RunParts } from './run.ts';
import { createFolder, removeFolder, startThrowaway } from './throwaway.ts';

/**
 * Runs `leat dev`: a service in a temporary folder, a receiver, and a first event, whose webhook it shows.
 * Both stay until Ctrl-C. The end removes whatever the command has made.
 */
export async function dev(
  context: ProgramContext,
  type: string | undefined,
  options: DevOptions,
): Promise<void> {
  const deps = await depsOf(context, type, options);
  const ending = listenForEnding(context);
  const cleanup = new AsyncDisposableStack();
  try {
    deps.terminal.progress('Starting a service in a temporary folder …');
    const parts = await openParts(deps, options.port, cleanup);
    // The work of the service ends before it is stopped only by a bug, which ends the command.
    await Promise.race([
      run({ ...deps, ...parts }, { cleanup, signal: ending.signal }),
      parts.service.work,
    ]);
  } finally {
    deps.terminal.progress(undefined);
    await cleanup.disposeAsync();
  }
  ending.throwIfOutputFailed();
  if (deps.isOnce && ending.signal.aborted) throw new CommandFailed(exitCodes.interrupted, '');
}

/** Checks the command line before anything is made. Throws what is wrong with it. */
async function depsOf(
  context: ProgramContext,
  type: string | undefined,
  options: DevOptions,
): Promise<RunDeps> {
  const { stdout, stderr } = context;
  const { port, json = false, once: isOnce = false } = options;
  const env = loadCliEnv();
  const colour = options.color && !env.noColor;
  const terminal = createTerminal({ stdin: process.stdin, stdout, stderr }, { colour, json });
  const event = await firstEventOf(type, options, terminal);
  if (port !== undefined) {
    await refuseTakenAddress({ host: '127.0.0.1', port, portVariable: '--port' });
  }
  return { context, env, terminal, json, isOnce, event, arrivals: createArrivals(terminal, json) };
}

async function openParts(
  { context, terminal, arrivals: { onWebhook } }: RunDeps,
  port: number | undefined,
  cleanup: AsyncDisposableStack,
): Promise<RunParts> {
  const folder = await createFolder();
  cleanup.defer(() => removeFolder(folder));
  const receiver = await startReceiver({ ...context, onWebhook, note: terminal.note });
  cleanup.defer(receiver.close);
  const throwaway = await startThrowaway(context, { folder, port });
  cleanup.defer(() => throwaway.service.stop());
  return { folder, receiver, ...throwaway };
}
