import type { Role, Permission } from '../../core/types.ts';
import type { PageByNumber, NumberedPage, Page } from './page.ts';

export interface RoleStore {
  get(tenant: number, id: string): Promise<Role | undefined>;
  byName(tenant: number, name: string): Promise<Role | undefined>;
  /** Returns roles whose names contain `nameFilter`, in any case of a to z. */
  list(
    tenant: number,
    page: PageByNumber & { readonly nameFilter?: string | undefined },
  ): Promise<NumberedPage<Role>>;
  create(role: Role): Promise<{ created: Role } | { refused: 'name_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Role) => Role,
  ): Promise<{ updated: Role } | { refused: 'unknown' | 'name_taken' }>;
  /**
   * Removes the role with its permissions, clients and users. Returns false when there was none.
   */
  delete(tenant: number, id: string): Promise<boolean>;

  /** Returns permissions in the order of API id and name. */
  permissions(tenant: number, role: string, page: PageByNumber): Promise<NumberedPage<Permission>>;
  /** Adds all or none; a permission that the role has already stays. */
  addPermissions(
    tenant: number,
    role: string,
    permissions: readonly Permission[],
  ): Promise<'added' | 'unknown_role' | 'unknown_api'>;
  /**
   * Removes permissions; one that the role does not have is no error. Returns false when there is
   * no such role.
   */
  removePermissions(
    tenant: number,
    role: string,
    permissions: readonly Permission[],
  ): Promise<boolean>;

  /** Returns ids of clients, in order. */
  clients(tenant: number, role: string, page: PageByNumber): Promise<NumberedPage<string>>;
  /** Adds all or none; a client that has the role already keeps it. */
  addClients(
    tenant: number,
    role: string,
    clients: readonly string[],
  ): Promise<'added' | 'unknown_role' | 'unknown_client'>;
  /**
   * Removes clients; one that does not have the role is no error. Returns false when there is no
   * such role.
   */
  removeClients(tenant: number, role: string, clients: readonly string[]): Promise<boolean>;

  /** Returns ids of users, in order. */
  users(tenant: number, role: string, page: PageByNumber): Promise<NumberedPage<string>>;
  /** Returns ids of users, in order, after the user with the id `after`. */
  usersFrom(
    tenant: number,
    role: string,
    page: { after: string | undefined; take: number },
  ): Promise<Page<string>>;
  /** Adds all or none; a user that has the role already keeps it. */
  addUsers(
    tenant: number,
    role: string,
    users: readonly string[],
  ): Promise<'added' | 'unknown_role' | 'unknown_user'>;
  /**
   * Removes users; one that does not have the role is no error. Returns false when there is no such
   * role.
   */
  removeUsers(tenant: number, role: string, users: readonly string[]): Promise<boolean>;

  /** Returns the permissions that the roles of a client have for an API, each once, sorted. */
  permissionsOf(tenant: number, client: string, api: string): Promise<readonly string[]>;
}
