import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import type { buildConnector } from 'undici';
import { whenSilent } from './early-response.ts';
import { InvalidResponse } from './transport-error.ts';

/** The interim responses of one connection. */
export interface InterimResponses {
  /** Begins with the response to the next request. */
  restart(): void;
}

/**
 * Lets undici accept `100 Continue` from this socket, which any server may send also unasked (RFC 9110
 * section 15.2): undici ends the connection then, but skips a 102. So each 100 is read as a 102. Nobody
 * sees the difference, as no interim response is passed on. A 101 ends the connection: the request asks
 * for no other protocol.
 *
 * Must be called before undici receives the socket.
 */
export function acceptInterimResponses(socket: Socket): InterimResponses {
  const reader = new HeadReader();
  const read = socket.read.bind(socket) as (size?: number) => Buffer | null;
  socket.read = (size?: number): Buffer | null => {
    const chunk = read(size);
    const error = chunk === null || reader.isFinal ? undefined : reader.read(chunk);
    if (error === undefined) return chunk;
    socket.destroy(new InvalidResponse(error));
    return null;
  };
  return reader;
}

/**
 * Returns a connector whose connections accept interim responses before the response to each request, and
 * fail when anything arrives before the first one.
 */
export function withInterimResponses(connect: buildConnector.connector): buildConnector.connector {
  return (options, connected) =>
    connect(options, (...result) => {
      const [error, socket] = result;
      if (error !== null) return connected(error, null);
      acceptBeforeEach(socket);
      let isReported = false;
      socket.once('error', (failure) => {
        if (!isReported) connected(failure, null);
        isReported = true;
      });
      whenSilent(socket, () => {
        isReported = true;
        connected(null, socket);
      });
    });
}

/** For connections that undici keeps itself, and shows to nobody but here. */
function acceptBeforeEach(socket: Socket): void {
  const responses = acceptInterimResponses(socket);
  const onRequest = (sent: unknown): void => {
    if ((sent as { readonly socket?: unknown }).socket === socket) responses.restart();
  };
  subscribe(requestChannel, onRequest);
  socket.once('close', () => unsubscribe(requestChannel, onRequest));
}

const requestChannel = 'undici:client:sendHeaders';

/** Bytes of interim responses and blank lines before a response. */
const bytesMax = 1_048_576;

const endOfHead = '\r\n\r\n';
const one = 0x31;
const two = 0x32;

/** Positions of the digits of a status in a line such as `HTTP/1.1 100 Continue`. */
const statusAt = 9;
const statusEnd = 12;

/** Reads the bytes before the final response, in pieces of any size. */
class HeadReader implements InterimResponses {
  /** The final response has begun: what follows is not read here. */
  isFinal = false;
  /** Bytes of the present status line; those after its status are not counted. */
  #lineBytes = 0;
  /** The digits of its status. */
  #status = '';
  /** How much of the end of the present head has been read. */
  #endBytes = 0;
  #bytes = 0;

  restart(): void {
    this.isFinal = false;
    this.#bytes = 0;
    this.#next();
  }

  /** Changes each 100 to 102; returns why the connection must end, if it must. */
  read(chunk: Buffer): string | undefined {
    for (let at = 0; at < chunk.length && !this.isFinal; at += 1) {
      if (this.#lineBytes === statusEnd) this.#skip(chunk[at] ?? 0);
      else this.#readStatusLine(chunk, at);
      if (this.#status === '101') return 'unexpected answer';
      this.#bytes += 1;
    }
    return this.#bytes > bytesMax ? 'too many bytes before the answer' : undefined;
  }

  #readStatusLine(chunk: Buffer, at: number): void {
    const byte = chunk[at] ?? 0;
    // Parsers skip blank lines before a response.
    if (this.#lineBytes === 0 && (byte === 0x0d || byte === 0x0a)) return;
    if (this.#lineBytes >= statusAt) this.#status += String.fromCharCode(byte);
    if (this.#lineBytes === statusAt && byte !== one) this.isFinal = true;
    this.#lineBytes += 1;
    if (this.#lineBytes === statusEnd && this.#status === '100') chunk[at] = two;
  }

  #skip(byte: number): void {
    if (byte === endOfHead.charCodeAt(this.#endBytes)) this.#endBytes += 1;
    else this.#endBytes = byte === 0x0d ? 1 : 0;
    if (this.#endBytes === endOfHead.length) this.#next();
  }

  #next(): void {
    this.#lineBytes = 0;
    this.#status = '';
    this.#endBytes = 0;
  }
}
