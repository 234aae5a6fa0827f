import type { Millis } from '../../core/clock.ts';
import type { Client, Grant } from '../../core/types.ts';
import type { PageByNumber, NumberedPage } from './page.ts';

export interface ClientStore {
  get(tenant: number, id: string): Promise<Client | undefined>;
  list(tenant: number, page: PageByNumber): Promise<NumberedPage<Client>>;
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
