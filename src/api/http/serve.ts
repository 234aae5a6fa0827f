import assert from 'node:assert/strict';
import type { FastifyInstance, FastifyReply, FastifyRequest, onErrorHookHandler } from 'fastify';
import { roleAccess } from '../../auth/console-roles.ts';
import type { RandomBytes } from '../../core/clock.ts';
import { makeId } from '../../core/ids.ts';
import { runInSlices, runSync, type Slices, yieldToEventLoop } from '../../core/slices.ts';
import { traceOf } from '../../core/trace.ts';
import { eventLoopTurn } from '../../core/turn.ts';
import {
  type BodyPayer,
  type RawBody,
  ClientGone,
  parseInSteps,
  readBody,
  refuseLoneSurrogates,
} from './body.ts';
import type { HeaderSink } from './checked-request.ts';
import type { MemoryPool } from './memory-pool.ts';
import { acceptedEntry, forbidden, isAudited, type Sender } from '../audit-entry.ts';
import type { AuditRecorder } from '../audit-recorder.ts';
import {
  type Authenticator,
  type AuthContext,
  authorize,
  type BucketOwner,
} from '../authenticate.ts';
import { createCallerGuard } from '../guard.ts';
import type { OperationResponse, BodyRule, Call, Caller, Operation } from '../operation.ts';
import { isKnown, tagOf } from './etag.ts';
import { exchangeOf, releaseExchange, setExchange } from './exchange.ts';
import { ForbiddenScope, badBody, noPath, tooManyRequests } from './problem.ts';
import { queryOf } from './query.ts';
import { rejectMalformedPath } from './path.ts';
import { slicedJson } from './sliced-json.ts';
import { rateHeaders, type RateLimiter, retryAfterSeconds } from './rate.ts';
import { send, sendLive, sendPieces } from './respond.ts';
import type { TurnQueue } from './turn-queue.ts';
import type { UnreadResponses } from './unread.ts';
import { payloadWithheld, tellsPayloads, withheldResponse } from './withhold.ts';
import { closed } from '../../schemas/schema.ts';
import { bodyCheck, bodyText, type Check, validatorOf } from './validation.ts';

export interface ServeDeps {
  readonly authenticator: Authenticator;
  readonly limiter: Pick<
    RateLimiter,
    'refundNotModified' | 'spendOfTenant' | 'takeBytes' | 'spendBytes'
  >;
  readonly unread: Pick<UnreadResponses, 'admit'>;
  readonly bodies: MemoryPool;
  /** Runs the handlers of lists, a few at once. */
  readonly lists: TurnQueue;
  /** False once the server is shutting down: connections then end with their response. */
  readonly open: () => boolean;
  /** Limit of bodies that have none of their own. */
  readonly bodyBytesMax: number;
  readonly audit: Pick<AuditRecorder, 'note'>;
  readonly random: RandomBytes;
}

/**
 * Adds the route of an operation. Fastify's phases follow docs/http-api.md#order-of-checks:
 * rate limit, token and scope (onRequest); media type, size and memory of the body (preValidation);
 * path and query (validation); content of the body and stored state (handler).
 */
export function serve(app: FastifyInstance, deps: ServeDeps, operation: Operation): void {
  const { method, path, params, query = noQuery, body } = operation;
  app.route({
    method,
    url: `/api/v2${path}`,
    schema: {
      ...(params === undefined ? {} : { params }),
      querystring: query,
    },
    validatorCompiler: validatorOf,
    onRequest: admit(deps, operation),
    preValidation: [
      ...(body === undefined ? [] : [receive(deps, operation, body)]),
      ...(params === undefined ? [] : [rejectMalformedPath(path, params)]),
    ],
    handler: respond(deps, operation),
    ...(isAudited(operation) ? { onError: noteForbidden(deps, operation) } : {}),
  });
}

const noQuery = closed({});

/** What Fastify calls in one phase of a request. */
type Phase<R = void> = (request: FastifyRequest, reply: FastifyReply) => Promise<R>;

function admit(deps: ServeDeps, operation: Operation): Phase {
  const hasParams = operation.params !== undefined;
  const isTelling = tellsPayloads(operation);
  return async (request, reply) => {
    const context = await deps.authenticator.authenticate(request, reply, operation);
    // The router lets a parameter be empty.
    if (hasParams && Object.values(request.params as object).includes('')) {
      throw noPath(request.originalUrl);
    }
    setExchange(request, { context });
    const caller = authorize(context, operation);
    if (isTelling && isWithheldFrom(caller)) throw payloadWithheld();
    operation.admit?.({ tenant: context.tenant, caller });
    request.query = queryOf(request.raw.url ?? '');
  };
}

function receive(deps: ServeDeps, operation: Operation, rule: BodyRule): Phase {
  const bytesMax = rule.bytesMax ?? deps.bodyBytesMax;
  return async (request, reply) => {
    const exchange = exchangeOf(request);
    const payer = payerOf(deps, operation, reply, exchange.context);
    exchange.share = deps.bodies.open(exchange.context.tenant.id);
    const bounds = { bytesMax, payer, share: exchange.share };
    const turn = eventLoopTurn();
    exchange.raw = await readBody(request.raw, reply.raw, rule, bounds);
    // It came with the head, as most do.
    if (eventLoopTurn() === turn) return;
    // A revoked caller could otherwise act as long as it keeps a body back.
    exchange.context = await deps.authenticator.again(request, exchange.context);
    authorize(exchange.context, operation);
  };
}

/** Creates the function that parses and checks a body; a long one in steps, with breaks. */
function bodyParser(rule: BodyRule): (raw: RawBody | undefined) => unknown {
  const schemas = Object.entries(rule.mediaTypes ?? {});
  const checks = new Map(schemas.map(([type, schema]) => [type, bodyCheck(schema)]));
  const checkJson = bodyCheck(rule.schema);
  return (raw) => {
    const { bytes, mediaType = '' } = raw ?? {};
    if (bytes === undefined) {
      if (rule.required) throw badBody('Missing body', 'body', bodyText);
      return undefined;
    }
    if (rule.unparsed === true) return bytes;
    const check = checks.get(mediaType) ?? checkJson;
    const steps = checkedInSteps(bytes, rule, rule.required ? check : unlessNull(check));
    return bytes.length > bytesAtOnceMax ? runInSlices(steps) : runSync(steps);
  };
}

/** Some clients send `null` for no body; where the body is optional, it counts as none. */
function unlessNull(check: Check): Check {
  return (value) => {
    if (value !== null) check(value);
  };
}

function respond(deps: ServeDeps, operation: Operation): Phase<FastifyReply> {
  const parseBody = operation.body && bodyParser(operation.body);
  return async (request, reply) => {
    const { context, raw } = exchangeOf(request);
    const body = (await parseBody?.(raw)) ?? undefined;
    const call = callOf(deps, operation, request, reply, body);
    const result = await resultOf(deps, operation, context, call);
    releaseExchange(request);
    if (result.extraEvents !== undefined && result.extraEvents > 0) {
      const rate = deps.limiter.spendOfTenant(context.tenant.id, result.extraEvents);
      reply.headers(rateHeaders(rate, context.now));
    }
    const status = result.status ?? operation.success;
    const { json, live, headers, asOf, ...rest } = result;
    if (live !== undefined) return sendLive(reply, status, headers, live);
    if (operation.method === 'GET' && json !== undefined) {
      const tag = await tagOf(json, asOf);
      reply.header('etag', `W/${tag}`);
      if (isKnown(request.headers['if-none-match'], tag)) {
        return sendNotModified(deps, context, reply, headers);
      }
    }
    const bytes = bytesOf(json);
    if (!deps.unread.admit(context.tenant.id, callerOf(context).bucket, bytes, reply.raw)) {
      return reply.hijack();
    }
    if (typeof json !== 'object') return send(reply, status, { ...rest, headers, json });
    const ending = deps.open() ? undefined : { connection: 'close' };
    const length = { 'content-length': String(bytes) };
    return sendPieces(reply, status, { ...headers, ...length, ...ending }, json);
  };
}

function sendNotModified(
  { limiter }: Pick<ServeDeps, 'limiter'>,
  context: AuthContext,
  reply: FastifyReply,
  headers: OperationResponse['headers'],
): FastifyReply {
  const rate = limiter.refundNotModified(context.tenant.id, callerOf(context).bucket);
  reply.headers(rateHeaders(rate, context.now));
  return send(reply, 304, { headers });
}

/** Records a request of an audited operation that lacked scopes, whichever phase found that. */
function noteForbidden({ audit }: ServeDeps, operation: Operation): onErrorHookHandler {
  return (request, _reply, error, done) => {
    if (error instanceof ForbiddenScope) {
      const sender = senderOf(request, exchangeOf(request).context);
      audit.note(forbidden(operation, request.params, sender, error.scopes));
    }
    done();
  };
}

function senderOf({ headers }: FastifyRequest, context: AuthContext): Sender {
  const { tenant, address } = context;
  const { clientId, session } = callerOf(context);
  return { tenant: tenant.id, clientId, session, address, userAgent: headers['user-agent'] };
}

/** Returns the caller of a request whose token or session was verified. */
function callerOf({ authentication }: AuthContext): BucketOwner {
  if (authentication.kind === 'session') return authentication.caller;
  assert.ok(authentication.kind === 'verified');
  return authentication.token;
}

function callOf(
  { authenticator, random }: ServeDeps,
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
  body: unknown,
): Call {
  const { context, raw } = exchangeOf(request);
  const { headers, params } = request;
  const { tenant, now, waitedMs } = context;
  const { authorization } = headers;
  return {
    tenant,
    caller: callerOf(context),
    now,
    waitedMs,
    params,
    query: request.query,
    body,
    mediaType: raw?.mediaType ?? '',
    guard: (required) => createCallerGuard(context, operation, required),
    isGone: () => reply.raw.destroyed,
    trace: traceOf(onlyOne(headers['traceparent']), onlyOne(headers['tracestate'])),
    headerValues: (name) => request.raw.headersDistinct[name] ?? [],
    entry: (...targets) => ({
      ...acceptedEntry(operation, { params, body }, senderOf(request, context), targets),
      id: makeId('log_', now, random),
    }),
    access: {
      token: authorization ?? callerOf(context).bucket,
      stillValid: () => authenticator.stillValid(context, authorization, operation),
    },
  };
}

function isWithheldFrom({ session }: Caller): boolean {
  return session !== undefined && roleAccess[session.role].isWithheld;
}

/** Node makes a repeated header a list, or joins it to a text that is not valid. */
function onlyOne(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined;
}

/** Returns the response of the handler, its body as text. Lists wait for their tenant's turn. */
function resultOf(
  { lists }: ServeDeps,
  operation: Operation,
  { tenant }: AuthContext,
  call: Call,
): Promise<TextResponse> {
  const handle = async (): Promise<TextResponse> => {
    if (call.isGone()) throw new ClientGone();
    const handled = await operation.handle(call);
    const { body, ...response } = isWithheldFrom(call.caller)
      ? await withheldResponse(handled)
      : handled;
    if (body === undefined) return response;
    // Writing what was stored can take 10 ms, and so can writing the response.
    if (operation.body !== undefined) await yieldToEventLoop();
    const { as_of: asOf } = Object(body) as { readonly as_of?: unknown };
    return { ...response, json: await slicedJson(body), asOf };
  };
  return operation.isList === true ? lists.run(tenant.id, handle) : handle();
}

type TextResponse = Omit<OperationResponse, 'body' | 'json'> & {
  readonly json?: string | readonly Buffer[] | undefined;
  /** The field `as_of` of the body. */
  readonly asOf?: unknown;
};

function bytesOf(json: TextResponse['json']): number {
  if (json === undefined) return 0;
  if (typeof json === 'string') return Buffer.byteLength(json);
  return json.reduce((sum, piece) => sum + piece.length, 0);
}

/** Returns the tenant's bucket of published bytes; the headers of a 429 are those of that bucket. */
export function payerOf(
  { limiter }: Pick<ServeDeps, 'limiter'>,
  { countsEvents }: Operation,
  reply: HeaderSink,
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

/** Arrays, objects and fields of a body: parsing that many takes some 10 ms. */
const partsMax = 20_000;

/** Parsing a longer body, and reading through it again, take more than a millisecond each. */
const bytesAtOnceMax = 64 * 1024;

function* checkedInSteps(
  bytes: Uint8Array,
  { numbersKept }: BodyRule,
  check: Check,
): Slices<unknown> {
  const parsed = yield* parseInSteps(bytes, { partsMax, numbersKept });
  yield;
  check(parsed.value);
  yield;
  refuseLoneSurrogates(parsed);
  yield;
  return parsed.kept;
}
