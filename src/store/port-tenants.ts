import type { Millis } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';

/** The part of the store port that is about tenants. */
export interface TenantStore {
  /** In the order of creation. */
  list(): Promise<Tenant[]>;
  create(
    tenant: Pick<Tenant, 'name' | 'domain'>,
    now: Millis,
  ): Promise<{ created: Tenant } | { refused: 'name_taken' | 'domain_taken' }>;
  rename(
    id: number,
    to: Pick<Tenant, 'name' | 'domain'>,
  ): Promise<'renamed' | 'name_taken' | 'domain_taken' | 'unknown'>;
}
