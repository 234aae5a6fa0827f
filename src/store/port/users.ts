import type { NewEvent, User } from '../../core/types.ts';
import type { NumberedPage, Page, PageByNumber } from './page.ts';

export interface UserQuery extends PageByNumber {
  readonly sort?: UserSort | undefined;
  /** Whether to count all users, which costs more than the page; otherwise `total` is 0. */
  readonly counted: boolean;
  /** A larger page is refused. */
  readonly bytesMax?: number | undefined;
}

export interface UserSort {
  /**
   * `created_at`, `updated_at`, `email`, `user_id`, `username`: these have an index. Any other
   * field is one of the profile, and all profiles are read.
   */
  readonly field: string;
  readonly descending: boolean;
  /**
   * A tenant with more is not sorted by a field of the profile: number of users, and bytes of
   * profiles.
   */
  readonly max: { readonly users: number; readonly bytes: number };
}

/** The new state of a user, and the event that reports it. */
export type UserDecision<R extends string> = { after: User; event: NewEvent } | { refused: R };

export interface UserStore {
  get(tenant: number, id: string): Promise<User | undefined>;
  /** Returns the users with the mailbox, whichever of its texts is given or stored, and those whose e-mail is stored as given. */
  byEmail(tenant: number, email: string): Promise<User[]>;
  /** Sorted by id by default. `too_many_to_sort`: no index has the order. */
  list(
    tenant: number,
    query: UserQuery,
  ): Promise<NumberedPage<User> | { refused: 'too_many_to_sort' | 'too_large' }>;
  /** Returns users in order of id, after the user with the id `after`. */
  listFrom(
    tenant: number,
    page: { after: string | undefined; take: number; bytesMax?: number | undefined },
  ): Promise<Page<User>>;
  /**
   * Writes the user and appends its event in one transaction. Durable when it resolves. Throws
   * `StoreTenantGone` when the removal of the tenant has begun.
   */
  create(user: User, event: NewEvent): Promise<{ created: User } | { refused: 'duplicate' }>;
  /**
   * Does the same for a change. `decide` receives the current user, and is called again when another node
   * has changed that before the decision was written. A refusal is passed through.
   */
  update<R extends string>(
    tenant: number,
    id: string,
    decide: (before: User) => UserDecision<R> | Promise<UserDecision<R>>,
  ): Promise<{ updated: User } | { refused: R | 'unknown' | 'duplicate' }>;
  /** Does the same for a removal, with the user's roles. Returns false when there was none. */
  delete(tenant: number, id: string, emit: (before: User) => NewEvent): Promise<boolean>;
}
