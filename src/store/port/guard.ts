import type { ConsoleSession } from '../../core/console-session.ts';
import type { ClientAccess, ClientStore } from './clients.ts';
import type { GrantStore } from './grants.ts';
import type { RoleStore } from './roles.ts';

/** Decides about a change by what its caller may do at the moment of the change. */
export type Guard = ClientGuard | SessionGuard;

/** The caller has a bearer token. */
export interface ClientGuard {
  readonly tenant: number;
  readonly session?: undefined;
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

/** The caller has a session of the console. */
export interface SessionGuard {
  readonly tenant: number;
  /** Hash of its secret. */
  readonly session: Uint8Array;
  /**
   * Called as that of {@link ClientGuard} is.
   *
   * @param session `undefined` when it has ended
   */
  check(session: ConsoleSession | undefined): void;
}

/** The commands that change what clients may do. */
export interface GuardedStore {
  readonly clients: Pick<ClientStore, 'create' | 'update' | 'delete'>;
  readonly grants: Pick<GrantStore, 'create' | 'update' | 'delete'>;
  readonly roles: Pick<
    RoleStore,
    'update' | 'delete' | 'addPermissions' | 'removePermissions' | 'addClients' | 'removeClients'
  >;
}
