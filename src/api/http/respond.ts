import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { LiveBody, OperationResponse } from '../operation.ts';
import { type Problem, problemBody } from './problem.ts';
import { countResponse } from './request-metrics.ts';
import { yieldToEventLoop } from '../../core/slices.ts';

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

/** Bytes written to a connection at once: at most a millisecond. */
const writeBytes = 256 * 1024;

/**
 * Writes a long body after its head, yields to the event loop after each part, and writes no faster
 * than the client reads. Ends the response; resolves also when the connection ends before.
 */
async function writePaced(response: ServerResponse, pieces: readonly Buffer[]): Promise<void> {
  // A connection that breaks during a write cannot carry a response any more.
  response.on('error', () => {});
  for (const part of partsOf(pieces)) {
    if (response.destroyed) return;
    if (!response.write(part)) await drained(response);
    await yieldToEventLoop();
  }
  response.end();
}

function* partsOf(pieces: readonly Buffer[]): Generator<Buffer> {
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += writeBytes) yield piece.subarray(at, at + writeBytes);
  }
}

/** Resolves when the response takes more, or has closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      response.off('drain', end).off('close', end);
      resolve();
    };
    response.on('drain', end).on('close', end);
  });
}
