import { managementScopes } from '../auth/scopes.ts';
import { operatorsOnly } from './http/problem.ts';
import type { Call } from './operation.ts';
import type { TenantLookup } from './tenants.ts';

/** How operations that concern the whole service recognize the operators of it. */
export interface OperatorsDeps {
  readonly tenants: Pick<TenantLookup, 'isFirst'>;
}

/** The description of these operations begins with it. */
export const operatorsText =
  'For operators: clients of the first tenant that have all scopes, and sessions of its console with the role operator.';

/**
 * Throws 403 unless the caller is an operator: of the first tenant, with all scopes of the management
 * API, as a bootstrap client has them. Other tenants share the service and must not learn of it.
 */
export function requireOperator(
  { tenants }: OperatorsDeps,
  { tenant, caller }: Pick<Call, 'tenant' | 'caller'>,
): void {
  const missing = managementScopes.filter((scope) => !caller.scopes.includes(scope));
  if (!tenants.isFirst(tenant) || missing.length > 0) throw operatorsOnly(missing);
}
