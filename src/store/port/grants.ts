import type { Client, Grant } from '../../core/types.ts';
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
    decide: (before: Grant, client: Pick<Client, 'issuer'>) => readonly string[],
  ): Promise<{ updated: Grant } | { refused: 'unknown' }>;
  /**
   * Returns false when there was none. `check` is called before, and nothing is removed when it
   * throws.
   */
  delete(tenant: number, id: string, check?: (before: Grant) => void): Promise<boolean>;
}
