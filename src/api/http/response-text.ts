import { STATUS_CODES } from 'node:http';
import type { Clock } from '../../core/clock.ts';

/** A response that is written to the connection as text. */
export interface TextResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A character per byte. */
  readonly body: string;
  /** Whether the connection ends with it. */
  readonly isLast: boolean;
}

/**
 * Creates a function that serializes a response for the wire, with the headers that Node's server adds:
 * `Content-Length`, `Date` (RFC 9110 section 6.6.1), `Connection` and `Keep-Alive`.
 */
export function createResponseTexts(
  clock: Pick<Clock, 'now'>,
  keepAliveMs: number,
): (response: TextResponse) => string {
  const dateOf = createDates(clock);
  const keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n`;
  return ({ status, headers, body, isLast }) => {
    let lines = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`;
    for (const name in headers) lines += `${name}: ${headers[name]}\r\n`;
    if (isLast) lines += 'connection: close\r\n';
    lines += `content-length: ${body.length}\r\n${dateOf()}`;
    return `${isLast ? lines : lines + keepAlive}\r\n${body}`;
  };
}

/** Creates the writer of the header `Date`, which caches it for its second. */
function createDates({ now }: Pick<Clock, 'now'>): () => string {
  let second = -1;
  let line = '';
  return () => {
    const present = Math.floor(now() / 1000);
    if (present !== second) {
      second = present;
      line = `Date: ${new Date(present * 1000).toUTCString()}\r\n`;
    }
    return line;
  };
}
