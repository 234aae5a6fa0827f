import { STATUS_CODES } from 'node:http';
import type { Clock } from '../core/clock.ts';
import type { MessageResponse } from './responses.ts';

/**
 * Writes answers out as they go over the wire, in ASCII: status line, headers, `Date` (RFC 9110
 * section 6.6.1) and body. A text is kept for as long as its `Date` is right, which is a second.
 */
export function createTexts(clock: Pick<Clock, 'now'>): (answer: MessageResponse) => string {
  const texts = new Map<MessageResponse, string>();
  let second = -1;
  return (answer) => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      texts.clear();
    }
    const known = texts.get(answer);
    if (known !== undefined) return known;
    const text = textOf(answer, new Date(now * 1000).toUTCString());
    texts.set(answer, text);
    return text;
  };
}

function textOf({ status, headers, body }: MessageResponse, date: string): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`];
  for (let index = 0; index < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${[...lines, `Date: ${date}`].join('\r\n')}\r\n\r\n${body}`;
}
