import { connect, type Socket } from 'node:net';
import { waitFor } from './leat.ts';

/** An HTTP response, read from a socket. */
export interface RawResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Sends bytes to a port of 127.0.0.1 as they are and reads the first response: for requests that an
 * HTTP client would refuse to send. Without a response the status is 0.
 */
export async function exchange(port: number, request: string | Buffer): Promise<RawResponse> {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  let ended = false;
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    received += chunk;
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    ended = true;
  });
  socket.write(request);
  try {
    await waitFor('a response on the socket', () => ended || isComplete(received));
  } finally {
    socket.destroy();
  }
  return parsed(received);
}

/** What a connection returns until the server ends it. */
export interface Dialogue {
  /** Statuses of the responses, in their order. */
  readonly statuses: readonly number[];
  /** Everything that was received. */
  readonly text: string;
}

/**
 * Sends bytes to a port of 127.0.0.1, or on a connection that exists, and reads until the server ends
 * the connection. Sends each further part after a response has arrived.
 */
export async function readToEnd(
  target: number | Socket,
  parts: string | readonly string[],
): Promise<Dialogue> {
  const socket = typeof target === 'number' ? connect(target, '127.0.0.1') : target;
  let text = '';
  let ended = false;
  const end = (): void => {
    ended = true;
  };
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  socket.on('end', end).on('close', end);
  try {
    for (const part of [parts].flat()) {
      const received = text.length;
      socket.write(Buffer.from(part, 'latin1'));
      await waitFor('a response', () => ended || text.length > received, { progress: () => text });
    }
    await waitFor('the end of the connection', () => ended, { progress: () => text });
  } finally {
    socket.destroy();
  }
  const statuses = text.matchAll(/HTTP\/1\.1 ([0-9]{3}) /g);
  return { statuses: [...statuses].map(([, status]) => Number(status)), text };
}

/** Returns the text of a message with exactly this first line and these header lines. */
export function messageText(line: string, headers: readonly string[], body = ''): string {
  return `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

/** Returns the text of an HTTP/1.1 request with a `Host` and these header lines. */
export function requestText(line: string, headers: readonly string[], body = ''): string {
  return messageText(`${line} HTTP/1.1`, ['Host: 127.0.0.1', ...headers], body);
}

function isComplete(text: string): boolean {
  const { status, headers, body } = parsed(text);
  if (status === 204 || status === 304) return true;
  const length = headers['content-length'];
  return length !== undefined && Buffer.byteLength(body) >= Number(length);
}

function parsed(text: string): RawResponse {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return { status: 0, headers: {}, body: '' };
  const [first = '', ...lines] = text.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => {
      const [name = '', ...value] = line.split(':');
      return [name.toLowerCase(), value.join(':').trim()] as const;
    }),
  );
  return { status: Number(first.split(' ')[1]), headers, body: text.slice(end + 4) };
}
