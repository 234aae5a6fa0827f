import { audienceOf, issuerOf, managementAudiences } from '../auth/issuer.ts';
import { managementScopes } from '../auth/scopes.ts';
import { type Api, managementApiId, type Tenant } from '../core/types.ts';
import type { ApiSettings } from './settings.ts';

/** Returns the management API as one of the APIs of a tenant; it has no row and never changes. */
export function managementApi(
  { id: tenant, domain }: Tenant,
  { managementTokenSeconds }: Pick<ApiSettings, 'managementTokenSeconds'>,
): Api {
  return {
    tenant,
    id: managementApiId,
    identifier: audienceOf(domain),
    name: 'Leat Management API',
    scopes: managementScopes.map((value) => ({ value, description: '' })),
    enforcePolicies: false,
    tokenDialect: 'access_token',
    tokenLifetimeSeconds: managementTokenSeconds,
    createdAt: 0,
  };
}

/** Returns whether an audience is the management API, in any form that the token endpoint accepts. */
export function isManagementAudience(
  audience: string,
  { domain }: Tenant,
  { plainHttp }: Pick<ApiSettings, 'plainHttp'>,
): boolean {
  return managementAudiences(domain, issuerOf(domain, plainHttp(domain))).includes(audience);
}
