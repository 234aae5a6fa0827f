import type { Authentication } from '../auth/verify.ts';
import { badSignature } from '../auth/verify.ts';
import type { ClientGuard, SessionGuard } from '../store/port/guard.ts';
import { type AuthContext, authorize } from './authenticate.ts';
import { unauthorized } from './http/problem.ts';
import type { Caller, CallerGuard, Operation } from './operation.ts';
import { requireSubset } from './scope-rules.ts';
import type { VerifiedSession } from './session-reader.ts';

/**
 * Creates the guard of a request that changes what clients may do: it authorizes the caller again in
 * the transaction of the change, so that a caller which was revoked meanwhile changes nothing
 * (docs/http-api.md#scope-delegation).
 *
 * @param required scopes that the caller must have too
 */
export function createCallerGuard(
  context: AuthContext,
  operation: Pick<Operation, 'operationId' | 'scopes'>,
  required: readonly string[] = [],
): CallerGuard {
  const { tenant, authentication } = context;
  let present: Caller;
  const accept = (renewed: AuthContext['authentication']): void => {
    present = authorize({ tenant, authentication: renewed }, operation);
    requireSubset(present, required);
  };
  const requireScopes = (scopes: readonly string[]): void => requireSubset(present, scopes);
  if (authentication.kind === 'session') {
    present = authentication.caller;
    return { ...sessionGuard(context, authentication, accept), requireScopes };
  }
  if (authentication.kind !== 'verified') throw unauthorized(tenant.domain, badSignature);
  present = authentication.token;
  return { ...clientGuard(context, authentication, accept), requireScopes };
}

function sessionGuard(
  { tenant }: AuthContext,
  authentication: VerifiedSession,
  accept: (renewed: AuthContext['authentication']) => void,
): SessionGuard {
  return {
    tenant: tenant.id,
    session: authentication.secretHash,
    check: (session) => accept(authentication.renewed(session)),
  };
}

function clientGuard(
  { tenant }: AuthContext,
  authentication: Extract<Authentication, { kind: 'verified' }>,
  accept: (renewed: AuthContext['authentication']) => void,
): ClientGuard {
  const { token, signedWith } = authentication;
  return {
    tenant: tenant.id,
    client: token.clientId,
    signedWith,
    check: (access, isSigned) => {
      if (!isSigned) throw unauthorized(tenant.domain, badSignature);
      accept({ ...authentication, token: authentication.tokenFor(access) });
    },
  };
}
