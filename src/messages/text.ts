import { STATUS_CODES } from 'node:http';
import type { Clock } from '../core/clock.ts';
import type { MessageResponse } from './responses.ts';

/**
 * Creates a function that serializes responses for the wire, in ASCII: status line, headers, `Date`
 * (RFC 9110 section 6.6.1), `Keep-Alive` unless the connection ends, and body. A text is cached while
 * its `Date` is current, for a second.
 */
export function createTexts(
  clock: Pick<Clock, 'now'>,
  connection: { readonly keepAliveSeconds: number; readonly isClosing: () => boolean },
): (response: MessageResponse) => string {
  const staysOpen = [
    'Connection: keep-alive',
    `Keep-Alive: timeout=${connection.keepAliveSeconds}`,
  ];
  const texts = new Map<MessageResponse, string>();
  let second = -1;
  return (response) => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      texts.clear();
    }
    const date = `Date: ${new Date(now * 1000).toUTCString()}`;
    const isLast = response.headers.includes('close');
    if (connection.isClosing()) {
      return textOf(response, isLast ? [date] : [date, 'Connection: close']);
    }
    const known = texts.get(response);
    if (known !== undefined) return known;
    const text = textOf(response, isLast ? [date] : [date, ...staysOpen]);
    texts.set(response, text);
    return text;
  };
}

function textOf({ status, headers, body }: MessageResponse, added: readonly string[]): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`];
  for (let index = 0; index < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${[...lines, ...added].join('\r\n')}\r\n\r\n${body}`;
}
