import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Authentication, Verifier } from '../auth/verify.ts';
import type { Clock, Millis } from '../core/clock.ts';
import { headerOf } from '../core/request-head.ts';
import type { RateState } from '../core/rate.ts';
import type { Tenant } from '../core/types.ts';
import type { ClientAddress } from './http/client-address.ts';
import {
  ForbiddenScope,
  missingAuthentication,
  notFound,
  Problem,
  unauthorized,
  unavailable,
} from './http/problem.ts';
import { admitByRate, type RateLimiter } from './http/rate.ts';
import type { Caller, Operation } from './operation.ts';
import type { TenantDirectory } from './tenants.ts';

/** The tenant and the token of a request that is not authorized yet. */
export interface AuthContext {
  readonly tenant: Tenant;
  readonly authentication: Authentication;
  /** The address that the request came from. */
  readonly address: string;
  readonly now: Millis;
}

export interface AuthenticatorDeps {
  readonly tenants: Pick<TenantDirectory, 'of'>;
  readonly verifier: Pick<Verifier, 'verify'>;
  readonly limiter: RateLimiter;
  readonly clientAddressOf: (request: FastifyRequest['raw']) => ClientAddress;
  readonly clock: Pick<Clock, 'now'>;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
}

/** Performs the first checks of a request to the management API (docs/http-api.md#order-of-checks). */
export interface Authenticator {
  /**
   * Finds the tenant and verifies the token, takes one from the bucket they select, and sets the rate
   * limit headers. Throws 429, 503, or 404 for an unknown host. Returns without a promise where
   * {@link Verifier.verify} does.
   */
  authenticate(
    request: FastifyRequest,
    reply: FastifyReply,
    operation?: Operation,
  ): AuthContext | Promise<AuthContext>;
  /**
   * Verifies the token of an authenticated request again, now that its body has arrived. Takes
   * nothing off any bucket. Rejects with `StoreUnavailable`.
   */
  again(request: FastifyRequest, context: AuthContext): Promise<AuthContext>;
  /**
   * Returns whether a token would still be accepted for an operation. Takes nothing off any bucket.
   * Rejects with `StoreUnavailable`.
   */
  stillValid(
    tenant: Tenant,
    authorization: string | undefined,
    operation: Pick<Operation, 'scopes'>,
  ): boolean | Promise<boolean>;
}

/** Creates the authenticator. */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  return {
    authenticate: (request, reply, operation) => {
      const now = deps.clock.now();
      const client = deps.clientAddressOf(request.raw);
      const tenant = deps.tenants.of(client.host);
      const authorization = headerOf(request.raw, 'authorization');
      const admit = (found: Authentication | Failed): AuthContext => {
        const rate = takeFor(deps.limiter, tenant, found, client, operation);
        admitByRate(reply, rate, now);
        if (!deps.open()) throw unavailable();
        if (tenant === undefined) throw notFound('Not Found');
        if ('failed' in found) throw found.failed;
        return { tenant, authentication: found, address: client.address, now };
      };
      const found = verifyToken(deps, tenant, authorization, now);
      return found instanceof Promise ? found.then(admit) : admit(found);
    },
    again: async (request, context) => {
      const { tenant } = context;
      const authorization = headerOf(request.raw, 'authorization');
      const authentication = await deps.verifier.verify(tenant, authorization, deps.clock.now());
      return { ...context, authentication };
    },
    stillValid: (tenant, authorization, operation) => {
      const isAllowed = (authentication: Authentication): boolean =>
        !(callerOrRefusal({ tenant, authentication }, operation) instanceof Problem);
      const found = deps.verifier.verify(tenant, authorization, deps.clock.now());
      return found instanceof Promise ? found.then(isAllowed) : isAllowed(found);
    },
  };
}

/** Returns the caller of an operation that its token allows. Throws 401 and 403. */
export function authorize(
  context: Pick<AuthContext, 'tenant' | 'authentication'>,
  operation: Pick<Operation, 'scopes'>,
): Caller {
  const caller = callerOrRefusal(context, operation);
  if (caller instanceof Problem) throw caller;
  return caller;
}

function callerOrRefusal(
  { tenant, authentication }: Pick<AuthContext, 'tenant' | 'authentication'>,
  { scopes }: Pick<Operation, 'scopes'>,
): Caller | Problem {
  if (authentication.kind === 'missing') return unauthorized(tenant.domain, missingAuthentication);
  if (authentication.kind === 'invalid') return unauthorized(tenant.domain, authentication.message);
  const { token } = authentication;
  if (!token.global) return unauthorized(tenant.domain, 'Client is not global.');
  if (token.revoked) return unauthorized(tenant.domain, REVOKED);
  return hasAnyScope(token, scopes) ? token : new ForbiddenScope(scopes);
}

const REVOKED = 'Token was revoked: the secret or the keys of its client have changed';

function hasAnyScope({ scopes: own }: Caller, scopes: readonly string[]): boolean {
  return scopes.some((scope) => own.includes(scope));
}

/** A token that could not be verified; thrown once its bucket is known. */
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

function takeFor(
  limiter: RateLimiter,
  tenant: Tenant | undefined,
  found: Authentication | Failed,
  client: ClientAddress,
  operation: Operation | undefined,
): RateState {
  const token = 'kind' in found && found.kind === 'verified' ? found.token : undefined;
  // What gets a 401 must not use up what the clients of the tenant share.
  if (tenant === undefined || token?.global !== true || token.revoked) {
    return limiter.takeOfAddress(client.address);
  }
  const publishes = operation?.countsEvents === true && hasAnyScope(token, operation.scopes);
  return publishes
    ? limiter.takeOfTenant(tenant.id)
    : limiter.takeOfClient(tenant.id, token.bucket);
}
