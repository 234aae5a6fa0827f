import { hasAllScopes } from '../auth/clients.ts';
import { managementScopes } from '../auth/scopes.ts';
import { type Client, type Grant, managementApiId } from '../core/types.ts';
import type { Caller } from './operation.ts';
import { ForbiddenScope } from './http/problem.ts';

/**
 * Throws 403 with the missing scopes unless the caller has all of `scopes`, because nobody can grant
 * or take away more than their own scopes (docs/http-api.md#scope-delegation).
 */
export function requireSubset(
  { scopes: own }: Pick<Caller, 'scopes'>,
  scopes: readonly string[],
): void {
  if (hasAllScopes(own, scopes)) return;
  throw new ForbiddenScope([...new Set(scopes)].filter((scope) => !own.includes(scope)));
}

/**
 * Returns the scopes of the management API that a client can request with its grants. A client of an
 * external issuer counts as having all of them, because the issuer chooses the scopes of its tokens.
 */
export function heldScopes(
  { issuer }: Partial<Pick<Client, 'issuer'>>,
  grants: readonly Pick<Grant, 'api' | 'scope'>[],
): readonly string[] {
  if (issuer !== undefined) return managementScopes;
  return grants.filter(({ api }) => api === managementApiId).flatMap(({ scope }) => scope);
}
