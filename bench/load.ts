import { connect, type Socket } from 'node:net';

export interface Load {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** Whole HTTP/1.1 requests; each connection sends one of them again and again. */
  readonly requests: readonly Buffer[];
}

export interface Loaded {
  readonly responses: number;
  readonly perSecond: number;
}

/**
 * Sends requests over kept-alive connections, one in flight on each, and returns the responses. Written on
 * bare sockets so that the load costs less than the server. Throws on a response that is not 2xx.
 */
export async function load(options: Load): Promise<Loaded> {
  const counter = { responses: 0 };
  const sockets = Array.from({ length: options.connections }, () =>
    connect(options.port, '127.0.0.1'),
  );
  const { requests } = options;
  const runs = sockets.map((socket, index) => {
    const request = requests[index % requests.length] ?? Buffer.alloc(0);
    return repeat(socket, request, counter);
  });
  const started = performance.now();
  await Promise.race([
    Promise.all(runs),
    new Promise((resolve) => setTimeout(resolve, options.seconds * 1000)),
  ]);
  const { responses } = counter;
  const perSecond = responses / ((performance.now() - started) / 1000);
  for (const socket of sockets) socket.destroy();
  return { responses, perSecond };
}

/** The index of the status in `HTTP/1.1 200`; a 2 means success. */
const DIGIT_2 = 0x32;

async function repeat(
  socket: Socket,
  request: Buffer,
  counter: { responses: number },
): Promise<void> {
  socket.setNoDelay(true);
  await new Promise<void>((resolve, reject) => {
    let pending = '';
    let usualBytes = -1;
    const next = (): void => {
      counter.responses++;
      socket.write(request);
    };
    socket.on('error', reject);
    socket.on('close', () => resolve());
    socket.on('connect', () => socket.write(request));
    socket.on('data', (chunk) => {
      // Most responses have the length of the last one and arrive in one chunk: only the status is read.
      if (pending === '' && chunk.length === usualBytes && chunk[9] === DIGIT_2) {
        next();
        return;
      }
      pending += chunk.toString('latin1');
      const headEnd = pending.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const length = /content-length: *(\d+)/i.exec(pending.slice(0, headEnd))?.[1];
      if (pending.length < headEnd + 4 + Number(length ?? 0)) return;
      if (!pending.startsWith('HTTP/1.1 2')) {
        reject(new Error(`the server responded: ${pending.slice(0, 400)}`));
        return;
      }
      usualBytes = pending.length;
      pending = '';
      next();
    });
  });
}

/** Returns the bytes of a POST with a JSON body. */
export function post(path: string, port: number, body: string, token?: string): Buffer {
  const authorization = token === undefined ? '' : `authorization: Bearer ${token}\r\n`;
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: localhost:${port}\r\ncontent-type: application/json\r\n` +
      `${authorization}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
