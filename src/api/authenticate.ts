import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Authentication, Verifier } from '../auth/verify.ts';
import type { Clock, Millis } from '../core/clock.ts';
import type { RateState } from '../core/rate.ts';
import type { Tenant } from '../core/types.ts';
import type { ClientAddress } from './http/client-address.ts';
import {
  forbiddenScope,
  missingAuthentication,
  notFound,
  tooManyRequests,
  unauthorized,
  unavailable,
} from './http/problem.ts';
import { rateHeaders, type RateLimiter, retryAfterSeconds } from './http/rate.ts';
import type { Caller, Operation } from './operation.ts';
import type { TenantDirectory } from './tenants.ts';

/** The tenant and the token of a request that is not authorized yet. */
export interface AuthContext {
  readonly tenant: Tenant;
  readonly authentication: Authentication;
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
   * limit headers. Throws 429, 503, or 404 for an unknown host.
   */
  authenticate(
    request: FastifyRequest,
    reply: FastifyReply,
    operation?: Operation,
  ): Promise<AuthContext>;
  /**
   * Whether a token would still be accepted where it was authorized before; takes nothing off any
   * bucket. Rejects with `StoreUnavailable` where the store does not respond.
   */
  stillValid(tenant: Tenant, authorization: string | undefined): boolean | Promise<boolean>;
}

/** Creates the authenticator. */
export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  return {
    authenticate: async (request, reply, operation) => {
      const now = deps.clock.now();
      const client = deps.clientAddressOf(request.raw);
      const tenant = deps.tenants.of(client.host);
      const found = await verifyToken(deps, tenant, request.headers.authorization, now);
      const rate = takeFor(deps.limiter, tenant, found, client, operation);
      reply.headers(rateHeaders(rate, now));
      if (!rate.admitted) throw tooManyRequests(retryAfterSeconds(rate));
      if (!deps.open()) throw unavailable();
      if (tenant === undefined) throw notFound('Not Found');
      if ('failed' in found) throw found.failed;
      return { tenant, authentication: found, now };
    },
    stillValid: (tenant, authorization) => {
      const found = deps.verifier.verify(tenant, authorization, deps.clock.now());
      return found instanceof Promise ? found.then(isGlobal) : isGlobal(found);
    },
  };
}

/** Returns the caller of an operation that its token allows. Throws 401 and 403. */
export function authorize(
  { tenant, authentication }: AuthContext,
  { scopes }: Pick<Operation, 'scopes'>,
): Caller {
  if (authentication.kind === 'missing') throw unauthorized(tenant.domain, missingAuthentication);
  if (authentication.kind === 'invalid') {
    throw unauthorized(tenant.domain, authentication.message);
  }
  const { token } = authentication;
  if (!token.global) throw unauthorized(tenant.domain, 'Client is not global.');
  if (!scopes.some((scope) => token.scopes.includes(scope))) throw forbiddenScope(scopes);
  return token;
}

/** Scopes are not checked again: they are part of the token and cannot have changed. */
function isGlobal(found: Authentication): boolean {
  return found.kind === 'verified' && found.token.global;
}

/** A token that could not be verified; thrown once its bucket is known. */
interface Failed {
  readonly failed: unknown;
}

async function verifyToken(
  { verifier }: AuthenticatorDeps,
  tenant: Tenant | undefined,
  authorization: string | undefined,
  now: Millis,
): Promise<Authentication | Failed> {
  if (tenant === undefined) return { kind: 'missing' };
  try {
    return await verifier.verify(tenant, authorization, now);
  } catch (failed) {
    return { failed };
  }
}

function takeFor(
  limiter: RateLimiter,
  tenant: Tenant | undefined,
  found: Authentication | Failed,
  client: ClientAddress,
  operation: Operation | undefined,
): RateState {
  const verified = 'kind' in found && found.kind === 'verified';
  if (tenant === undefined || !verified) return limiter.takeOfAddress(client.address);
  if (operation?.countsEvents === true) return limiter.takeOfTenant(tenant.id);
  return limiter.takeOfClient(tenant.id, found.token.bucket);
}
