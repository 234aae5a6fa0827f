/**
 * The message API as a second process of `leat start`. The two communicate over the channel of
 * `fork` only: the parent sends a StartMessage, the child reports its start. The child ends when the
 * channel closes, so it never outlives the parent, even after a kill -9.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Clock } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import type { MessageSettings } from '../messages/settings.ts';
import type { LogSettings } from './log.ts';
import { messageProcessCommand } from './message-command.ts';
import type { MessageService, MessageServiceDeps } from './message-service.ts';

/** Grace period of the child after its channel was closed. */
const ENDING_MS = 10_000;

/** The message of the parent: settings of the message API. */
export type StartMessage = Pick<MessageServiceDeps, 'issuer'> & {
  readonly settings: MessageSettings;
  readonly log: LogSettings;
};

type Report = { readonly url: string } | { readonly refused: string };

/** The second process, as its parent uses it. */
export interface MessageProcess extends MessageService {
  /** Rejects when the child ends before {@link MessageService.stop}. */
  readonly work: Promise<never>;
}

export interface MessageProcessDeps {
  /** Path of the program; `undefined` in the single executable, which starts itself. */
  readonly program: string | undefined;
  /** The whole environment of the child. */
  readonly env: Readonly<Record<string, string>>;
  readonly clock: Clock;
}

/** Starts the second process. Throws `StartRefused` with the error line of the child. */
export async function startMessageProcess(
  message: StartMessage,
  { program, env, clock }: MessageProcessDeps,
): Promise<MessageProcess> {
  const child = forkProgram(program, env);
  const ended = once(child, 'exit');
  child.send(message);
  const first = await Promise.race([once(child, 'message'), ended.then(() => undefined)]);
  const report = first?.[0] as Report | undefined;
  if (report === undefined || 'refused' in report) {
    await ended;
    throw new StartRefused(report?.refused ?? 'The message API ended while it started.');
  }
  let isStopping = false;
  return {
    url: report.url,
    work: ended.then(() => (isStopping ? new Promise<never>(() => {}) : rejectEnded(child))),
    stop: async () => {
      isStopping = true;
      if (child.connected) child.disconnect();
      const cutOff = clock.after(ENDING_MS, () => child.kill('SIGKILL'));
      await ended;
      cutOff.cancel();
    },
  };
}

function forkProgram(program: MessageProcessDeps['program'], env: NodeJS.ProcessEnv): ChildProcess {
  if (program !== undefined) return fork(program, [messageProcessCommand], { env });
  // Its flags are inside itself, and the first argument is a word of the command line.
  return fork(messageProcessCommand, [], { env, execArgv: [] });
}

function rejectEnded({ exitCode, signalCode }: ChildProcess): never {
  throw new Error(
    `the message API has ended unexpectedly: ${signalCode ?? `exit code ${exitCode}`}`,
  );
}

/** The child's end of the channel: `process`. */
export interface Channel {
  once(event: 'message' | 'disconnect', listener: (message: unknown) => void): unknown;
  send?(message: unknown, sent: () => void): unknown;
}

/**
 * Serves the message API until the channel closes. The caller ignores signals: a terminal sends them
 * to both processes, and only the parent decides when the child ends.
 */
export async function runMessageProcess(
  channel: Channel,
  start: (message: StartMessage) => Promise<MessageService>,
): Promise<void> {
  const disconnected = new Promise<void>((resolve) => {
    channel.once('disconnect', () => resolve());
  });
  const startMessage = await new Promise<StartMessage>((resolve) => {
    channel.once('message', (received) => resolve(received as StartMessage));
  });
  const report = (message: Report): Promise<void> =>
    new Promise((resolve) => {
      channel.send?.(message, resolve);
    });
  try {
    const service = await start(startMessage);
    await report({ url: service.url });
    await disconnected;
    await service.stop();
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error;
    await report({ refused: error.message });
  }
}
