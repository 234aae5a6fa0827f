import { StartRefused } from '../core/errors.ts';
import type { Tenant } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';

export const noTenant = 'There is no tenant yet: leat start creates the first one.';

/** Returns the tenant with a name, or the first one. */
export async function tenantNamed(
  store: Pick<Store, 'tenants'>,
  name: string | undefined,
): Promise<Tenant> {
  const tenants = await store.tenants.list();
  const found = name === undefined ? tenants[0] : tenants.find((tenant) => tenant.name === name);
  if (found !== undefined) return found;
  if (tenants.length === 0) throw new StartRefused(noTenant);
  const known = tenants.map((tenant) => tenant.name).join(', ');
  throw new StartRefused(`No tenant is called "${String(name)}"; there are ${known}.`);
}
