import { audienceOf } from '../auth/issuer.ts';
import { type Api, managementApiId, type Tenant } from '../core/types.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Store } from '../store/port/store.ts';
import { isManagementAudience, managementApi } from './management.ts';
import type { ApiSettings } from './settings.ts';

export interface ApiLookupDeps {
  readonly store: Pick<Store, 'apis'>;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'managementTokenSeconds'>;
}

/** Returns the API with this audience, in any of the forms that the management API has. */
export async function apiOf(
  { store, settings }: ApiLookupDeps,
  tenant: Tenant,
  audience: string,
): Promise<Api | undefined> {
  if (isManagementAudience(audience, tenant, settings)) return managementApi(tenant, settings);
  const api = await store.apis.get(tenant.id, audience);
  // The store also finds APIs by id, which is not an audience.
  return api?.identifier === audience ? api : undefined;
}

/** Returns the APIs with these audiences; yields to the event loop after each. */
export async function apisOf(
  deps: ApiLookupDeps,
  tenant: Tenant,
  audiences: readonly string[],
): Promise<ReadonlyMap<string, Api | undefined>> {
  const apis = new Map<string, Api | undefined>();
  for (const audience of audiences) {
    if (apis.has(audience)) continue;
    apis.set(audience, await apiOf(deps, tenant, audience));
    // Reading an API with 1,000 scopes takes some 5 ms, and SQLite blocks the event loop.
    await yieldToEventLoop();
  }
  return apis;
}

/**
 * Returns the audiences of these APIs by their ids, without APIs that have just been deleted; yields to
 * the event loop after each.
 */
export async function audiencesOf(
  { store }: Pick<ApiLookupDeps, 'store'>,
  tenant: Tenant,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const audiences = new Map<string, string>([[managementApiId, audienceOf(tenant.domain)]]);
  for (const id of ids) {
    if (audiences.has(id)) continue;
    const found = await store.apis.get(tenant.id, id);
    if (found !== undefined) audiences.set(id, found.identifier);
    await yieldToEventLoop();
  }
  return audiences;
}
