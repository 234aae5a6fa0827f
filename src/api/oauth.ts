import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { discoveryDocument } from '../auth/discovery.ts';
import { issuerOf } from '../auth/issuer.ts';
import type { Keyring } from '../auth/keys.ts';
import { invalidRequest, Refusal } from '../auth/refusal.ts';
import { refusalAnswer, type TokenAnswer, type TokenEndpoint } from '../auth/token.ts';
import type { Clock } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import type { Tenant } from '../core/types.ts';

export interface OauthDeps {
  readonly tokenEndpoint: TokenEndpoint;
  readonly keyring: Pick<Keyring, 'jwks'>;
  readonly clock: Pick<Clock, 'now'>;
  /** Whether the issuer of a tenant domain begins with `http://`. */
  readonly plainHttp: (domain: string) => boolean;
  readonly bodyBytesMax: number;
  /** The tenant of the request's Host. Throws the problem to answer when there is none. */
  readonly tenantOf: (request: FastifyRequest) => Tenant;
  /** Takes one from the bucket of the remote address. */
  readonly admit: (request: FastifyRequest) => Admission;
  /** Hears the cause of a 500. */
  readonly report: (error: unknown) => void;
}

export interface Admission {
  readonly admitted: boolean;
  /** The three `X-RateLimit` headers, and `Retry-After` unless admitted. */
  readonly headers: Readonly<Record<string, string | number>>;
}

const TOKEN_PATHS = ['/oauth/token', '/oauth/token/'];
const DISCOVERY_PATHS = [
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
];
/** Verifiers may keep keys and documents for 5 minutes; a new key signs 10 minutes after it shows. */
const PUBLIC = 'public, max-age=300';

/** Adds the routes of contract section 14: the token endpoint, the key set, the documents. */
export function registerOauth(app: FastifyInstance, deps: OauthDeps): void {
  app.register((scope, _options, done) => {
    registerToken(scope, deps);
    done();
  });
  app.get('/.well-known/jwks.json', async (request, reply) => {
    const keys = await deps.keyring.jwks(deps.tenantOf(request).id, deps.clock.now());
    return reply.header('cache-control', PUBLIC).send(keys);
  });
  for (const path of DISCOVERY_PATHS) {
    app.get(path, async (request, reply) => {
      const { domain } = deps.tenantOf(request);
      const document = discoveryDocument(issuerOf(domain, deps.plainHttp(domain)));
      return reply.header('cache-control', PUBLIC).send(document);
    });
  }
}

/** In a scope of its own: its bodies are read as bytes, and its errors have the OAuth shape. */
function registerToken(scope: FastifyInstance, deps: OauthDeps): void {
  scope.removeAllContentTypeParsers();
  const limits = { parseAs: 'buffer', bodyLimit: deps.bodyBytesMax } as const;
  scope.addContentTypeParser('*', limits, (_request, body, done) => done(null, body));
  scope.setErrorHandler((error, _request, reply) => {
    const refusal = refusalOf(error);
    if (refusal.status === 500) deps.report(error);
    return answer(reply, refusalAnswer(refusal));
  });
  // The bucket is asked before the body is read.
  scope.addHook('onRequest', (request, reply, done) => {
    const { admitted, headers } = deps.admit(request);
    reply.headers(headers);
    if (admitted) done();
    else answer(reply, refusalAnswer(tooManyRequests));
  });
  for (const path of TOKEN_PATHS) {
    scope.post(path, async (request, reply) => answer(reply, await issue(deps, request)));
  }
}

async function issue(deps: OauthDeps, request: FastifyRequest): Promise<TokenAnswer> {
  const body = textOf(request.body);
  if (body === undefined) return refusalAnswer(invalidRequest('The body is not UTF-8'));
  return deps.tokenEndpoint.issue({
    tenant: deps.tenantOf(request),
    authorization: request.headers.authorization,
    contentType: request.headers['content-type'],
    body,
    now: deps.clock.now(),
  });
}

function textOf(body: unknown): string | undefined {
  if (!Buffer.isBuffer(body)) return '';
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

const tooManyRequests = new Refusal(429, 'too_many_requests', 'Too many requests');

/** What the client is told of something thrown: no cause of ours, and no page of Fastify's. */
function refusalOf(error: unknown): Refusal {
  const status = statusOf(error);
  if (status === 503) {
    const description = 'Service Unavailable';
    return new Refusal(503, 'temporarily_unavailable', description, { 'retry-after': '1' });
  }
  if (status === 413) return new Refusal(413, 'invalid_request', 'Payload Too Large');
  if (status === 404) return new Refusal(404, 'invalid_request', 'Not Found');
  if (status < 500) return invalidRequest('The body cannot be read');
  return new Refusal(500, 'server_error', 'Internal Server Error');
}

/** Fastify's own errors have a `statusCode`, problems of this room a `status`. */
function statusOf(error: unknown): number {
  if (error instanceof StoreUnavailable) return 503;
  const { statusCode, status = statusCode } = Object(error) as Record<string, unknown>;
  return typeof status === 'number' ? status : 500;
}

function answer(reply: FastifyReply, { status, headers, body }: TokenAnswer): FastifyReply {
  return reply.code(status).headers(headers).send(body);
}
