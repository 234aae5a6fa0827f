import { type Api, managementApiId, type Tenant } from '../core/types.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Store } from '../store/port/store.ts';
import { isManagementAudience, managementApi } from './management.ts';
import type { ApiSettings } from './settings.ts';

export interface ApiLookupDeps {
  readonly store: Pick<Store, 'apis'>;
  readonly settings: Pick<ApiSettings, 'plainHttp'>;
}

/** The API with this audience; any form of the management API's counts. */
export async function apiOf(
  { store, settings }: ApiLookupDeps,
  tenant: Tenant,
  audience: string,
): Promise<Api | undefined> {
  if (isManagementAudience(audience, tenant, settings)) return managementApi(tenant);
  const api = await store.apis.get(tenant.id, audience);
  // The store also finds by id, which is no audience.
  return api?.identifier === audience ? api : undefined;
}

/** The APIs with these audiences, as {@link apiOf} finds them; with a break after each of them. */
export async function apisOf(
  deps: ApiLookupDeps,
  tenant: Tenant,
  audiences: readonly string[],
): Promise<ReadonlyMap<string, Api | undefined>> {
  const apis = new Map<string, Api | undefined>();
  for (const audience of audiences) {
    if (apis.has(audience)) continue;
    apis.set(audience, await apiOf(deps, tenant, audience));
    // An API of 1,000 scopes is read in some 5 ms, and SQLite answers without a turn of the loop.
    await yieldToEventLoop();
  }
  return apis;
}

/**
 * Id to audience of these APIs, with a break after each of them; one that is deleted at this moment
 * is missing.
 */
export async function audiencesOf(
  { store }: Pick<ApiLookupDeps, 'store'>,
  tenant: Tenant,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const audiences = new Map<string, string>([[managementApiId, managementApi(tenant).identifier]]);
  for (const id of ids) {
    if (audiences.has(id)) continue;
    const found = await store.apis.get(tenant.id, id);
    if (found !== undefined) audiences.set(id, found.identifier);
    await yieldToEventLoop();
  }
  return audiences;
}
