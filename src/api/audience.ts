import { type Api, managementApiId, type Tenant } from '../core/types.ts';
import type { Store } from '../store/port.ts';
import { isManagementAudience, managementApi } from './management.ts';
import type { ApiSettings } from './settings.ts';

export interface AudienceDeps {
  readonly store: Pick<Store, 'apis'>;
  readonly settings: Pick<ApiSettings, 'plainHttp'>;
}

/** The API with this audience; any form of the management API's counts. */
export async function apiOf(
  { store, settings }: AudienceDeps,
  tenant: Tenant,
  audience: string,
): Promise<Api | undefined> {
  if (isManagementAudience(audience, tenant, settings)) return managementApi(tenant);
  const api = await store.apis.get(tenant.id, audience);
  // The store also finds by id, which is no audience.
  return api?.identifier === audience ? api : undefined;
}

/** Id to audience of these APIs; one that is deleted at this moment is missing. */
export async function audiencesOf(
  { store }: Pick<AudienceDeps, 'store'>,
  tenant: Tenant,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const audiences = new Map<string, string>([[managementApiId, managementApi(tenant).identifier]]);
  for (const id of ids) {
    if (audiences.has(id)) continue;
    const found = await store.apis.get(tenant.id, id);
    if (found !== undefined) audiences.set(id, found.identifier);
  }
  return audiences;
}
