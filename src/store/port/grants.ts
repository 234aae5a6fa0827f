import type { Grant } from '../../core/types.ts';
import type { Page } from './page.ts';

export interface GrantStore {
  get(tenant: number, id: string): Promise<Grant | undefined>;
  /** Returns the grant of one client for one API. */
  of(tenant: number, client: string, api: string): Promise<Grant | undefined>;
  list(
    tenant: number,
    query: {
      client?: string | undefined;
      api?: string | undefined;
      after: string | undefined;
      take: number;
      bytesMax?: number | undefined;
    },
  ): Promise<Page<Grant>>;
  create(
    grant: Grant,
  ): Promise<{ created: Grant } | { refused: 'exists' | 'unknown_client' | 'unknown_api' }>;
  update(
    tenant: number,
    id: string,
    scope: readonly string[],
  ): Promise<{ updated: Grant } | { refused: 'unknown' }>;
  delete(tenant: number, id: string): Promise<boolean>;
}
