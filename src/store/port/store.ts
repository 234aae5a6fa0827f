import type { AlertStateStore } from './alert-state.ts';
import type { ApiStore } from './apis.ts';
import type { ClientStore } from './clients.ts';
import type { DeliveryStore } from './deliveries.ts';
import type { GrantStore } from './grants.ts';
import type { Hint } from './hints.ts';
import type { KeyStore } from './keys.ts';
import type { LogStore } from './log.ts';
import type { OverviewStore } from './overview.ts';
import type { OwnershipStore } from './ownership.ts';
import type { ReplayStore } from './replays.ts';
import type { RoleStore } from './roles.ts';
import type { StreamStore } from './streams.ts';
import type { TenantStore } from './tenants.ts';
import type { StoreTime } from './time.ts';
import type { UpkeepStore } from './upkeep.ts';
import type { UserStore } from './users.ts';

/**
 * The store port: what Leat asks of an engine. Every method is one whole command or query, atomic by
 * itself; there is no transaction to hold open. A verb changes something, a noun or `list…` reads.
 * Where a rule has to see the row first, the command takes a pure synchronous function that the store
 * calls between its locked read and its write.
 *
 * Every method throws `StoreUnavailable` while the engine cannot be reached or cannot write. Methods
 * that read a log or change what delivery relies on throw its subclass `StoreReplaced`, and write
 * nothing, once the store has turned out to be another one than this process joined (after a
 * fail-over or a restore); they do so until `ownership.join` has succeeded again.
 * Instants are milliseconds since the epoch. What deliveries, retention and leases depend on goes by
 * the store's own clock, so commands take and return durations: see `time.ts`. Instants that are only
 * shown, and those of keys and users, are the caller's.
 */
export interface Store {
  readonly tenants: TenantStore;
  readonly log: LogStore;
  readonly streams: StreamStore;
  readonly deliveries: DeliveryStore;
  readonly replays: ReplayStore;
  readonly ownership: OwnershipStore;
  readonly keys: KeyStore;
  readonly clients: ClientStore;
  readonly apis: ApiStore;
  readonly grants: GrantStore;
  readonly roles: RoleStore;
  readonly users: UserStore;
  readonly alertState: AlertStateStore;
  readonly upkeep: UpkeepStore;
  readonly overview: OverviewStore;
  /** Copies the store while it works; absent where the engine brings tools for that. */
  readonly copy?: StoreCopy | undefined;
  readonly time: StoreTime;
  /**
   * Calls `listener` right after each commit that others may wait for, in commit order. Hints may
   * be lost or repeated; whoever acts on them also looks by itself from time to time.
   */
  watch(listener: (hint: Hint) => void): () => void;
  /** Throws `StoreUnavailable` unless the engine answers and would accept an append. */
  ping(): Promise<void>;
  /** Ends after every command under way has ended. */
  close(): Promise<void>;
}

/**
 * Writes a consistent copy of the store into an empty file, in steps between which other work runs:
 * it holds all that was committed before the call. Rejects with the signal's reason when aborted.
 */
export type StoreCopy = (
  file: string,
  follow: {
    /** Receives how many pages are copied, of how many. */
    readonly progress: (done: number, total: number) => void;
    readonly signal: AbortSignal;
  },
) => Promise<void>;
