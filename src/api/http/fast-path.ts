import { Server as TlsServer } from 'node:tls';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../core/clock.ts';

export interface FastPathDeps<R> {
  /** Returns the one request that a chunk of bytes is; `undefined` for any other bytes. */
  readonly parse: (chunk: Buffer) => R | undefined;
  /**
   * Returns the whole response as it is sent, a character per byte; an empty text for a client that is
   * gone. Never throws and never rejects.
   */
  readonly respond: (request: R, socket: Socket) => string | Promise<string>;
  /** Whether requests are served here, and connections stay open after a response. */
  readonly isOpen: () => boolean;
  readonly timeouts: FastPathTimeouts;
  readonly clock: Pick<Clock, 'after'>;
  /** Takes over a connection for good, with the bytes that were read and not responded to. */
  readonly handOver: (socket: Socket, read: Buffer) => void;
  /** Ends a connection that has failed. */
  readonly onError: (error: Error, socket: Socket) => void;
}

export interface FastPathTimeouts {
  /** From the connection to its first bytes. */
  readonly firstMs: () => number;
  /** Without traffic after a response. */
  readonly idleMs: () => number;
  /** Without traffic while the client does not read a response. */
  readonly stalledMs: () => number;
  /** Ends a connection that has not sent anything. */
  readonly onLate: (socket: Socket) => void;
}

/** The fast path in front of Node's HTTP server. */
export interface FastPath {
  /** Takes a new connection. */
  accept(this: void, socket: Socket): void;
  /**
   * Closes idle connections at once, new ones too, and the others after their response, those that take
   * longer than `graceMs` without one.
   */
  close(graceMs: number): void;
}

/** Starts every new connection of a server on the fast path; call it after the server has its listeners. */
export function installFastPath<R>(
  server: Server,
  deps: Omit<FastPathDeps<R>, 'handOver' | 'onError'>,
): FastPath {
  const event = server instanceof TlsServer ? 'secureConnection' : 'connection';
  const [serve] = server.listeners(event);
  const handOver = (socket: Socket, read: Buffer): void => {
    socket.unshift(read);
    serve?.call(server, socket);
  };
  const onError = (error: Error, socket: Socket): void => {
    server.emit('clientError', error, socket);
  };
  const fastPath = createFastPath({ ...deps, handOver, onError });
  server.removeAllListeners(event).on(event, fastPath.accept);
  return fastPath;
}

/**
 * Responds to plain requests directly on the socket, at two to three times the speed of Node's HTTP server
 * (docs/adr/0012-a-fast-lane-for-messages.md). `parse` accepts one narrow kind of request, which arrives
 * whole and alone. At the first other bytes the connection moves to Node's server for good, which parses
 * the same bytes: no request has two parsers.
 */
function createFastPath<R>(deps: FastPathDeps<R>): FastPath {
  const connections = new Set<Connection<R>>();
  let cutOff: Timer | undefined;
  let isClosing = false;
  const path: Path<R> = {
    ...deps,
    isLast: () => isClosing || !deps.isOpen(),
    leave: (connection) => {
      connections.delete(connection);
      if (connections.size === 0) cutOff?.cancel();
    },
  };
  return {
    accept: (socket) => {
      const connection = new Connection(path, socket);
      connections.add(connection);
      // A TLS handshake may end after closing has begun.
      if (isClosing) connection.endIfIdle();
    },
    close: (graceMs) => {
      isClosing = true;
      for (const connection of connections) connection.endIfIdle();
      if (connections.size === 0) return;
      cutOff = deps.clock.after(graceMs, () => {
        for (const { socket } of connections) socket.destroy();
      });
    },
  };
}

/** What the connections of a fast path have in common. */
interface Path<R> extends FastPathDeps<R> {
  /** Whether a connection ends with its response. */
  readonly isLast: () => boolean;
  readonly leave: (connection: Connection<R>) => void;
}

class Connection<R> {
  readonly socket: Socket;
  readonly #path: Path<R>;
  /** `new`: has sent nothing yet. `busy`: a response is pending. */
  #state: 'new' | 'busy' | 'idle' = 'new';
  /** Bytes that arrived while a response was pending; no more are read until it is sent. */
  #next: Buffer | undefined;
  /** The client has closed its side. */
  #isEnded = false;

  constructor(path: Path<R>, socket: Socket) {
    this.#path = path;
    this.socket = socket;
    for (const [event, listener] of this.#listeners) socket.on(event, listener);
    socket.setTimeout(path.timeouts.firstMs());
  }

  endIfIdle(): void {
    if (this.#state !== 'busy') this.socket.destroySoon();
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#state === 'busy') {
      // A client that sends requests before its responses.
      this.#next = chunk;
      this.socket.pause();
      return;
    }
    const { parse, respond, isOpen, handOver, timeouts } = this.#path;
    const request = isOpen() ? parse(chunk) : undefined;
    if (request === undefined) {
      this.#release();
      handOver(this.socket.setTimeout(0), chunk);
      return;
    }
    if (this.#state === 'new') this.socket.setTimeout(timeouts.idleMs());
    this.#state = 'busy';
    const response = respond(request, this.socket);
    if (typeof response === 'string') this.#send(response);
    else void response.then(this.#send);
  };

  readonly #send = (text: string): void => {
    const { socket } = this;
    this.#state = 'idle';
    if (socket.destroyed) return;
    const isFlushed = socket.write(text, 'latin1');
    if (this.#isEnded || this.#path.isLast()) socket.destroySoon();
    // Serve no more requests of a client that does not read its responses.
    else if (!isFlushed) {
      socket.setTimeout(this.#path.timeouts.stalledMs());
      socket.pause().once('drain', this.#onDrain);
    } else if (this.#next !== undefined) this.#proceed();
  };

  readonly #onDrain = (): void => {
    this.socket.setTimeout(this.#path.timeouts.idleMs());
    this.#proceed();
  };

  readonly #proceed = (): void => {
    const next = this.#next;
    this.#next = undefined;
    this.socket.resume();
    if (next !== undefined) this.#onData(next);
  };

  readonly #onEnd = (): void => {
    this.#isEnded = true;
    if (this.#state !== 'busy') this.socket.end();
  };

  readonly #onTimeout = (): void => {
    if (this.#state === 'idle') this.socket.destroy();
    if (this.#state !== 'new') return;
    this.#release();
    // What is sent now may fail.
    this.socket.on('error', () => {});
    this.#path.timeouts.onLate(this.socket);
  };

  /** As Node's server does: an error of TLS does not close a connection, the listener of errors does. */
  readonly #onError = (error: Error): void => {
    this.#release();
    this.socket.on('error', () => {});
    this.#path.onError(error, this.socket);
  };

  readonly #release = (): void => {
    for (const [event, listener] of this.#listeners) this.socket.off(event, listener);
    this.#path.leave(this);
  };

  readonly #listeners: readonly [event: string, listener: Parameters<Socket['on']>[1]][] = [
    ['data', this.#onData],
    ['end', this.#onEnd],
    ['timeout', this.#onTimeout],
    ['error', this.#onError],
    ['close', this.#release],
  ];
}
