import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { createTokenVerifier } from '../auth/signature.ts';
import {
  type ConnectionGuardDeps,
  type ConnectionRule,
  endWith,
  guardConnections,
} from '../api/http/connection-guard.ts';
import type { Clock } from '../core/clock.ts';
import {
  type MessageResponse,
  type MessageResponses,
  createMessageResponses,
} from './responses.ts';
import { createFastPath } from './fast-path.ts';
import { createMessages, type Respond, type Trust } from './messages.ts';
import { createTexts } from './text.ts';

/** After the end is asked for, requests under way have this long. */
const CLOSING_MS = 5_000;

/** Options of Node's server; the fast lane closes silent connections sooner. */
const serverOptions: ServerOptions = {
  requireHostHeader: false,
  /** From the first byte of a request to the end of its headers. */
  headersTimeout: 16_000,
  /** From the first byte of a request to the last of its body. */
  requestTimeout: 30_000,
  /** Both take effect this much later at most. */
  connectionsCheckingInterval: 2_000,
};
/** A connection on which nothing moves, for example because the responses are not read. */
const IDLE_MS = 30_000;

/** The message API on a port of its own. */
export interface MessageServer {
  /** Listens; answers the port. Rejects with what the system says, for example `EADDRINUSE`. */
  listen(address: { readonly host: string; readonly port: number }): Promise<number>;
  /** Takes no new connection and ends when requests under way have been answered. */
  close(): Promise<void>;
}

export interface MessageServerDeps {
  /** The one origin whose pages may read the answers. */
  readonly origin: string;
  readonly trust: Trust;
  readonly clock: Clock;
  /** Hears of what answers 500 `Internal Server Error`. */
  readonly report: (error: unknown) => void;
  readonly connections: ConnectionRule;
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
  const respond = guarded(
    createMessages({ responses, verifier, trust, now: () => clock.now() }),
    failed,
  );
  const textOf = createTexts(clock);
  const server = createHttpServer(respond, responses);
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || isAnswered(error, socket)) {
      socket.destroy();
    } else {
      endWith(socket, textOf(refusalOf(error.code, responses)), deps);
    }
  });
  const lane = installFastPath(server, respond, textOf);
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
      lane.close();
      await closed;
      cutOff.cancel();
    },
  };
}

/** What fails unexpectedly is an answer too. */
function guarded(respond: Respond, failed: (error: unknown) => MessageResponse): Respond {
  return (asked) => {
    try {
      const answer = respond(asked);
      return answer instanceof Promise ? answer.catch(failed) : answer;
    } catch (error) {
      return failed(error);
    }
  };
}

/** Node's own server, for every request that is not a plain one. */
function createHttpServer(respond: Respond, responses: MessageResponses): Server {
  const answerTo = (request: IncomingMessage): MessageResponse | Promise<MessageResponse> => {
    const { method = '', url: target = '', httpVersion, headersDistinct } = request;
    const { authorization: authorizations = [], host = [] } = headersDistinct;
    // RFC 9112 section 3.2. Node would answer by itself, without the headers of every answer.
    if (host.length > 1 || (host.length === 0 && httpVersion !== '1.0')) {
      return responses.malformedRequest;
    }
    return respond({ method, target, authorizations });
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const send = ({ status, headers, body }: MessageResponse): void => {
      if (!server.listening) response.shouldKeepAlive = false;
      response.writeHead(status, [...headers]).end(body);
    };
    const answer = answerTo(request);
    // At once where that is possible: what follows on the connection may be no request.
    if (answer instanceof Promise) void answer.then(send);
    else send(answer);
  };
  const server = createServer(serverOptions, listener);
  server.setTimeout(IDLE_MS);
  // Nor is Node to answer 417 by itself.
  server.on('checkExpectation', listener);
  return server;
}

/** Lets every new connection begin in the fast lane. */
function installFastPath(
  server: Server,
  respond: Respond,
  textOf: (answer: MessageResponse) => string,
): ReturnType<typeof createFastPath> {
  const [serve] = server.listeners('connection');
  const handOver = (socket: Socket, read: Buffer): void => {
    socket.unshift(read);
    serve?.call(server, socket);
  };
  const lane = createFastPath({ respond, textOf, handOver });
  server.removeAllListeners('connection').on('connection', lane.enter);
  return lane;
}

/** Whether a time-out ends a request that was answered before all of its body had come. */
function isAnswered({ code }: NodeJS.ErrnoException, { bytesWritten }: Socket): boolean {
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' && bytesWritten > 0;
}

/** The answer to what is no HTTP request, by the code of Node's parser. */
function refusalOf(code: string | undefined, responses: MessageResponses): MessageResponse {
  if (code === 'HPE_HEADER_OVERFLOW') return responses.hugeHeader;
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return responses.hugeRequest;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return responses.lateRequest;
  return responses.malformedRequest;
}
