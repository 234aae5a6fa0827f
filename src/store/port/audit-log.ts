import type { AuditCount, AuditType, RecordedEntry } from '../../core/audit-log.ts';
import type { Millis } from '../../core/clock.ts';
import type { ApiStore } from './apis.ts';
import type { ClientStore } from './clients.ts';
import type { ConsoleSessionStore } from './console-sessions.ts';
import type { DeliveryStore } from './deliveries.ts';
import type { DismissalStore } from './dismissals.ts';
import type { GrantStore } from './grants.ts';
import type { KeyStore } from './keys.ts';
import type { Page } from './page.ts';
import type { RedeliveryStore } from './redeliveries.ts';
import type { ReplayStore } from './replays.ts';
import type { RoleStore } from './roles.ts';
import type { SecretStore } from './secrets.ts';
import type { StreamStore } from './streams.ts';
import type { TenantStore } from './tenants.ts';
import type { StepQuery } from './upkeep.ts';
import type { UserStore } from './users.ts';

/** The part of the store port that is about the audit log. */
export interface AuditLogStore {
  get(tenant: number, id: string): Promise<RecordedEntry | undefined>;
  /** Returns entries, newest first; `after` is the `next` of the previous page. */
  list(
    tenant: number,
    query: AuditFilter & { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<RecordedEntry>>;
  /**
   * Returns entries, newest first, without the first `skip`, and the number of all that match, at
   * most `totalMax`.
   */
  listNumbered(
    tenant: number,
    query: AuditFilter & {
      readonly skip: number;
      readonly take: number;
      readonly totalMax: number;
    },
  ): Promise<{ readonly items: readonly RecordedEntry[]; readonly total: number }>;
  /**
   * Records entries that no change of the store belongs to. One whose id is recorded already adds
   * to its count; nodes may do that at the same time.
   */
  add(entries: readonly AuditCount[]): Promise<void>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: deletes entries of all tenants that are older than
   * `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

/** Selects entries; an absent field selects all. */
export interface AuditFilter {
  readonly types?: readonly AuditType[] | undefined;
  readonly client?: string | undefined;
  /** An id among the `targets` of the entry. */
  readonly target?: string | undefined;
  /** `from` inclusive, `to` exclusive. */
  readonly from?: Millis | undefined;
  readonly to?: Millis | undefined;
}

/**
 * The change commands of a store. Each one that changes something records an entry in the same
 * transaction; one that is refused or finds nothing to change records none.
 */
export interface RecordingStore {
  readonly tenants: Pick<TenantStore, 'rename' | 'leave'>;
  readonly keys: Pick<KeyStore, 'add' | 'promote' | 'revoke'>;
  readonly webhookKeys: Pick<KeyStore, 'add' | 'promote' | 'revoke'>;
  readonly secrets: Pick<SecretStore, 'finish'>;
  readonly clients: Pick<ClientStore, 'create' | 'update' | 'delete'>;
  readonly apis: Pick<ApiStore, 'create' | 'update' | 'delete'>;
  readonly grants: Pick<GrantStore, 'create' | 'update' | 'delete'>;
  readonly roles: Pick<
    RoleStore,
    | 'create'
    | 'update'
    | 'delete'
    | 'addPermissions'
    | 'removePermissions'
    | 'addClients'
    | 'removeClients'
    | 'addUsers'
    | 'removeUsers'
  >;
  readonly users: Pick<UserStore, 'create' | 'update' | 'delete'>;
  readonly consoleSessions: Pick<
    ConsoleSessionStore,
    'addCode' | 'redeem' | 'begin' | 'end' | 'endMany'
  >;
  readonly streams: Pick<StreamStore, 'create' | 'update' | 'delete'>;
  readonly deliveries: Pick<DeliveryStore, 'redeliver' | 'redeliverMany' | 'retryNow' | 'addTest'>;
  readonly dismissals: Pick<DismissalStore, 'create' | 'reopen'>;
  readonly redeliveries: Pick<RedeliveryStore, 'create' | 'cancel'>;
  readonly replays: Pick<ReplayStore, 'create' | 'cancel'>;
}
