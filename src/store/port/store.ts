import type { AuditEntry } from '../../core/audit-log.ts';
import type { StoreUnavailable } from '../../core/errors.ts';
import type { AlertStateStore } from './alert-state.ts';
import type { ApiStore } from './apis.ts';
import type { AuditLogStore, RecordingStore } from './audit-log.ts';
import type { ClientStore } from './clients.ts';
import type { ConsoleSessionStore } from './console-sessions.ts';
import type { DeliveryStatsStore } from './delivery-stats.ts';
import type { DeliveryStore } from './deliveries.ts';
import type { DismissalStore } from './dismissals.ts';
import type { EventLogStore } from './event-log.ts';
import type { EventTypeStore } from './event-types.ts';
import type { FailureStore } from './failures.ts';
import type { GrantStore } from './grants.ts';
import type { Guard, GuardedStore } from './guard.ts';
import type { Hint } from './hints.ts';
import type { KeyStore } from './keys.ts';
import type { LogStore } from './log.ts';
import type { OverviewStore } from './overview.ts';
import type { OwnershipStore } from './ownership.ts';
import type { RedeliveryStore } from './redeliveries.ts';
import type { ReplayStore } from './replays.ts';
import type { RoleStore } from './roles.ts';
import type { SecretStore } from './secrets.ts';
import type { StreamStore } from './streams.ts';
import type { TenantStore } from './tenants.ts';
import type { StoreTime } from './time.ts';
import type { UpkeepStore } from './upkeep.ts';
import type { UserStore } from './users.ts';

/**
 * The store port: what Leat requires of an engine. Every method is one whole, atomic command or
 * query; no caller holds a transaction open. A verb changes something, a noun or `list…` reads.
 * Where a rule has to see the row first, the command takes a pure synchronous function that the
 * store calls between its locked read and its write.
 *
 * Every method throws `StoreUnavailable` while the engine cannot be reached or cannot write.
 * Methods that read a log or change what delivery relies on throw its subclass `StoreReplaced`, and
 * write nothing, once the store has turned out to be another one than this process joined (after a
 * fail-over or a restore), until `ownership.join` has succeeded again. Instants are milliseconds
 * since the epoch. Deliveries, retention and leases use the store's own clock, so commands take and
 * return durations: see `time.ts`. Instants that are only shown, and those of keys and users, are
 * the caller's.
 */
export interface Store {
  readonly tenants: TenantStore;
  readonly log: LogStore;
  readonly streams: StreamStore;
  readonly deliveries: DeliveryStore;
  readonly dismissals: DismissalStore;
  readonly eventLog: EventLogStore;
  readonly eventTypes: EventTypeStore;
  readonly failures: FailureStore;
  readonly redeliveries: RedeliveryStore;
  readonly replays: ReplayStore;
  readonly ownership: OwnershipStore;
  /** The keys that sign access tokens. */
  readonly keys: KeyStore;
  /** The keys that sign webhooks. */
  readonly webhookKeys: KeyStore;
  /** The key that seals stored secrets. */
  readonly secrets: SecretStore;
  readonly clients: ClientStore;
  readonly apis: ApiStore;
  readonly grants: GrantStore;
  readonly roles: RoleStore;
  readonly users: UserStore;
  readonly auditLog: AuditLogStore;
  readonly consoleSessions: ConsoleSessionStore;
  readonly alertState: AlertStateStore;
  readonly deliveryStats: DeliveryStatsStore;
  readonly upkeep: UpkeepStore;
  readonly overview: OverviewStore;
  /** Copies the store while it is in use; absent where the engine has tools for that. */
  readonly copy?: StoreCopy | undefined;
  /**
   * Returns how often this process met a session of the database server that another client of the
   * same pooler had altered; absent where there is no server.
   */
  readonly foreignSessions?: (() => number) | undefined;
  readonly time: StoreTime;
  /** Returns the change commands, which record this entry in the transaction of the change. */
  recording(entry: AuditEntry): RecordingStore;
  /**
   * Returns the commands that change what clients may do. Each calls the guard first, and records the
   * entry as `recording` does.
   */
  guarded(guard: Guard, entry?: AuditEntry): GuardedStore;
  /**
   * Calls `listener` right after each commit that others may wait for, in commit order. Best
   * effort: hints may be lost or repeated, so consumers must also poll.
   */
  watch(listener: (hint: Hint) => void): () => void;
  /**
   * Throws `StoreUnavailable` unless the engine responds and would accept an append. Returns whether recent
   * appends of publishers show that.
   */
  ping(): Promise<boolean>;
  /**
   * Returns the first cause for which appends of this process fail, once those of a tenant have for some
   * seconds; `undefined` while they succeed.
   */
  failure(): StoreUnavailable | undefined;
  /** Resolves after every command in progress has ended. */
  close(): Promise<void>;
}

/**
 * Writes a consistent copy of the store into an empty file, in steps between which other work runs.
 * The copy has everything that was committed before the call. Rejects with the signal's reason when
 * aborted.
 */
export type StoreCopy = (
  file: string,
  follow: {
    /** Receives the number of pages copied and the total. */
    readonly progress: (done: number, total: number) => void;
    readonly signal: AbortSignal;
  },
) => Promise<void>;
