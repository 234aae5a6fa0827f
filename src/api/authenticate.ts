import { roleAccess } from '../auth/console-roles.ts';
import type { Authentication, VerifiedToken, Verifier } from '../auth/verify.ts';
import type { Clock, Millis } from '../core/clock.ts';
import { headerOf } from '../core/request-head.ts';
import type { RateState } from '../core/rate.ts';
import type { Tenant } from '../core/types.ts';
import type { CheckedRequest, HeaderSink } from './http/checked-request.ts';
import type { ClientAddress } from './http/client-address.ts';
import {
  ForbiddenScope,
  missingAuthentication,
  Problem,
  unauthorized,
  unavailable,
} from './http/problem.ts';
import { admitByRate, type RateLimiter } from './http/rate.ts';
import type { Caller, Operation } from './operation.ts';
import type { SessionAuthentication, SessionReader } from './session-reader.ts';
import type { TenantLookup } from './tenants.ts';

/** The tenant, and the token or session, of a request that is not authorized yet. */
export interface AuthContext {
  readonly tenant: Tenant;
  readonly authentication: RequestAuthentication;
  /** The address that the request came from. */
  readonly address: string;
  readonly now: Millis;
  /** How long the request has waited until its token or session was verified. */
  readonly waitedMs: Millis;
}

/** By a bearer token; without an `Authorization` header also by a session of the console. */
export type RequestAuthentication = Authentication | SessionAuthentication;

export interface AuthenticatorDeps {
  readonly tenants: Pick<TenantLookup, 'of' | 'ofBrowser' | 'accepted' | 'refusal'>;
  readonly verifier: Pick<Verifier, 'verify'>;
  readonly sessions: Pick<SessionReader, 'read'>;
  readonly limiter: RateLimiter;
  readonly clientAddressOf: (request: CheckedRequest) => ClientAddress;
  readonly clock: Pick<Clock, 'now' | 'elapsedMs'>;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
}

/** Performs the first checks of a request to the management API (docs/http-api.md#order-of-checks). */
export interface Authenticator {
  /**
   * Finds the tenant and verifies the token or the session, takes one from the bucket they select, and
   * sets the rate limit headers. Throws 429, 503, or 404 for an unknown host. Returns without a promise
   * where {@link Verifier.verify} does.
   */
  authenticate(
    request: Checked,
    reply: HeaderSink,
    operation?: Operation,
  ): AuthContext | Promise<AuthContext>;
  /**
   * Verifies the token or session of an authenticated request again, now that its body has arrived. Takes
   * nothing off any bucket. Rejects with `StoreUnavailable`.
   */
  again(request: Checked, context: AuthContext): Promise<AuthContext>;
  /**
   * Returns whether a token, or else the session of a request, would still be accepted for an
   * operation. Takes nothing off any bucket. Rejects with `StoreUnavailable`.
   */
  stillValid(
    held: Held,
    authorization: string | undefined,
    operation: AccessRule,
  ): boolean | Promise<boolean>;
}

/** A request of Fastify, or one of the fast path. */
interface Checked {
  readonly raw: CheckedRequest;
}

/** What was found when a request arrived; without `authentication` only a token counts. */
type Held = Pick<AuthContext, 'tenant'> & Partial<Pick<AuthContext, 'authentication'>>;

/** What of an operation decides who may call it. */
type AccessRule = Pick<Operation, 'operationId' | 'scopes'>;

/** Creates the authenticator. */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  return {
    authenticate: (request, reply, operation) => {
      const now = deps.clock.now();
      const sinceMs = deps.clock.elapsedMs();
      const client = deps.clientAddressOf(request.raw);
      const authorization = headerOf(request.raw, 'authorization');
      // Without a token it may be a browser, whose cookie counts under the domain of its tenant alone.
      const tenant =
        authorization === undefined
          ? deps.tenants.ofBrowser(client.host)
          : deps.tenants.of(client.host);
      const admit = (found: RequestAuthentication | Failed): AuthContext => {
        const rate = takeFor(deps.limiter, tenant, found, client, operation);
        admitByRate(reply, rate, now);
        if (!deps.open()) throw unavailable();
        if (tenant === undefined) throw deps.tenants.refusal(client.host, now);
        if ('failed' in found) throw found.failed;
        if (acceptedCaller(found) !== undefined) deps.tenants.accepted(client.host, now);
        const waitedMs = deps.clock.elapsedMs() - sinceMs;
        return { tenant, authentication: found, address: client.address, now, waitedMs };
      };
      const found =
        (authorization === undefined && tenant !== undefined
          ? readSession(deps, request, { tenant, client }, operation)
          : undefined) ?? verifyToken(deps, tenant, authorization, now);
      return found instanceof Promise ? found.then(admit) : admit(found);
    },
    again: async (request, context) => {
      const authorization = headerOf(request.raw, 'authorization');
      const sinceMs = deps.clock.elapsedMs();
      const authentication = await renew(deps, context, authorization);
      const waitedMs = context.waitedMs + deps.clock.elapsedMs() - sinceMs;
      return { ...context, authentication, waitedMs };
    },
    stillValid: (held, authorization, operation) => {
      const { tenant } = held;
      const isAllowed = (authentication: RequestAuthentication): boolean =>
        !(callerOrRefusal({ tenant, authentication }, operation) instanceof Problem);
      const found = renew(deps, held, authorization);
      return found instanceof Promise ? found.then(isAllowed) : isAllowed(found);
    },
  };
}

function renew(
  { verifier, clock }: Pick<AuthenticatorDeps, 'verifier' | 'clock'>,
  { tenant, authentication }: Held,
  authorization: string | undefined,
): RequestAuthentication | Promise<RequestAuthentication> {
  if (authentication?.kind === 'session') return authentication.again();
  return verifier.verify(tenant, authorization, clock.now());
}

/** Returns the caller of an operation that its token allows. Throws 401 and 403. */
export function authorize(
  context: Pick<AuthContext, 'tenant' | 'authentication'>,
  operation: AccessRule,
): Caller {
  const caller = callerOrRefusal(context, operation);
  if (caller instanceof Problem) throw caller;
  return caller;
}

function callerOrRefusal(
  { tenant, authentication }: Pick<AuthContext, 'tenant' | 'authentication'>,
  { operationId, scopes }: AccessRule,
): Caller | Problem {
  if (authentication.kind === 'refused') return authentication.problem;
  if (authentication.kind === 'session') {
    const { caller } = authentication;
    const isAllowed = roleAccess[caller.session.role].operations.includes(operationId);
    return isAllowed || hasAnyScope(caller, scopes) ? caller : new ForbiddenScope(scopes);
  }
  if (authentication.kind === 'missing') return unauthorized(tenant.domain, missingAuthentication);
  if (authentication.kind === 'invalid') return unauthorized(tenant.domain, authentication.message);
  if (authentication.kind === 'unverifiable') return unavailable(keysUnavailable);
  const { token } = authentication;
  if (!token.global) return unauthorized(tenant.domain, 'Client is not global.');
  if (token.revoked) return unauthorized(tenant.domain, REVOKED);
  return hasAnyScope(token, scopes) ? token : new ForbiddenScope(scopes);
}

const keysUnavailable =
  'The token cannot be verified: the keys of its issuer cannot be fetched. The log has the cause.';
const REVOKED = 'Token was revoked: the secret or the keys of its client have changed';

function hasAnyScope({ scopes: own }: Caller, scopes: readonly string[]): boolean {
  return scopes.some((scope) => own.includes(scope));
}

/** A token or session that could not be verified; thrown once its bucket is known. */
interface Failed {
  readonly failed: unknown;
}

function verifyToken(
  { verifier }: AuthenticatorDeps,
  tenant: Tenant | undefined,
  authorization: string | undefined,
  now: Millis,
): Authentication | Promise<Authentication | Failed> {
  if (tenant === undefined) return { kind: 'missing' };
  const found = verifier.verify(tenant, authorization, now);
  return found instanceof Promise ? found.catch((failed: unknown) => ({ failed })) : found;
}

function readSession(
  { sessions }: AuthenticatorDeps,
  request: Checked,
  place: Parameters<SessionReader['read']>[1],
  operation: Operation | undefined,
): SessionAuthentication | Promise<SessionAuthentication | Failed> | undefined {
  const found = sessions.read(request.raw, place, isUse(request, operation));
  return found instanceof Promise ? found.catch((failed: unknown) => ({ failed })) : found;
}

/** A page that refreshes itself would keep the session of an absent person open. */
function isUse({ raw: { method, headers } }: Checked, operation: Operation | undefined): boolean {
  if (operation === undefined) return false;
  return operation.method !== 'GET' || method === 'HEAD' || headers['leat-background'] !== '1';
}

function takeFor(
  limiter: RateLimiter,
  tenant: Tenant | undefined,
  found: RequestAuthentication | Failed,
  client: ClientAddress,
  operation: Operation | undefined,
): RateState {
  const caller = 'kind' in found ? acceptedCaller(found) : undefined;
  if (tenant === undefined || caller === undefined) return limiter.takeOfAddress(client.address);
  const publishes = operation?.countsEvents === true && hasAnyScope(caller, operation.scopes);
  return publishes
    ? limiter.takeOfTenant(tenant.id)
    : limiter.takeOfClient(tenant.id, caller.bucket);
}

/** What gets a 401 must not use up what the clients of the tenant share. */
function acceptedCaller(found: RequestAuthentication): BucketOwner | undefined {
  if (found.kind === 'session') return found.caller;
  if (found.kind !== 'verified') return undefined;
  return found.token.global && !found.token.revoked ? found.token : undefined;
}

/** A caller with a rate bucket of its own. */
export type BucketOwner = Caller & Pick<VerifiedToken, 'bucket'>;
