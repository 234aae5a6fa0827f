import type { Api } from '../../core/types.ts';
import type { BoundedPage, BytesMax, PageByNumber } from './page.ts';

export interface ApiStore {
  /** Returns the API with this id or identifier. */
  get(tenant: number, idOrIdentifier: string): Promise<Api | undefined>;
  /** Returns APIs with one of `identifiers`, or all; refuses a page of more than `bytesMax`. */
  list(
    tenant: number,
    page: PageByNumber & BytesMax & { readonly identifiers?: readonly string[] | undefined },
  ): Promise<BoundedPage<Api>>;
  create(api: Api): Promise<{ created: Api } | { refused: 'identifier_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Api) => Api,
  ): Promise<{ updated: Api } | { refused: 'unknown' }>;
  /** Removes the API with its grants and its permissions. Returns false when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
}
