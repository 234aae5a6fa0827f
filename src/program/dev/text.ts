import type { LeatCommand } from '../../cli/leat-command.ts';
import { requestLines } from '../../cli/received.ts';
import { shellWord } from '../../cli/shell-word.ts';
import type { Paint } from '../../cli/terminal/terminal.ts';
import type { Webhook } from '../../cli/webhook.ts';
import { codeMinutes } from '../../operator/console.ts';
import type { FirstEvent } from './first-event.ts';

/** The stream of `leat dev`. */
export const streamName = 'dev';

/** Returns a webhook in full, with the result of the check of its signature. */
export function webhookLines(webhook: Webhook, paint: Paint): string[] {
  const { time, method, path, headers, body, signature = 'unchecked', status } = webhook;
  const shown = Object.entries(headers).map(([name, value]) => [
    name,
    name === 'authorization' ? '***' : String(value),
  ]);
  return requestLines(
    {
      received_at: time,
      method,
      path,
      headers: Object.fromEntries(shown),
      body,
      signature,
      status,
    },
    paint,
  );
}

export interface NextSteps {
  readonly leat: LeatCommand;
  readonly receiverUrl: string;
  readonly event: FirstEvent;
  /** Id of the first event. */
  readonly eventId: string;
  /** A one-time link; absent where the output is no terminal. */
  readonly consoleLink: string | undefined;
}

/** Returns what to do next: the link to the console, and commands for another terminal. */
export function nextStepLines({
  leat,
  receiverUrl,
  event: { type },
  eventId,
  consoleLink,
}: NextSteps): string[] {
  const post = (path: string): string => `curl -X POST ${shellWord(`${receiverUrl}/${path}`)}`;
  const steps = [
    ['Publish another event:', leat`events publish --type ${type} --data ${'{"id": 8}'}`],
    [
      'Break the receiver and see an event fail; then repair it and send the event again:',
      post('break'),
      leat`test ${streamName} --type ${type}`,
      post('repair'),
      leat`redeliver ${streamName}`,
    ],
    ['Look up what became of the first event:', leat`why ${eventId}`],
  ];
  return [
    ...(consoleLink === undefined
      ? []
      : [
          `Console, with a link that signs in once within ${codeMinutes} minutes:`,
          `  ${consoleLink}`,
          '',
        ]),
    'To try in another terminal, which is logged in:',
    ...steps.flatMap(([title = '', ...commands]) => [
      '',
      title,
      ...commands.map((command) => `  ${command}`),
    ]),
    '',
    'Further requests, as they arrive. Ctrl-C ends the service and removes its folder and the login.',
  ];
}
