/**
 * The message API as a second process of `leat start`. The two talk over the channel of `fork`
 * alone: the parent says what to serve, the child what became of it, and when the channel ends, for
 * whatever reason, the child ends too. So neither outlives the other, also after a kill -9.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Clock } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import type { MessageService, MessageServiceDeps } from './message-service.ts';

/** The sub-command of the child; nobody types it. */
export const messageProcessCommand = 'messages-companion';

/** After the end is asked for, the child has this long. */
const ENDING_MS = 10_000;

/** What the parent asks for. */
export type StartMessage = Pick<MessageServiceDeps, 'settings' | 'issuer'> & {
  readonly logLevel: string;
};

type Report = { readonly url: string } | { readonly refused: string };

/** The second process, seen from the first. */
export interface MessageProcess extends MessageService {
  /** Rejects when the child ends although nobody asked it to. */
  readonly work: Promise<never>;
}

/** Starts the second process. Throws `StartRefused` with the line of the child. */
export async function startMessageProcess(
  order: StartMessage,
  { program, clock }: { readonly program: string; readonly clock: Clock },
): Promise<MessageProcess> {
  const child = fork(program, [messageProcessCommand]);
  const ended = once(child, 'exit');
  child.send(order);
  const first = await Promise.race([once(child, 'message'), ended.then(() => undefined)]);
  const report = first?.[0] as Report | undefined;
  if (report === undefined || 'refused' in report) {
    await ended;
    throw new StartRefused(report?.refused ?? 'The message API ended while it started.');
  }
  let asked = false;
  return {
    url: report.url,
    work: ended.then(() => (asked ? new Promise<never>(() => {}) : fallen(child))),
    stop: async () => {
      asked = true;
      if (child.connected) child.disconnect();
      const cutOff = clock.after(ENDING_MS, () => child.kill('SIGKILL'));
      await ended;
      cutOff.cancel();
    },
  };
}

function fallen({ exitCode, signalCode }: ChildProcess): never {
  throw new Error(`the message API has ended by itself: ${signalCode ?? `exit code ${exitCode}`}`);
}

/** The child's end of the channel: `process`. */
export interface Channel {
  once(event: 'message' | 'disconnect', listener: (message: unknown) => void): unknown;
  send?(message: unknown, sent: () => void): unknown;
}

/**
 * Does what the parent asks, until the channel ends. Signals are the parent's: a terminal sends them
 * to both, and the child must not be gone before the parent asks it to end.
 */
export async function runMessageProcess(
  channel: Channel,
  start: (order: StartMessage) => Promise<MessageService>,
): Promise<void> {
  const disconnected = new Promise<void>((resolve) => {
    channel.once('disconnect', () => resolve());
  });
  const order = await new Promise<StartMessage>((resolve) => {
    channel.once('message', (message) => resolve(message as StartMessage));
  });
  const report = (message: Report): Promise<void> =>
    new Promise((resolve) => {
      channel.send?.(message, resolve);
    });
  try {
    const service = await start(order);
    await report({ url: service.url });
    await disconnected;
    await service.stop();
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error;
    await report({ refused: error.message });
  }
}
