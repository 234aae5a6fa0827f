import type { Client, Grant } from '../../core/types.ts';
import type { BoundedPage, BytesMax, Page, PageByNumber } from './page.ts';

export interface GrantFilter {
  readonly client?: string | undefined;
  /** Id of an API. */
  readonly api?: string | undefined;
}

export interface GrantStore {
  get(tenant: number, id: string): Promise<Grant | undefined>;
  /** Returns the grant of one client for one API. */
  of(tenant: number, client: string, api: string): Promise<Grant | undefined>;
  /** Returns grants in the order of their ids; refuses a page of more than `bytesMax`. */
  list(tenant: number, page: PageByNumber & BytesMax & GrantFilter): Promise<BoundedPage<Grant>>;
  /** Returns grants in the order of their ids, after the grant with the id `after`. */
  listFrom(
    tenant: number,
    page: { after: string | undefined; take: number } & BytesMax & GrantFilter,
  ): Promise<Page<Grant>>;
  create(
    grant: Grant,
  ): Promise<{ created: Grant } | { refused: 'exists' | 'unknown_client' | 'unknown_api' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Grant, client: Pick<Client, 'issuer'>) => Pick<Grant, 'scope' | 'carriedJson'>,
  ): Promise<{ updated: Grant } | { refused: 'unknown' }>;
  /**
   * Returns false when there was none. `check` is called before, and nothing is removed when it
   * throws.
   */
  delete(tenant: number, id: string, check?: (before: Grant) => void): Promise<boolean>;
}
