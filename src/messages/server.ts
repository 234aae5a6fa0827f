import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createTokenVerifier } from '../auth/signature.ts';
import {
  type ConnectionGuardDeps,
  type ConnectionRule,
  guardConnections,
} from '../api/http/connection-guard.ts';
import { installFastPath } from '../api/http/fast-path.ts';
import { createBrokenRequestListener, endTunnels } from '../api/http/last-response.ts';
import type { Clock } from '../core/clock.ts';
import { partsOfTarget, statusOfHead } from '../core/request-head.ts';
import {
  createMessageResponses,
  type MessageResponse,
  type MessageResponses,
} from './responses.ts';
import { createMessages, type MessageRequest, type Respond, type Trust } from './messages.ts';

/** Time for requests under way to finish on shutdown. */
const CLOSING_MS = 5_000;

/** Options of Node's server. */
const serverOptions: ServerOptions = {
  // Node's own check would respond without the headers of every response.
  requireHostHeader: false,
  /** From the first byte of a request to the end of its headers. */
  headersTimeout: 16_000,
  /** From the first byte of a request to the last of its body. */
  requestTimeout: 30_000,
  /** Both timeouts take effect at most this much later. */
  connectionsCheckingInterval: 2_000,
};
/** Timeout of a connection that sends nothing. */
const FIRST_MS = 5_000;
/** Timeout of a connection without traffic while a response is not read. */
const STALLED_MS = 30_000;

/** The message API on a port of its own. */
export interface MessageServer {
  /** Listens and returns the port. Rejects with the error of the system, for example `EADDRINUSE`. */
  listen(address: { readonly host: string; readonly port: number }): Promise<number>;
  /** Accepts no new connections; resolves when requests under way have got their responses. */
  close(): Promise<void>;
}

export interface MessageServerDeps {
  /** The only origin whose pages may read the responses. */
  readonly origin: string;
  readonly trust: Trust;
  readonly clock: Clock;
  /** Receives the cause of each 500 `Internal Server Error`. */
  readonly report: (error: unknown) => void;
  readonly connections: ConnectionRule;
  /** How long idle connections stay open. */
  readonly keepAliveSeconds: number;
  /** Receives a line about refused connections, once a minute at most. */
  readonly log: ConnectionGuardDeps['log'];
}

/** Creates the message API: docs/message-api.md. */
export function createMessageServer(deps: MessageServerDeps): MessageServer {
  const { origin, trust, clock } = deps;
  const responses = createMessageResponses(origin);
  const verifier = createTokenVerifier();
  const failed = (error: unknown): MessageResponse => {
    deps.report(error);
    return responses.failure;
  };
  const respond = withFailures(
    createMessages({ responses, verifier, trust, now: () => clock.now() }),
    failed,
  );
  const server = createHttpServer(respond, responses);
  server.keepAliveTimeout = deps.keepAliveSeconds * 1000;
  const textOf = createTexts(clock, {
    keepAliveSeconds: deps.keepAliveSeconds,
    isClosing: () => !server.listening,
  });
  server.on(
    'clientError',
    createBrokenRequestListener((status) => textOf(responses[rejections[status]]), deps),
  );
  endTunnels(server, () => textOf(responses.tunnel), deps);
  const fastPath = installFastPath(server, {
    parse: parsePlainRequest,
    respond: (request) => {
      const response = respond(request);
      return response instanceof Promise ? response.then(textOf) : textOf(response);
    },
    isOpen: () => true,
    timeouts: {
      firstMs: () => FIRST_MS,
      // As Node's server.
      idleMs: () => server.keepAliveTimeout + server.keepAliveTimeoutBuffer,
      stalledMs: () => STALLED_MS,
      onLate: (socket) => socket.destroy(),
    },
    clock,
  });
  guardConnections(server, { rule: deps.connections, clock, log: deps.log });

  return {
    listen: async (address) => {
      server.listen(address);
      await once(server, 'listening');
      const bound = server.address();
      return typeof bound === 'object' ? (bound?.port ?? address.port) : address.port;
    },
    close: async () => {
      const closed = once(server, 'close');
      const cutOff = clock.after(CLOSING_MS, () => server.closeAllConnections());
      server.close();
      fastPath.close(CLOSING_MS);
      await closed;
      cutOff.cancel();
    },
  };
}

/** Turns unexpected errors into responses. */
function withFailures(respond: Respond, failed: (error: unknown) => MessageResponse): Respond {
  return (request) => {
    try {
      const response = respond(request);
      return response instanceof Promise ? response.catch(failed) : response;
    } catch (error) {
      return failed(error);
    }
  };
}

/** Creates Node's server, which serves all requests that are not plain. */
function createHttpServer(respond: Respond, responses: MessageResponses): Server {
  const respondTo = (request: IncomingMessage): MessageResponse | Promise<MessageResponse> => {
    const { method = '', url: target = '', httpVersion, rawHeaders, headersDistinct } = request;
    const { authorization: authorizations = [] } = headersDistinct;
    const status = statusOfHead({ httpVersion, rawHeaders, target });
    if (status !== undefined) return responses[rejections[status]];
    return respond({ method, target: partsOfTarget(target)?.path ?? '', authorizations });
  };
  const listener = (request: IncomingMessage, reply: ServerResponse): void => {
    const send = ({ status, headers, body }: MessageResponse): void => {
      const isLast = !server.listening || headers.includes('close');
      if (isLast) reply.shouldKeepAlive = false;
      reply.writeHead(status, [...headers]).end(body);
    };
    const response = respondTo(request);
    // Synchronously if possible: the next bytes of the connection may be invalid and end it.
    if (response instanceof Promise) void response.then(send);
    else send(response);
  };
  const server = createServer(serverOptions, listener);
  server.setTimeout(STALLED_MS);
  // Without a listener Node would respond 417 itself.
  server.on('checkExpectation', (...args) => server.emit('request', ...args));
  return server;
}

/** The responses to invalid HTTP, by status. */
const rejections = {
  400: 'malformedRequest',
  408: 'lateRequest',
  413: 'hugeRequest',
  431: 'hugeHeader',
  501: 'otherCoding',
  505: 'otherVersion',
} as const;

/** Limit of the request line and headers, as in Node's HTTP server. */
const HEAD_BYTES_MAX = 16 * 1024;

/**
 * A plain request: a narrow subset of RFC 9112 sections 2 to 5. Origin form, visible ASCII and single
 * blanks only, no line folding, `Host` first and once, a name or an IPv4 address, at most one
 * `Authorization`, and no header that changes how a request or its connection is parsed. The
 * alternatives exclude each other, so that the expression does not backtrack.
 */
const PLAIN = ((): RegExp => {
  const host = String.raw`[\w-]+(?:\.[\w-]+)*\.?(?::\d+)?`;
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

/** Parses a well-formed GET without a body, whole and alone; returns `undefined` for any other bytes. */
export function parsePlainRequest(chunk: Buffer): MessageRequest | undefined {
  if (chunk.length > HEAD_BYTES_MAX) return undefined;
  const match = PLAIN.exec(chunk.toString('latin1'));
  const [, target, authorization] = match ?? [];
  if (target === undefined) return undefined;
  const authorizations = authorization === undefined ? noAuthorizations : [authorization];
  return { method: 'GET', target, authorizations };
}

const noAuthorizations: readonly string[] = [];

/**
 * Creates a function that serializes responses for the wire, in ASCII: status line, headers, `Date`
 * (RFC 9110 section 6.6.1), `Keep-Alive` unless the connection ends, and body. A text is cached while
 * its `Date` is current, for a second.
 */
function createTexts(
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
      return serialize(response, isLast ? [date] : [date, 'Connection: close']);
    }
    const known = texts.get(response);
    if (known !== undefined) return known;
    const text = serialize(response, isLast ? [date] : [date, ...staysOpen]);
    texts.set(response, text);
    return text;
  };
}

function serialize({ status, headers, body }: MessageResponse, added: readonly string[]): string {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`];
  for (let index = 0; index < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${[...lines, ...added].join('\r\n')}\r\n\r\n${body}`;
}
