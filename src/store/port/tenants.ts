import type { Millis } from '../../core/clock.ts';
import type { Tenant } from '../../core/types.ts';

export interface RemovalQuery {
  readonly take: number;
  readonly from?: RemovalPlace | undefined;
}

/** Where a removal is: a table, and the last row that was removed from it. */
export interface RemovalPlace {
  readonly table: number;
  readonly after: readonly number[];
}

/** The part of the store port for tenants. */
export interface TenantStore {
  /** Returns tenants in the order of creation. Returns the same array while nothing has changed. */
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
   * Begins to remove a tenant: from now on it is unknown to every other command, its log accepts
   * nothing, and its name stays taken until the last {@link removeStep}. Durable when it resolves;
   * false when there is no such tenant.
   */
  leave(id: number): Promise<boolean>;
  /** Returns the tenants that {@link leave} began to remove, in the order of their creation. */
  leaving(): Promise<Tenant[]>;
  /**
   * Removes at most `take` rows of a tenant that is being removed; its streams go first, and their
   * owners stop. `isDone` once nothing of it is left, even if no removal was in progress. 0 rows
   * without `isDone` mean that the step should be repeated a moment later. `next` is where the next step
   * goes on; without a place a step searches all tables from the first one. `tookMs` is how long the
   * server worked on it, without the way to it; absent where there is no server.
   */
  removeStep(
    id: number,
    query: RemovalQuery,
  ): Promise<{
    removed: number;
    isDone: boolean;
    next?: RemovalPlace | undefined;
    tookMs?: number | undefined;
  }>;
}
