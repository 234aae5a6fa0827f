import type { Socket } from 'node:net';
import type { MessageResponse } from './responses.ts';
import type { MessageRequest, Respond } from './messages.ts';

/** A connection that does nothing for this long is closed. */
const IDLE_MS = 5_000;
/** As much as Node's own server reads of a request's head. */
const HEAD_BYTES_MAX = 16 * 1024;

export interface FastPathDeps {
  /** Never throws and never rejects. */
  readonly respond: Respond;
  /** The whole answer as it goes out, status line, headers and body. */
  readonly textOf: (answer: MessageResponse) => string;
  /** Takes a connection over for good, with what the lane has read of it and not answered. */
  readonly handOver: (socket: Socket, read: Buffer) => void;
}

/** The fast lane in front of Node's HTTP server. */
export interface FastPath {
  /** Takes a new connection in. */
  enter(socket: Socket): void;
  /** Ends connections at rest at once and the others after the answer under way. */
  close(): void;
  /** Connections in the lane. */
  readonly size: number;
}

/**
 * Answers plain requests straight on the socket, at about twice the speed of Node's HTTP server
 * (docs/adr/0012). It knows one kind of request only: a GET without a body, in HTTP/1.1, that
 * arrives whole and alone and is well-formed to the letter. With the first byte that it does not
 * know the connection belongs to Node's server for good, which then reads the same bytes and
 * decides: no request is ever read by two rules.
 */
export function createFastPath(deps: FastPathDeps): FastPath {
  const { respond, textOf, handOver } = deps;
  const connections = new Map<Socket, Connection>();
  let closing = false;

  const enter = (socket: Socket): void => {
    const connection: Connection = { busy: false, ended: false };
    const send = (answer: MessageResponse): void => {
      connection.busy = false;
      if (socket.destroyed) return;
      const taken = socket.write(textOf(answer), 'latin1');
      if (closing || connection.ended) socket.end();
      else if (taken) socket.resume();
      // A client that does not read its answers is not asked for more requests.
      else socket.pause().once('drain', () => socket.resume());
    };
    const listeners = {
      data: (chunk: Buffer): void => {
        const asked = plainRequest(chunk);
        if (asked === undefined) {
          leave();
          handOver(socket.setTimeout(0), chunk);
          return;
        }
        const answer = respond(asked);
        if (!(answer instanceof Promise)) {
          send(answer);
          return;
        }
        connection.busy = true;
        socket.pause();
        void answer.then(send);
      },
      end: (): void => {
        connection.ended = true;
        if (!connection.busy) socket.end();
      },
      timeout: (): void => {
        if (!connection.busy) socket.destroy();
      },
      // The client is gone: `close` follows.
      error: (): void => {},
      close: (): void => leave(),
    };
    const leave = (): void => {
      connections.delete(socket);
      for (const [event, listener] of Object.entries(listeners)) socket.off(event, listener);
    };
    connections.set(socket, connection);
    for (const [event, listener] of Object.entries(listeners)) socket.on(event, listener);
    socket.setTimeout(IDLE_MS);
  };

  return {
    enter,
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
  /** An answer is being made; nothing is read meanwhile. */
  busy: boolean;
  /** The client sends no more. */
  ended: boolean;
}

/**
 * A plain request (RFC 9112 sections 2 to 5), read as narrowly as it can be: the origin form, visible
 * ASCII and single blanks only, no line folding, `Host` first and once, at most one `Authorization`,
 * and none of the headers that change how a request or its connection is read. One expression and
 * one pass: no header begins as another one could, so nothing is tried twice.
 */
const PLAIN = ((): RegExp => {
  const value = String.raw`[\x21-\x7E][\x20-\x7E]*`;
  const special = [
    'host|authorization|content-length|transfer-encoding|te|trailer|expect|upgrade|keep-alive',
    String.raw`proxy-connection|http2-settings|connection(?!: ?keep-alive\r)`,
  ].join('|');
  const other = String.raw`(?!(?i:${special}):)[\w!#$%&'*+.^\x60|~-]+: ?${value}\r\n`;
  return new RegExp(
    String.raw`^GET (?<target>\/[\x21-\x7E]*) HTTP\/1\.1\r\n` +
      String.raw`(?i:host): ?${value}\r\n(?:${other})*` +
      String.raw`(?:(?i:authorization): ?(?<authorization>${value})\r\n(?:${other})*)?\r\n$`,
  );
})();

/** Reads a plain request, or answers that it is none. */
export function plainRequest(chunk: Buffer): MessageRequest | undefined {
  if (chunk.length > HEAD_BYTES_MAX) return undefined;
  const match = PLAIN.exec(chunk.toString('latin1'));
  const [, target, authorization] = match ?? [];
  if (target === undefined) return undefined;
  const authorizations = authorization === undefined ? none : [authorization];
  return { method: 'GET', target, authorizations };
}

const none: readonly string[] = [];
