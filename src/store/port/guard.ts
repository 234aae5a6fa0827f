import type { ClientAccess, ClientStore } from './clients.ts';
import type { GrantStore } from './grants.ts';
import type { RoleStore } from './roles.ts';

/** Decides about a change by what its caller may do at the moment of the change. */
export interface Guard {
  readonly tenant: number;
  /** Id of the caller. */
  readonly client: string;
  /** The `kid` of the tenant's key that signed the caller's token; absent for another issuer's. */
  readonly signedWith: string | undefined;
  /**
   * Called first in the transaction of the change, and again when that is repeated. Nothing is
   * changed when it throws.
   *
   * @param access `undefined` when there is no such client
   * @param isSigned whether the key still exists; `true` for another issuer's token
   */
  check(access: ClientAccess | undefined, isSigned: boolean): void;
}

/** The commands that change what clients may do. */
export interface GuardedStore {
  readonly clients: Pick<ClientStore, 'create' | 'update' | 'delete'>;
  readonly grants: Pick<GrantStore, 'create' | 'update' | 'delete'>;
  readonly roles: Pick<
    RoleStore,
    'delete' | 'addPermissions' | 'removePermissions' | 'addClients' | 'removeClients'
  >;
}
