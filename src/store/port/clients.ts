import type { Millis } from '../../core/clock.ts';
import type { Client, Grant } from '../../core/types.ts';
import type { BoundedPage, BytesMax, Page, PageByNumber } from './page.ts';

export interface ClientFilter {
  readonly global?: boolean | undefined;
}

export interface ClientStore {
  get(tenant: number, id: string): Promise<Client | undefined>;
  /** Returns clients in the order of their creation; refuses a page of more than `bytesMax`. */
  list(tenant: number, page: PageByNumber & BytesMax & ClientFilter): Promise<BoundedPage<Client>>;
  /** Returns clients in the order of their ids, after the client with the id `after`. */
  listFrom(
    tenant: number,
    page: { after: string | undefined; take: number } & BytesMax & ClientFilter,
  ): Promise<Page<Client>>;
  /** Returns what decides about a token of the client, in one read. */
  access(tenant: number, id: string): Promise<ClientAccess | undefined>;
  create(client: NewClient): Promise<{ created: Client } | { refused: 'id_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Client, grants: readonly Grant[]) => { after: Client } | { refused: string },
  ): Promise<{ updated: Client } | { refused: string }>;
  /**
   * Removes the client with its grants and its roles. Returns false when there was none. `check` is
   * called before, and nothing is removed when it throws.
   */
  delete(
    tenant: number,
    id: string,
    check?: (before: Client, grants: readonly Grant[]) => void,
  ): Promise<boolean>;
  /** Records the `jti` of an assertion until it expires. Returns false when it was used before. */
  useAssertion(tenant: number, clientId: string, jti: string, expiresAt: Millis): Promise<boolean>;
}

export type NewClient = Omit<Client, 'version'>;

export interface ClientAccess extends Pick<Client, 'global' | 'issuer' | 'credentialsVersion'> {
  /** The scopes of the management API that the client is granted now. */
  readonly scopes: readonly string[];
}
