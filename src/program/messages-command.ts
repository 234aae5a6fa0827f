import { loadTexts, type Texts } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import { type MessageSettings, readMessageSettings } from '../messages/settings.ts';
import { print, type ProgramContext } from './context.ts';
import { isTextLog, openLog } from './log.ts';
import { runMessageProcess, type StartMessage } from './message-process.ts';
import type { MessageService } from './message-service.ts';
import type { Signals } from './signals.ts';
import { createWatchdog } from './watchdog.ts';

/** Runs the message API alone, with its own settings only. */
export async function messages(context: ProgramContext, signals: Signals): Promise<void> {
  const texts = loadTexts();
  if ('problems' in texts) throw new StartRefused(texts.problems.join('\n'));
  const settings = readMessages(texts, { alone: true });
  const { issuerFor } = await import('./message-service.ts');
  const log = { logLevel: 'info', logFormat: 'auto' } as const;
  const message = { settings, issuer: issuerFor(settings), log };
  const service = await startMessages(context, message, 'messages');
  signals.onFirst(() => void service.stop().then(() => process.exit(0), context.fail));
  print(context, `The message API is up at ${service.url}/api/messages/public`);
}

/** Runs the message API as the second process of `leat start`. */
export async function messageProcess(context: ProgramContext): Promise<void> {
  await runMessageProcess(process, (message) => startMessages(context, message, 'start'));
  process.exit(0);
}

/** Reads the settings of the message API. Throws `StartRefused`. */
export function readMessages(texts: Texts, rule: { readonly alone: boolean }): MessageSettings {
  const reading = readMessageSettings(texts, rule);
  if ('problems' in reading) throw new StartRefused(reading.problems.join('\n'));
  return reading.settings;
}

async function startMessages(
  context: Pick<ProgramContext, 'clock' | 'stderr'>,
  { log: settings, ...message }: StartMessage,
  command: string,
): Promise<MessageService> {
  const { startMessageService } = await import('./message-service.ts');
  const log = await openLog(settings, context);
  const { clock } = context;
  const service = await startMessageService({ ...message, clock, log });
  const { watchdogSeconds: seconds } = message.settings;
  const isText = isTextLog(settings.logFormat, context.stderr);
  createWatchdog({ seconds, command, isText, clock, log }).begin();
  return service;
}
