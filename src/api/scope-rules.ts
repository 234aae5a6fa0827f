import { withinOwn } from '../auth/clients.ts';
import { managementScopes } from '../auth/scopes.ts';
import { type Client, type Grant, managementApiId } from '../core/types.ts';
import type { Caller } from './operation.ts';
import { forbiddenScope } from './http/problem.ts';

/**
 * The rule "no more than one's own" of docs/http-api.md#scope-delegation: throws 403, naming what is missing,
 * unless the caller carries all of `scopes`.
 */
export function requireSubset(
  { scopes: own }: Pick<Caller, 'scopes'>,
  scopes: readonly string[],
): void {
  if (!withinOwn(own, scopes)) throw forbiddenScope(scopes.filter((scope) => !own.includes(scope)));
}

/**
 * What a client can do at the management API with its grants. A token of an external issuer says
 * itself what it may do, so its client holds everything.
 */
export function heldScopes(
  { issuer }: Pick<Client, 'issuer'>,
  grants: readonly Pick<Grant, 'api' | 'scope'>[],
): readonly string[] {
  if (issuer !== undefined) return managementScopes;
  return grants.filter(({ api }) => api === managementApiId).flatMap(({ scope }) => scope);
}
