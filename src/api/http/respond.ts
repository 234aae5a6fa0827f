import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { LiveBody, OperationResponse } from '../operation.ts';
import { writePaced } from './paced-response.ts';
import { type Problem, problemBody } from './problem.ts';
import { countResponse } from './request-metrics.ts';

/** Responds to a request that was rejected. */
export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  const { status, headers } = problem;
  const { unknown, ...body } = problemBody(problem);
  const changes = !reading.has(reply.request.method);
  return send(reply, status, { headers, body: unknown && changes ? { ...body, unknown } : body });
}

/** Methods of requests that change nothing. */
const reading = new Set(['GET', 'HEAD']);

/** Responds with the common headers; without a body when there is none. */
export function send(
  reply: FastifyReply,
  status: number,
  { headers, body, json }: Pick<OperationResponse, 'headers' | 'body' | 'json'>,
): FastifyReply {
  const text = json ?? (body === undefined ? undefined : JSON.stringify(body));
  reply.code(status).headers(text === undefined ? commonHeaders : jsonHeaders);
  if (headers !== undefined) reply.headers(headers);
  return reply.send(text);
}

const commonHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' };
/** Headers of every response with a body. */
export const jsonHeaders = { 'content-type': 'application/json; charset=utf-8', ...commonHeaders };

/** Responds with a long JSON text, part by part; `headers` has its length. */
export function sendPieces(
  reply: FastifyReply,
  status: number,
  headers: OperationResponse['headers'],
  pieces: readonly Buffer[],
): FastifyReply {
  return sendLive(
    reply,
    status,
    { ...jsonHeaders, ...headers },
    { begin: (response) => void writePaced(response, pieces), drop: () => {} },
  );
}

/**
 * Responds with a body that is written to the connection directly: Fastify would put a stream
 * between, which buffers the unread bytes a second time.
 */
export function sendLive(
  reply: FastifyReply,
  status: number,
  headers: OperationResponse['headers'],
  live: LiveBody,
): FastifyReply {
  const response = reply.headers({ ...commonHeaders, ...headers }).hijack().raw;
  if (response.destroyed) {
    live.drop();
    return reply;
  }
  response.writeHead(status, reply.getHeaders() as OutgoingHttpHeaders);
  countResponse(reply.request, status);
  if (reply.request.method === 'HEAD') {
    live.drop();
    response.end();
  } else {
    live.begin(response);
  }
  return reply;
}
