import { resolve } from 'node:path';
import { type Config, dataFolderOf, messageProcessEnv } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import type { MessageSettings } from '../messages/settings.ts';
import { refuseSecondServer } from '../operator/running-server.ts';
import { useCompiledModules } from './compile-cache.ts';
import { load, print, type ProgramContext } from './context.ts';
import { firstLinesOf } from './first-lines.ts';
import { startMessageProcess } from './message-process.ts';
import { readMessages } from './messages-command.ts';
import { type LoggedService, startManagement } from './serve-command.ts';
import type { Service } from './service.ts';
import type { ServiceOptions } from './services.ts';
import type { Signals } from './signals.ts';
import { codeMinutes } from '../operator/console.ts';

/** Runs the management API and, in a second process, the message API: both or neither. */
export async function start(
  context: ProgramContext,
  signals: Signals,
  options?: ServiceOptions,
): Promise<void> {
  const { clock, programFile, fail } = context;
  const loaded = load();
  const settings = readMessages(loaded.texts, { alone: false });
  refuseSamePort(loaded.config, settings);
  await refuseSecondServer(loaded.config);
  const compiled = useCompiledModules(dataFolderOf(loaded.config), context.version);
  const { logLevel, logFormat } = loaded.config;
  const { issuerFor } = await import('./message-service.ts');
  const message = {
    settings,
    issuer: issuerFor(settings, loaded.config),
    log: { logLevel, logFormat },
  };
  // Before the service, because it creates nothing: a start that fails here changes nothing.
  const deps = { program: programFile, env: messageProcessEnv(compiled.folder), clock };
  const second = await startMessageProcess(message, deps);
  const end = (first: Pick<LoggedService, 'stop'>, signal?: string): Promise<unknown> =>
    Promise.all([first.stop(signal), second.stop()]);
  try {
    const service = await startManagement(context, loaded, {
      ...options,
      command: 'start',
      messagesUrl: second.url,
      sampleAudience: settings.audience,
    });
    compiled.keep();
    signals.onFirst((signal) => void end(service, signal).then(() => process.exit(0), fail));
    const work = Promise.race([service.work, second.work]);
    void work.catch((error: unknown) => end(service).then(() => fail(error), fail));
    print(
      context,
      welcomeText(context.version, service, {
        messagesUrl: second.url,
        dataFolder: resolve(dataFolderOf(loaded.config)),
        consoleLink: await linkFor(context, service),
        firstLines: await firstLinesOf(loaded.config, service),
      }),
    );
  } catch (error) {
    await second.stop();
    throw error;
  }
}

/**
 * Returns a link that signs in, for a person at a terminal. Any other output may be a log, whose readers
 * must not sign in. Without a link the service is up nevertheless, and `leat console` prints one.
 */
async function linkFor(
  { stdout }: Pick<ProgramContext, 'stdout'>,
  service: Pick<Service, 'consoleLink'>,
): Promise<string | undefined> {
  if (!stdout.isTTY) return undefined;
  return service.consoleLink().catch(() => undefined);
}

function refuseSamePort(config: Config, { port, portVariable }: MessageSettings): void {
  if (port !== config.port) return;
  const other = port === 6060 ? 6061 : 6060;
  throw new StartRefused(
    `${portVariable}: ${port} is LEAT_PORT too, choose another, for example ${portVariable}=${other}`,
  );
}

interface WelcomeOptions {
  readonly messagesUrl: string;
  /** Folder of the store, keys and credentials. */
  readonly dataFolder: string;
  /** A one-time link; absent where the output is no terminal. */
  readonly consoleLink: string | undefined;
  /** Commands that deliver a first event; empty at later starts. */
  readonly firstLines: readonly string[];
}

/** Returns the text that `leat start` prints: the addresses, and at a first start the first commands. */
function welcomeText(
  version: string,
  { url, metricsUrl, consoleUrl }: Pick<Service, 'url' | 'metricsUrl' | 'consoleUrl'>,
  { messagesUrl, dataFolder, consoleLink, firstLines }: WelcomeOptions,
): string {
  const hint =
    consoleLink === undefined
      ? 'leat console prints a link that signs in'
      : `signs in once, within ${codeMinutes} minutes; leat console prints another link`;
  return [
    '',
    `Leat ${version} is up.`,
    `  console          ${consoleLink ?? consoleUrl}`,
    `                   ${hint}`,
    `  management API   ${url}/api/v2`,
    `  reference        ${url}/docs`,
    `  message API      ${messagesUrl}/api/messages/public`,
    ...(metricsUrl === undefined ? [] : [`  metrics          ${metricsUrl}`]),
    `  data             ${dataFolder}`,
    '',
    ...firstText(firstLines),
    'Ctrl-C ends it after the attempts in progress; a second Ctrl-C ends it immediately.',
  ].join('\n');
}

function firstText(lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  return [
    'Three lines for another terminal. They log in, create a stream whose receiver is inside Leat, and',
    'show what a test event delivers to it:',
    '',
    ...lines.map((line) => `  ${line}`),
    '',
  ];
}
