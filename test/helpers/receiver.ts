import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';

/**
 * A receiver of webhooks on loopback that reads requests from the socket and responds byte by byte
 * as the test says: with ordinary responses, and with bytes that no HTTP library would send.
 */

export interface ReceivedRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Number of the connection that it came over, 1-indexed. */
  readonly connection: number;
}

/** The connection to the sender. */
export interface Wire {
  readonly socket: Socket;
  /** Resolves when there is room for more, or when the connection is closed. */
  write(bytes: string | Uint8Array): Promise<void>;
  /** Closes it (FIN) after the written bytes. */
  end(): void;
  /** Resets it (RST). */
  reset(): void;
}

/** Runs after a request has arrived. */
export type Reply = (wire: Wire, request: ReceivedRequest) => void | Promise<void>;

export interface ReceiverOptions {
  /** 204 when absent. */
  readonly respond?: Reply;
  /** Runs when a connection is made, before any request. */
  readonly greet?: (wire: Wire) => void;
  readonly host?: string;
  /** 0 for a free one. */
  readonly port?: number;
  /** Speaks HTTPS with this certificate and key, in PEM. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export interface Receiver {
  /** Such as `http://127.0.0.1:<port>`. */
  readonly origin: string;
  readonly port: number;
  /** In the order of arrival. */
  readonly requests: readonly ReceivedRequest[];
  /** May be changed at any time. */
  respond: Reply;
  /** Connections so far; with TLS, those whose handshake was completed. */
  readonly connections: number;
  /** Open connections. */
  readonly open: number;
  /** Bytes sent so far, over all connections. */
  readonly bytesSent: number;
  /** Closes the server and every open connection. */
  close(): Promise<void>;
}

/** Starts a receiver that closes after the test. */
export async function receiverOf(t: TestContext, options: ReceiverOptions = {}): Promise<Receiver> {
  const receiver = await startReceiver(options);
  t.after(() => receiver.close());
  return receiver;
}

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const { host = '127.0.0.1', port = 0, tls } = options;
  const requests: ReceivedRequest[] = [];
  const sockets = new Set<Socket>();
  const accepted = new Set<Socket>();
  let connections = 0;
  let bytesSent = 0;
  const serve = (socket: Socket): void => {
    const connection = ++connections;
    sockets.add(socket);
    const wire = wireOf(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      bytesSent += socket.bytesWritten;
    });
    options.greet?.(wire);
    readRequests(socket, (request) => {
      const received = { ...request, connection };
      requests.push(received);
      void receiver.respond(wire, received);
    });
  };
  const server: Server = tls === undefined ? createServer(serve) : createTlsServer(tls, serve);
  // Some tests expect a refused handshake.
  server.on('tlsClientError', () => undefined);
  server.on('connection', (socket: Socket) => {
    accepted.add(socket);
    socket.on('close', () => accepted.delete(socket));
    socket.on('error', () => undefined);
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  const authority = host.includes(':') ? `[${host}]` : host;
  const receiver: Receiver = {
    origin: `${tls === undefined ? 'http' : 'https'}://${authority}:${address.port}`,
    port: address.port,
    requests,
    respond: options.respond ?? reply(204),
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    get bytesSent() {
      return [...sockets].reduce((sum, socket) => sum + socket.bytesWritten, bytesSent);
    },
    close: async () => {
      server.close();
      for (const socket of [...sockets, ...accepted]) socket.destroy();
      if (server.listening) await once(server, 'close');
    },
  };
  return receiver;
}

// Replies

/** Sends a complete response; the connection stays open. */
export function reply(
  status: number,
  body: string | Uint8Array = '',
  headers: Readonly<Record<string, string>> = {},
): Reply {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  const all = status === 204 ? headers : { 'Content-Length': String(length), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n`;
  const bytes = Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]);
  return (wire) => wire.write(bytes);
}

export function redirect(status: number, location: string): Reply {
  return reply(status, '', { Location: location });
}

/** Sends exactly these bytes; the connection stays open. */
export function raw(bytes: string | Uint8Array): Reply {
  return (wire) => wire.write(bytes);
}

/** Sends exactly these bytes, then closes the connection. */
export function rawThenEnd(bytes: string | Uint8Array): Reply {
  return async (wire) => {
    await wire.write(bytes);
    wire.end();
  };
}

/** Sends exactly these bytes, then resets the connection. */
export function rawThenReset(bytes: string | Uint8Array = ''): Reply {
  return async (wire) => {
    if (bytes.length > 0) await wire.write(bytes);
    // A reset discards bytes that were not sent yet.
    setTimeout(() => wire.reset(), bytes.length > 0 ? 20 : 0);
  };
}

/** Never responds. */
export const hang: Reply = () => undefined;

/** Sends the first bytes at once, then one more part every `everyMs`, without end. */
export function drip(first: string, part: string, everyMs: number): Reply {
  return async (wire) => {
    await wire.write(first);
    const timer = setInterval(() => void wire.write(part), everyMs);
    wire.socket.once('close', () => clearInterval(timer));
  };
}

/** Sends the first bytes, then parts until the sender hangs up or `bytesMax` is reached. */
export function flood(first: string, part: string | Uint8Array, bytesMax = 1 << 30): Reply {
  return async (wire) => {
    await wire.write(first);
    while (!wire.socket.destroyed && wire.socket.bytesWritten < bytesMax) await wire.write(part);
    wire.end();
  };
}

/** Replies to each request with the next reply; the last one is repeated. */
export function inTurn(...replies: readonly Reply[]): Reply {
  let turn = 0;
  return (wire, request) => {
    const next = replies[Math.min(turn++, replies.length - 1)] ?? hang;
    return next(wire, request);
  };
}

function wireOf(socket: Socket): Wire {
  return {
    socket,
    write: async (bytes) => {
      if (socket.destroyed || socket.write(bytes)) return;
      const controller = new AbortController();
      const { signal } = controller;
      const either = [once(socket, 'drain', { signal }), once(socket, 'close', { signal })];
      await Promise.race(either.map((event) => event.catch(() => undefined)));
      controller.abort();
    },
    end: () => void socket.end(),
    reset: () => void socket.resetAndDestroy(),
  };
}

/** Parses requests with a Content-Length from a connection. */
function readRequests(
  socket: Socket,
  received: (request: Omit<ReceivedRequest, 'connection'>) => void,
): void {
  let pending = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    for (;;) {
      const headEnd = pending.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const [first = '', ...lines] = pending.toString('latin1', 0, headEnd).split('\r\n');
      const headers = Object.fromEntries(lines.map(readHeader));
      const bodyEnd = headEnd + 4 + Number(headers['content-length'] ?? 0);
      if (pending.length < bodyEnd) return;
      const [method = '', path = ''] = first.split(' ');
      const body = pending.toString('utf8', headEnd + 4, bodyEnd);
      pending = pending.subarray(bodyEnd);
      received({ method, path, headers, body });
    }
  });
}

function readHeader(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
