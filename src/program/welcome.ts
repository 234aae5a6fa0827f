import { codeMinutes } from '../operator/console.ts';
import type { Service } from './service.ts';

export interface WelcomeOptions {
  readonly messagesUrl: string;
  /** Folder of the store, keys and credentials. */
  readonly dataFolder: string;
  /** A one-time link; absent where the output is no terminal. */
  readonly consoleLink: string | undefined;
  /** Commands that deliver a first event; empty at later starts. */
  readonly firstLines: readonly string[];
}

/** Returns the text that `leat start` prints: the addresses, and at a first start the first commands. */
export function welcomeText(
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
