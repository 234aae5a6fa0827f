import { isUtf8 } from 'node:buffer';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { discoveryDocument } from '../auth/discovery.ts';
import { issuerOf } from '../auth/issuer.ts';
import type { Ed25519Jwk } from '../auth/key-use.ts';
import type { Keyring } from '../auth/keys.ts';
import { invalidRequest, TokenError } from '../auth/token-error.ts';
import {
  errorResponse,
  type HandledRequest,
  type TokenEndpoint,
  type TokenResponse,
} from '../auth/token.ts';
import type { Clock } from '../core/clock.ts';
import { headerOf } from '../core/request-head.ts';
import type { Log } from '../core/log.ts';
import type { Tenant } from '../core/types.ts';
import { tokenRequest } from './audit-entry.ts';
import type { AuditRecorder } from './audit-recorder.ts';
import { ClientGone, readBody } from './http/body.ts';
import type { ClientAddress } from './http/client-address.ts';
import { Problem, problemOf, unavailable } from './http/problem.ts';
import { admitByRate, type RateLimiter } from './http/rate.ts';
import { send } from './http/respond.ts';
import type { BodyRule } from './operation.ts';
import type { ApiSettings } from './settings.ts';
import type { TenantLookup } from './tenants.ts';

export interface OauthDeps {
  readonly tokenEndpoint: TokenEndpoint;
  readonly keyring: Pick<Keyring, 'jwks'>;
  readonly webhookKeyring: Pick<Keyring<Ed25519Jwk>, 'jwks'>;
  readonly audit: Pick<AuditRecorder, 'note'>;
  readonly tenants: Pick<TenantLookup, 'of' | 'refusal'>;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress' | 'takeOfVerifier'>;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  readonly settings: Pick<ApiSettings, 'plainHttp'> & {
    readonly limits: Pick<ApiSettings['limits'], 'tokenBodyBytesMax'>;
  };
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Pick<Log, 'error'>;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
}

const TOKEN_PATHS = ['/oauth/token', '/oauth/token/'];
const DISCOVERY_PATHS = [
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
];
/** Verifiers may cache keys and documents for 5 minutes; a key signs 10 minutes after it is published. */
const PUBLIC = { 'cache-control': 'public, max-age=300' };
/** The first key of a tenant signs at once, so a key set without any must not be cached. */
const UNCACHED = { 'cache-control': 'no-store' };

/** Adds the token endpoint, the key sets and the discovery documents (docs/http-api.md#token-endpoint). */
export function registerOauth(app: FastifyInstance, deps: OauthDeps): void {
  app.register((scope, _options, done) => {
    registerToken(scope, deps);
    done();
  });
  const publish = <T extends object>(
    path: string,
    document: (tenant: Tenant) => T | Promise<T>,
    isCached: (body: T) => boolean = () => true,
  ): void => {
    app.get(path, async (request, reply) => {
      const { address } = deps.clientAddressOf(request.raw);
      admitByRate(reply, deps.limiter.takeOfVerifier(address), deps.clock.now());
      const body = await document(tenantOf(deps, request));
      return send(reply, 200, { headers: isCached(body) ? PUBLIC : UNCACHED, body });
    });
  };
  publish('/.well-known/jwks.json', ({ id }) => deps.keyring.jwks(id, deps.clock.now()));
  publish(
    '/.well-known/webhook-keys.json',
    ({ id }) => deps.webhookKeyring.jwks(id, deps.clock.now()),
    ({ keys }) => keys.length > 0,
  );
  for (const path of DISCOVERY_PATHS) {
    publish(path, ({ domain }) =>
      discoveryDocument(issuerOf(domain, deps.settings.plainHttp(domain))),
    );
  }
}

/** Adds the token endpoint in a scope of its own, where every error has the shape of OAuth's. */
function registerToken(scope: FastifyInstance, deps: OauthDeps): void {
  scope.setErrorHandler((error, _request, reply) => sendError(deps, reply, error));
  scope.addHook('onRequest', async (request, reply) => admit(deps, request, reply));
  for (const path of TOKEN_PATHS) {
    scope.post(path, async (request, reply) => respond(reply, await issue(deps, request, reply)));
  }
}

/** Takes one from the bucket of the remote address and writes the rate headers. */
function admit(deps: OauthDeps, request: FastifyRequest, reply: FastifyReply): void {
  const { address } = deps.clientAddressOf(request.raw);
  admitByRate(reply, deps.limiter.takeOfAddress(address), deps.clock.now());
  if (!deps.open()) throw unavailable();
}

async function issue(
  deps: OauthDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<TokenResponse> {
  const tenant = tenantOf(deps, request);
  const { address } = deps.clientAddressOf(request.raw);
  const userAgent = request.headers['user-agent'];
  const note = ({ clientId, result }: HandledRequest['audit']): void =>
    deps.audit.note(tokenRequest({ tenant: tenant.id, clientId, address, userAgent }, result));
  try {
    const { response, audit } = await issueFor(deps, tenant, request, reply);
    note(audit);
    return response;
  } catch (error) {
    if (error instanceof ClientGone) throw error;
    const refusal = tokenErrorOf(error);
    if (refusal.status < 500) note({ clientId: undefined, result: { error: refusal.error } });
    throw error;
  }
}

/** Throws where the body cannot be read. */
async function issueFor(
  deps: OauthDeps,
  tenant: Tenant,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<HandledRequest> {
  const now = deps.clock.now();
  const authorization = headerOf(request.raw, 'authorization');
  const contentType = request.headers['content-type'];
  const bytesMax = deps.settings.limits.tokenBodyBytesMax;
  const { bytes } = await readBody(request.raw, reply.raw, bodyRule, { bytesMax });
  if (bytes !== undefined && !isUtf8(bytes)) throw new Problem(400, 'The body is not UTF-8');
  const body = bytes?.toString('utf8') ?? '';
  return deps.tokenEndpoint.issue({ tenant, authorization, contentType, body, now });
}

/** JSON or a form; the token endpoint checks the content. */
const bodyRule: BodyRule = {
  schema: {},
  required: false,
  mediaTypes: { 'application/x-www-form-urlencoded': {} },
};

function tenantOf({ tenants, clientAddressOf, clock }: OauthDeps, request: FastifyRequest): Tenant {
  const { host } = clientAddressOf(request.raw);
  const tenant = tenants.of(host);
  if (tenant === undefined) throw tenants.refusal(host, clock.now());
  return tenant;
}

/** Responds to a thrown error in the shape of RFC 6749 section 5.2. */
function sendError({ log }: OauthDeps, reply: FastifyReply, error: unknown): FastifyReply {
  if (error instanceof ClientGone) return reply.hijack();
  const tokenError = tokenErrorOf(error);
  if (tokenError.status === 500) log.error({ err: error }, 'a token request failed');
  return respond(reply, errorResponse(tokenError));
}

/** Converts a thrown error to an OAuth error; internal causes are not revealed. */
function tokenErrorOf(error: unknown): TokenError {
  if (isMalformed(error)) return invalidRequest('The request cannot be read');
  const { status, message, headers } = problemOf(error);
  switch (status) {
    case 400:
    case 415:
      return invalidRequest(message);
    case 404:
      return new TokenError(404, 'invalid_request', message);
    case 413:
      return new TokenError(413, 'invalid_request', message);
    case 429:
      return new TokenError(429, 'too_many_requests', 'Too many requests', headers);
    case 503:
      return new TokenError(503, 'temporarily_unavailable', 'Service Unavailable', headers);
    default:
      return new TokenError(500, 'server_error', 'Internal Server Error');
  }
}

/** Whether Fastify rejected the request itself, for a malformed header. */
function isMalformed(error: unknown): boolean {
  const { statusCode } = Object(error) as { statusCode?: unknown };
  return typeof statusCode === 'number' && statusCode < 500;
}

function respond(reply: FastifyReply, { status, headers, body }: TokenResponse): FastifyReply {
  return send(reply, status, { headers, body });
}
