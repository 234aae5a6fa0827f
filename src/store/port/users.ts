import type { NewEvent, User } from '../../core/types.ts';
import type { NumberedPage, Page, PageByNumber } from './page.ts';

export interface UserQuery extends PageByNumber {
  readonly sort?: UserSort | undefined;
  /** Whether to count all users, which costs more than the page; `total` is 0 otherwise. */
  readonly counted: boolean;
  /** A larger page is refused. */
  readonly bytesMax?: number | undefined;
}

export interface UserSort {
  /**
   * `created_at`, `updated_at`, `email`, `user_id`, `username`: these have an index. Or a field of the
   * profile, of which all are read.
   */
  readonly field: string;
  readonly descending: boolean;
  /** A tenant with more is not sorted by a field of the profile: users, and bytes of profiles. */
  readonly max: { readonly users: number; readonly bytes: number };
}

/** What becomes of a user, and the event that tells of it. */
export type UserDecision<R extends string> = { after: User; event: NewEvent } | { refused: R };

export interface UserStore {
  get(tenant: number, id: string): Promise<User | undefined>;
  byEmail(tenant: number, email: string): Promise<User[]>;
  /** By id unless `sort` says otherwise. `too_many_to_sort`: no index has the order. */
  list(
    tenant: number,
    query: UserQuery,
  ): Promise<NumberedPage<User> | { refused: 'too_many_to_sort' | 'too_large' }>;
  /** In order of id, after the user with the id `after`. */
  listFrom(
    tenant: number,
    page: { after: string | undefined; take: number; bytesMax?: number | undefined },
  ): Promise<Page<User>>;
  /**
   * Writes the user and appends its event in one transaction. Durable when it answers. Throws
   * `StoreTenantGone` when the tenant left meanwhile.
   */
  create(user: User, event: NewEvent): Promise<{ created: User } | { refused: 'duplicate' }>;
  /**
   * The same for a change; `decide` sees the user as it is, and nobody changes that before it has. A
   * refusal is handed through.
   */
  update<R extends string>(
    tenant: number,
    id: string,
    decide: (before: User) => UserDecision<R> | Promise<UserDecision<R>>,
  ): Promise<{ updated: User } | { refused: R | 'unknown' | 'duplicate' }>;
  /** The same for removing it, with its roles. False when there was none. */
  delete(tenant: number, id: string, emit: (before: User) => NewEvent): Promise<boolean>;
}
