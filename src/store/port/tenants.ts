import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';

/** The part of the store port that is about tenants. */
export interface TenantStore {
  /** In the order of creation. Returns the array of the call before while nothing has changed. */
  list(): Promise<readonly Tenant[]>;
  create(
    tenant: Pick<Tenant, 'name' | 'domain'>,
    now: Millis,
  ): Promise<{ created: Tenant } | { refused: 'name_taken' | 'domain_taken' }>;
  rename(
    id: number,
    to: Pick<Tenant, 'name' | 'domain'>,
  ): Promise<'renamed' | 'name_taken' | 'domain_taken' | 'unknown'>;
  /**
   * Begins to delete a tenant: from now on it is unknown to every other command, its log takes
   * nothing, and its name stays taken until the last {@link removeStep}. Durable when it returns;
   * false when there is no such tenant.
   */
  leave(id: number): Promise<boolean>;
  /** Tenants that {@link leave} began to delete, in the order of their creation. */
  leaving(): Promise<Tenant[]>;
  /**
   * Removes at most `take` rows of a tenant that is leaving; its streams go first, and their owners
   * stop. `isDone` once nothing is left of it, also when it was not leaving. 0 rows without that
   * mean that the step is to be repeated a moment later.
   */
  removeStep(id: number, take: number): Promise<{ removed: number; isDone: boolean }>;
}
