import type { Millis } from '../../core/clock.ts';
import type { Client, Grant } from '../../core/types.ts';
import type { PageByNumber, NumberedPage } from './page.ts';

export interface ClientStore {
  get(tenant: number, id: string): Promise<Client | undefined>;
  list(tenant: number, page: PageByNumber): Promise<NumberedPage<Client>>;
  create(client: Omit<Client, 'version'>): Promise<{ created: Client } | { refused: 'id_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Client, grants: readonly Grant[]) => { after: Client } | { refused: string },
  ): Promise<{ updated: Client } | { refused: string }>;
  /** Removes the client with its grants and its roles. Returns false when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
  /** Records the `jti` of an assertion until it expires. Returns false when it was used before. */
  useAssertion(tenant: number, clientId: string, jti: string, expiresAt: Millis): Promise<boolean>;
}
