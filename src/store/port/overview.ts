import type { Millis } from '../../core/clock.ts';
import type { Offset, StreamStatus } from '../../core/types.ts';

/** The part of the store port that shows operators sizes and counts. */
export interface OverviewStore {
  engine(): Promise<EngineState>;
  /** Returns the settings of the database server; `undefined` where there is no server. */
  server(): Promise<ServerState | undefined>;
  /** Returns contradictions in the contents of the store, as after a restore of a part of it. */
  faults(): Promise<readonly StoreFault[]>;
  /** Returns the size of the whole store. */
  size(): Promise<StoreSize>;
  /**
   * Returns `undefined` for an unknown tenant. The cost does not depend on the length of the log.
   */
  tenant(id: number): Promise<TenantOverview | undefined>;
  /** Returns enabled streams whose cursor is not at the head, the most lagging first. */
  behind(tenant: number, take: number): Promise<StreamPosition[]>;
}

export interface EngineState {
  /** Name and version, as in `SQLite 3.53.4`. */
  readonly name: string;
  /** The store's own clock; `undefined` where it has none. */
  readonly now: Millis | undefined;
}

/** What a PostgreSQL server says of itself to the user of the store. */
export interface ServerState {
  readonly majorVersion: number;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  /** `on`, `off`, `local`, `remote_write` or `remote_apply`. */
  readonly synchronousCommit: string;
  /** The text of `synchronous_standby_names`. */
  readonly synchronousStandbys: string;
  /** Connected receivers of the write-ahead log. */
  readonly replicas: number;
  /** Connections that the user may open to the database, all processes together. */
  readonly connectionsMax: number;
  readonly isSuperuser: boolean;
  /** The connections end at a pooler, which gives its sessions to any client. */
  readonly isPooled: boolean;
  /** Settings that other clients of the pooler have left in its sessions. */
  readonly foreignSettings: readonly string[];
}

export interface StoreFault {
  readonly said: string;
  /** The remedy. */
  readonly next: string;
}

export interface StoreSize {
  /** Size of the database, with its write-ahead log if that is a file of the store. */
  readonly bytes: number;
  /** The part of it that can be reused without growing; `undefined` where it is unknown. */
  readonly freeBytes: number | undefined;
  /** Whether the file returns free space to the disk; `undefined` where the engine manages that. */
  readonly shrinks: boolean | undefined;
}

export interface TenantOverview {
  readonly head: Offset;
  /** Events in the log. */
  readonly events: number;
  /** Estimated bytes of their bodies, from the oldest and the newest of them. */
  readonly aboutBytes: number;
  readonly oldestPublishedAt: Millis | undefined;
  readonly newestPublishedAt: Millis | undefined;
  readonly streams: Readonly<Record<'enabled' | 'failing' | 'disabled', number>>;
  readonly openFailures: number;
  /** Cursor lag of the most lagging enabled stream, by its stored cursor. */
  readonly lag: {
    readonly events: number;
    /** When the oldest event after that cursor was published. */
    readonly since: Millis | undefined;
  };
}

export interface StreamPosition {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly cursor: Offset;
  /** Events after the cursor, of any type. */
  readonly events: number;
  /** When the oldest of them was published. */
  readonly since: Millis | undefined;
}
