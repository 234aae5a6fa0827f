import { badSignature } from '../auth/verify.ts';
import { type AuthContext, authorize } from './authenticate.ts';
import { unauthorized } from './http/problem.ts';
import type { Caller, CallerGuard, Operation } from './operation.ts';
import { requireSubset } from './scope-rules.ts';

/**
 * Creates the guard of a request that changes what clients may do: it authorizes the caller again in
 * the transaction of the change, so that a caller which was revoked meanwhile changes nothing
 * (docs/http-api.md#scope-delegation).
 *
 * @param required scopes that the caller must have too
 */
export function createCallerGuard(
  context: AuthContext,
  operation: Pick<Operation, 'scopes'>,
  required: readonly string[] = [],
): CallerGuard {
  const { tenant, authentication } = context;
  if (authentication.kind !== 'verified') throw unauthorized(tenant.domain, badSignature);
  const { token, signedWith } = authentication;
  let present: Caller = token;
  return {
    tenant: tenant.id,
    client: token.clientId,
    signedWith,
    check: (access, isSigned) => {
      if (!isSigned) throw unauthorized(tenant.domain, badSignature);
      const renewed = { ...authentication, token: authentication.tokenFor(access) };
      present = authorize({ ...context, authentication: renewed }, operation);
      requireSubset(present, required);
    },
    requireScopes: (scopes) => requireSubset(present, scopes),
  };
}
