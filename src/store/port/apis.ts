import type { Api } from '../../core/types.ts';
import type { PageByNumber, NumberedPage } from './page.ts';

export interface ApiStore {
  /** Returns the API with this id or identifier. */
  get(tenant: number, idOrIdentifier: string): Promise<Api | undefined>;
  /** Refuses a page of more than `bytesMax`. */
  list(
    tenant: number,
    page: PageByNumber & { readonly bytesMax?: number | undefined },
  ): Promise<NumberedPage<Api> | { refused: 'too_large' }>;
  create(api: Api): Promise<{ created: Api } | { refused: 'identifier_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Api) => Api,
  ): Promise<{ updated: Api } | { refused: 'unknown' }>;
  /** Removes the API with its grants and its permissions. Returns false when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
}
