import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Clock } from '../core/clock.ts';
import { traceOf } from '../core/trace.ts';
import { authorize } from './authenticate.ts';
import { type Publish, publishOperationId } from './events.ts';
import { ClientGone } from './http/body.ts';
import { installFastPath } from './http/fast-path.ts';
import { createPlainPostParser, type PlainPost } from './http/plain-post.ts';
import { type ErrorReader, problemBody, tooManyBodies } from './http/problem.ts';
import type { createRouteCounts } from './http/request-metrics.ts';
import { jsonHeaders } from './http/respond.ts';
import { createResponseTexts } from './http/response-text.ts';
import { payerOf, type ServeDeps } from './http/serve.ts';
import type { Operation } from './operation.ts';

export interface FastPublishDeps extends Pick<
  ServeDeps,
  'authenticator' | 'limiter' | 'bodies' | 'open'
> {
  readonly settings: {
    readonly trustProxy: readonly string[];
    readonly limits: { readonly closingMs: number };
  };
  readonly operations: readonly Operation[];
  readonly publish: Publish;
  readonly clock: Pick<Clock, 'now' | 'elapsedMs' | 'after'>;
  readonly readError: ErrorReader;
  /** Absent where no metrics are served. */
  readonly countOf: ReturnType<typeof createRouteCounts> | undefined;
}

/** Longer bodies are not read on the event loop, and a list of events has a long response. */
const bodyBytesMax = 16 * 1024;

/**
 * Serves requests that publish one event directly on the socket, without Fastify and Node's HTTP server:
 * those take more time than all else (docs/adr/0047-plain-publishes-before-fastify.md). The checks are those
 * of the route, in the same order, by the same functions, and so are the responses. Behind trusted proxies
 * the route serves all: it counts the requests under way of each forwarded client.
 */
export function servePublishesFast(app: FastifyInstance, deps: FastPublishDeps): void {
  const { settings, open, clock } = deps;
  if (settings.trustProxy.length > 0) return;
  const { server } = app;
  const operation = deps.operations.find(({ operationId }) => operationId === publishOperationId);
  assert.ok(operation);
  const parse = createPlainPostParser(`/api/v2${operation.path}`, bodyBytesMax);
  const fastPath = installFastPath(server, {
    parse: (chunk) => {
      const post = parse(chunk);
      return post?.body[0] === braceOpen ? post : undefined;
    },
    respond: createResponder(deps, operation, server.keepAliveTimeout),
    isOpen: open,
    timeouts: {
      firstMs: () => server.headersTimeout,
      // As Node's server.
      idleMs: () => server.keepAliveTimeout + server.keepAliveTimeoutBuffer,
      stalledMs: () => server.timeout,
      onLate: (socket) => void server.emit('clientError', new LateRequest(), socket),
    },
    clock,
  });
  app.addHook('preClose', async () => fastPath.close(settings.limits.closingMs));
}

/** The first byte of an event; of a list of them it is another one. */
const braceOpen = 0x7b;

/** The error of Node's server for a connection that sends no request. */
class LateRequest extends Error {
  readonly code = 'ERR_HTTP_REQUEST_TIMEOUT';
  override readonly name = 'LateRequest';
}

type Headers = Readonly<Record<string, string>>;

function createResponder(
  deps: FastPublishDeps,
  operation: Operation,
  keepAliveMs: number,
): (post: PlainPost, socket: Socket) => Promise<string> {
  const { open, clock, readError } = deps;
  const count = deps.countOf?.(operation.method, `/api/v2${operation.path}`);
  const textOf = createResponseTexts(clock, keepAliveMs);
  const publishing = { ...deps, operation };
  return async (post, socket) => {
    const startedMs = count === undefined ? 0 : clock.elapsedMs();
    const head = new ResponseHead();
    let status = operation.success;
    let body: string;
    try {
      body = await published(publishing, post, socket, head);
      head.headers(jsonHeaders);
    } catch (error) {
      if (error instanceof ClientGone) return '';
      const { problem, headers } = readError(error);
      ({ status } = problem);
      body = Buffer.from(JSON.stringify(problemBody(problem))).toString('latin1');
      head.headers({ ...headers, ...jsonHeaders, ...problem.headers });
    }
    count?.(status, startedMs === 0 ? 0 : clock.elapsedMs() - startedMs);
    return textOf({ status, headers: head.values, body, isLast: !open() });
  };
}

class ResponseHead {
  readonly values: Record<string, string> = {};

  headers(values: Headers): void {
    Object.assign(this.values, values);
  }
}

/** Returns the body of a success, in the order of checks of docs/http-api.md. */
async function published(
  deps: FastPublishDeps & { readonly operation: Operation },
  { host, authorization, traceparent, tracestate, body }: PlainPost,
  socket: Socket,
  head: ResponseHead,
): Promise<string> {
  const { authenticator, operation, bodies } = deps;
  const headers = { host, authorization };
  const rawHeaders = ['host', host, 'authorization', authorization];
  const raw = { method: operation.method, headers, rawHeaders, socket };
  const found = authenticator.authenticate({ raw }, head, operation);
  const context = found instanceof Promise ? await found : found;
  const { tenant, now, waitedMs } = context;
  authorize(context, operation);
  payerOf(deps, operation, head, context)?.admit(body.length);
  const share = bodies.open(tenant.id);
  try {
    if (!share.take(body.length)) throw tooManyBodies();
    if (socket.destroyed) throw new ClientGone();
    const trace = traceOf(traceparent, tracestate);
    const mediaType = 'application/json';
    const publication = { tenant, now, waitedMs, body, mediaType, trace };
    const { json = '' } = await deps.publish(publication);
    return json;
  } finally {
    share.close();
  }
}
