import type { Socket } from 'node:net';
import type { MessageResponse } from './responses.ts';
import type { MessageRequest, Respond } from './messages.ts';

/** A connection that does nothing for this long is closed. */
const IDLE_MS = 5_000;
/** Limit of the request line and headers, as in Node's HTTP server. */
const HEAD_BYTES_MAX = 16 * 1024;

export interface FastPathDeps {
  /** Never throws and never rejects. */
  readonly respond: Respond;
  /** Returns the whole response as it is sent: status line, headers and body. */
  readonly textOf: (response: MessageResponse) => string;
  /** Takes over a connection for good, with the bytes that were read and not responded to. */
  readonly handOver: (socket: Socket, read: Buffer) => void;
}

/** The fast path in front of Node's HTTP server. */
export interface FastPath {
  /** Takes a new connection. */
  accept(socket: Socket): void;
  /** Closes idle connections at once and the others after their response. */
  close(): void;
  /** Number of connections on the fast path. */
  readonly size: number;
}

/**
 * Responds to plain requests directly on the socket, at about twice the speed of Node's HTTP server
 * (docs/adr/0012-a-fast-lane-for-messages.md). It parses one kind of request only: a well-formed GET
 * in HTTP/1.1, without a body, that arrives whole and alone. At the first other bytes it hands the
 * connection to Node's server for good, which parses the same bytes: no request has two parsers.
 */
export function createFastPath(deps: FastPathDeps): FastPath {
  const { respond, textOf, handOver } = deps;
  const connections = new Map<Socket, Connection>();
  let closing = false;

  const accept = (socket: Socket): void => {
    const connection: Connection = { busy: false, ended: false };
    const send = (response: MessageResponse): void => {
      connection.busy = false;
      if (socket.destroyed) return;
      const isFlushed = socket.write(textOf(response), 'latin1');
      if (closing || connection.ended) socket.end();
      else if (isFlushed) socket.resume();
      // Read no more requests from a client that does not read its responses.
      else socket.pause().once('drain', () => socket.resume());
    };
    const listeners = {
      data: (chunk: Buffer): void => {
        const request = parsePlainRequest(chunk);
        if (request === undefined) {
          release();
          handOver(socket.setTimeout(0), chunk);
          return;
        }
        const response = respond(request);
        if (!(response instanceof Promise)) {
          send(response);
          return;
        }
        connection.busy = true;
        socket.pause();
        void response.then(send);
      },
      end: (): void => {
        connection.ended = true;
        if (!connection.busy) socket.end();
      },
      timeout: (): void => {
        if (!connection.busy) socket.destroy();
      },
      // `close` follows.
      error: (): void => {},
      close: (): void => release(),
    };
    const release = (): void => {
      connections.delete(socket);
      for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener);
    };
    connections.set(socket, connection);
    for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener);
    socket.setTimeout(IDLE_MS);
  };

  return {
    accept,
    close: () => {
      closing = true;
      for (const [socket, { busy }] of connections) if (!busy) socket.end();
    },
    get size() {
      return connections.size;
    },
  };
}

interface Connection {
  /** A response is pending; nothing is read until it is sent. */
  busy: boolean;
  /** The client has closed its side. */
  ended: boolean;
}

/**
 * A plain request: a narrow subset of RFC 9112 sections 2 to 5. Origin form, visible ASCII and single
 * blanks only, no line folding, `Host` first and once, a name or an address, at most one
 * `Authorization`, and no header that changes how a request or its connection is parsed. The
 * alternatives exclude each other, so that the expression does not backtrack.
 */
const PLAIN = ((): RegExp => {
  const host = String.raw`(?:[\w.-]+|\[[\dA-Fa-f:.]+\])(?::\d+)?`;
  const value = String.raw`[\x21-\x7E][\x20-\x7E]*`;
  const special = [
    'host|authorization|content-length|transfer-encoding|te|trailer|expect|upgrade|keep-alive',
    String.raw`proxy-connection|http2-settings|connection(?!: ?keep-alive\r)`,
  ].join('|');
  const other = String.raw`(?!(?i:${special}):)[\w!#$%&'*+.^\x60|~-]+: ?${value}\r\n`;
  return new RegExp(
    String.raw`^GET (?<target>\/[\x21-\x7E]*) HTTP\/1\.1\r\n` +
      String.raw`(?i:host): ?${host}\r\n(?:${other})*` +
      String.raw`(?:(?i:authorization): ?(?<authorization>${value})\r\n(?:${other})*)?\r\n$`,
  );
})();

/** Parses a plain request; returns `undefined` for any other bytes. */
export function parsePlainRequest(chunk: Buffer): MessageRequest | undefined {
  if (chunk.length > HEAD_BYTES_MAX) return undefined;
  const match = PLAIN.exec(chunk.toString('latin1'));
  const [, target, authorization] = match ?? [];
  if (target === undefined) return undefined;
  const authorizations = authorization === undefined ? none : [authorization];
  return { method: 'GET', target, authorizations };
}

const none: readonly string[] = [];
