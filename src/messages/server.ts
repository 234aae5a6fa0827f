import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
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
  type MessageResponse,
  type MessageResponses,
  createMessageResponses,
} from './responses.ts';
import { parsePlainRequest } from './plain-request.ts';
import { createMessages, type Respond, type Trust } from './messages.ts';
import { createTexts } from './text.ts';

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
