import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../core/clock.ts';
import { runInSlices, runSync, type Slices, yieldToEventLoop } from '../../core/slices.ts';
import { traceOf } from '../../core/trace.ts';
import {
  type BodyBounds,
  type BodyPayer,
  ClientGone,
  parseInSteps,
  type RawBody,
  readBody,
  refuseLoneSurrogates,
} from './body.ts';
import type { MemoryPool, MemoryShare } from './memory-pool.ts';
import { authorize, type Authenticator, type AuthContext } from '../authenticate.ts';
import type { Log } from '../../core/log.ts';
import type { OperationResponse, BodyRule, Call, LiveBody, Operation } from '../operation.ts';
import { badBody, type Problem, problemBody, problemOf, tooManyRequests } from './problem.ts';
import { writePaced } from './paced-response.ts';
import { parseQuery, queryText } from './query.ts';
import { slicedJson } from './sliced-json.ts';
import { rateHeaders, type RateLimiter, retryAfterSeconds } from './rate.ts';
import type { TurnQueue } from './turn-queue.ts';
import type { UnreadResponses } from './unread.ts';
import { bodyCheck, bodyText, type Check, pathCheck, queryCheck } from './validation.ts';

export interface ServeDeps {
  readonly authenticator: Authenticator;
  readonly limiter: Pick<RateLimiter, 'spendOfTenant' | 'takeBytes' | 'spendBytes'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Log, 'error'>;
  readonly unread: Pick<UnreadResponses, 'admit'>;
  readonly bodies: MemoryPool;
  /** Does lists, a few at once. */
  readonly lists: TurnQueue;
  /** False from the moment the server is to end: then a connection ends with its answer. */
  readonly open: () => boolean;
  /** Limit of bodies that have none of their own. */
  readonly bodyBytesMax: number;
}

/** What Fastify calls for a route. */
export type RouteHandler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/**
 * Serves an operation: the checks in the order of docs/http-api.md#order-of-checks (429, 401, 403, 415, 413, 400
 * for path, query and body), then its handler. 404 for a path and 405 come before, by the router.
 */
export function serve(deps: ServeDeps, operation: Operation): RouteHandler {
  const checked = checkerOf(deps, operation);
  return whileOpen(deps, async (request, reply) => {
    const context = await deps.authenticator.authenticate(request, reply, operation);
    const share = operation.body && deps.bodies.open(context.tenant.id);
    const answer = await checked(request, reply, context, share)
      .then((call) => responseOf(deps, operation, context, call))
      .finally(() => share?.close());
    if (answer.extraEvents !== undefined && answer.extraEvents > 0) {
      const rate = deps.limiter.spendOfTenant(context.tenant.id, answer.extraEvents);
      reply.headers(rateHeaders(rate, context.now));
    }
    const status = answer.status ?? operation.success;
    if (answer.live !== undefined) return sendLive(reply, status, answer.headers, answer.live);
    const { json, ...rest } = answer;
    const bytes = bytesOf(json);
    if (!deps.unread.admit(context.tenant.id, clientOf(context), bytes, reply.raw))
      return reply.hijack();
    return typeof json === 'object'
      ? sendPieces(deps, reply, status, { ...rest, json, bytes })
      : send(reply, status, { ...rest, json });
  });
}

/** The answer of the handler, as text where it has a body. Lists wait for their tenant's turn. */
function responseOf(
  { lists }: ServeDeps,
  operation: Operation,
  { tenant }: AuthContext,
  call: Call,
): Promise<TextResponse> {
  const handle = async (): Promise<TextResponse> => {
    if (call.isGone()) throw new ClientGone();
    const { body, ...answer } = await operation.handle(call);
    if (body === undefined) return answer;
    // Writing what was stored can take 10 ms, and so can writing the answer.
    if (operation.body !== undefined) await yieldToEventLoop();
    return { ...answer, json: await slicedJson(body) };
  };
  return operation.isList === true ? lists.run(tenant.id, handle) : handle();
}

type TextResponse = Omit<OperationResponse, 'body' | 'json'> & {
  readonly json?: string | readonly Buffer[] | undefined;
};

function bytesOf(json: TextResponse['json']): number {
  if (json === undefined) return 0;
  if (typeof json === 'string') return Buffer.byteLength(json);
  return json.reduce((sum, piece) => sum + piece.length, 0);
}

/** Whoever reads the answer: only a verified token gets this far. */
function clientOf({ authentication }: AuthContext): string {
  return authentication.kind === 'verified' ? authentication.token.bucket : '';
}

/** Answers with a long body, which is written to the connection itself, part by part. */
function sendPieces(
  { open }: Pick<ServeDeps, 'open'>,
  reply: FastifyReply,
  status: number,
  {
    headers,
    json,
    bytes,
  }: { headers?: OperationResponse['headers']; json: readonly Buffer[]; bytes: number },
): FastifyReply {
  const ending = open() ? undefined : { connection: 'close' };
  const length = { 'content-length': String(bytes) };
  const response = reply.headers({ ...jsonHeaders, ...headers, ...length, ...ending }).hijack().raw;
  if (response.destroyed) return reply;
  response.writeHead(status, reply.getHeaders() as OutgoingHttpHeaders);
  if (reply.request.method === 'HEAD') response.end();
  else void writePaced(response, json);
  return reply;
}

/**
 * Answers with a body that goes on. It is written to the connection itself: Fastify would put a
 * stream between, which counts what waits for the client a second time.
 */
function sendLive(
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
  if (reply.request.method === 'HEAD') {
    live.drop();
    response.end();
  } else {
    live.begin(response);
  }
  return reply;
}

/** Serves whatever ends in a problem instead of an answer, with the common headers of all. */
export function whileOpen(
  { log }: Pick<ServeDeps, 'log'>,
  handle: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>,
): RouteHandler {
  return async (request, reply) => {
    try {
      return await handle(request, reply);
    } catch (error) {
      if (error instanceof ClientGone) return reply.hijack();
      const problem = problemOf(error);
      if (problem.status === 500) log.error({ err: error }, 'a request failed');
      return sendProblem(reply, problem);
    }
  };
}

/** Answers a refusal. */
export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  const { status, headers } = problem;
  return send(reply, status, { headers, body: problemBody(problem) });
}

/** Answers with the common headers; without a body when there is none. */
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
const jsonHeaders = { 'content-type': 'application/json; charset=utf-8', ...commonHeaders };

/** Of a body: parsing that many takes some 10 ms. */
const partsMax = 20_000;

type Checker = (
  request: FastifyRequest,
  reply: FastifyReply,
  context: AuthContext,
  share: MemoryShare | undefined,
) => Promise<Call>;

/** Everything between admission and the handler; the validators are compiled once. */
function checkerOf(deps: ServeDeps, operation: Operation): Checker {
  const checkPath = operation.params && pathCheck(operation.params);
  const query = operation.query;
  const checkQuery = query && queryCheck(query);
  const bodyOf = operation.body && bodyReader(deps, operation.body);
  return async (request, reply, context, share) => {
    const caller = authorize(context, operation);
    const { tenant, now } = context;
    operation.admit?.({ tenant, caller });
    const payer = payerOf(deps, operation, reply, context);
    const raw = await bodyOf?.read(request, reply, { payer, share });
    checkPath?.(request.params);
    const sent = query === undefined ? {} : parseQuery(query, queryText(request.raw.url ?? ''));
    checkQuery?.(sent);
    const body = raw && (await bodyOf?.parse(raw));
    return {
      tenant,
      caller,
      now,
      params: request.params,
      query: sent,
      body,
      mediaType: raw?.mediaType ?? '',
      isGone: () => reply.raw.destroyed,
      ...headersOf(deps, request, context),
    };
  };
}

/** A tenant pays for the bytes that it publishes; the headers are of that bucket where it refuses. */
function payerOf(
  { limiter }: ServeDeps,
  { countsEvents }: Operation,
  reply: FastifyReply,
  { tenant, now }: AuthContext,
): BodyPayer | undefined {
  if (countsEvents !== true) return undefined;
  return {
    admit: (bytes) => {
      const rate = limiter.takeBytes(tenant.id, bytes);
      if (rate.admitted) return;
      reply.headers(rateHeaders(rate, now));
      throw tooManyRequests(retryAfterSeconds(rate));
    },
    spend: (bytes) => limiter.spendBytes(tenant.id, bytes),
  };
}

/** What few operations ask of the headers. */
function headersOf(
  { authenticator }: ServeDeps,
  { headers }: FastifyRequest,
  { tenant }: AuthContext,
): Pick<Call, 'trace' | 'header' | 'access'> {
  const { authorization } = headers;
  return {
    trace: traceOf(onlyOne(headers['traceparent'])),
    header: (name) => headers[name]?.toString(),
    access: {
      token: authorization ?? '',
      stillValid: () => authenticator.stillValid(tenant, authorization),
    },
  };
}

/** Of a header that was sent twice Node makes a list, or one text that is not valid. */
function onlyOne(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined;
}

interface BodyReader {
  read(
    request: FastifyRequest,
    reply: FastifyReply,
    bounds: Pick<BodyBounds, 'payer' | 'share'>,
  ): Promise<RawBody>;
  /** Parses and checks it; a long one in steps, with breaks. */
  parse(raw: RawBody): unknown;
}

/** Parsing a longer body, and looking through it again, take more than a millisecond each. */
const bytesAtOnceMax = 64 * 1024;

function bodyReader(deps: ServeDeps, rule: BodyRule): BodyReader {
  const bytesMax = rule.bytesMax ?? deps.bodyBytesMax;
  const schemas = Object.entries(rule.mediaTypes ?? {});
  const checks = new Map(schemas.map(([type, schema]) => [type, bodyCheck(schema)]));
  const checkJson = bodyCheck(rule.schema);
  return {
    read: (request, reply, bounds) =>
      readBody(request.raw, reply.raw, rule, { ...bounds, bytesMax }),
    parse: ({ bytes, mediaType }) => {
      if (bytes === undefined) {
        if (rule.required) throw badBody('Missing body', 'body', bodyText);
        return undefined;
      }
      if (rule.unparsed === true) return bytes;
      const check = checks.get(mediaType) ?? checkJson;
      const steps = checkedInSteps(bytes, check);
      return bytes.length > bytesAtOnceMax ? runInSlices(steps) : runSync(steps);
    },
  };
}

function* checkedInSteps(bytes: Uint8Array, check: Check): Slices<unknown> {
  const parsed = yield* parseInSteps(bytes, partsMax);
  yield;
  check(parsed.value);
  yield;
  refuseLoneSurrogates(parsed);
  yield;
  return parsed.value;
}
