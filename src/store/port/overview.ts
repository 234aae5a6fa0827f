import type { Millis } from '../../core/clock.ts';
import type { Offset, StreamStatus } from '../../core/types.ts';

/** The part of the store port that shows operators how much there is. */
export interface OverviewStore {
  engine(): Promise<EngineState>;
  /** What the contents of the store contradict, as after a restore of a part of it. */
  faults(): Promise<readonly StoreFault[]>;
  /** What the whole store takes. */
  size(): Promise<StoreSize>;
  /** `undefined` for a tenant that is unknown. Costs the same however long the log is. */
  tenant(id: number): Promise<TenantOverview | undefined>;
  /** Enabled streams whose cursor is not at the head, the one that is furthest behind first. */
  behind(tenant: number, take: number): Promise<StreamPosition[]>;
}

export interface EngineState {
  /** Name and version, as in `SQLite 3.53.4`. */
  readonly name: string;
  /** By its own clock; `undefined` where it has none. */
  readonly now: Millis | undefined;
}

export interface StoreFault {
  readonly said: string;
  /** What to do about it. */
  readonly next: string;
}

export interface StoreSize {
  /** Of the database, write-ahead log included where it is a file of the store. */
  readonly bytes: number;
  /** Of these, what can be used again without growing; `undefined` where nobody knows. */
  readonly freeBytes: number | undefined;
  /**
   * Whether the file gives space back to the disk as it becomes free; `undefined` where the engine
   * sees to it.
   */
  readonly shrinks: boolean | undefined;
}

export interface TenantOverview {
  readonly head: Offset;
  /** Events that the log has. */
  readonly events: number;
  /** About what their bodies take, from the oldest and the newest of them. */
  readonly aboutBytes: number;
  readonly oldestPublishedAt: Millis | undefined;
  readonly newestPublishedAt: Millis | undefined;
  readonly streams: Readonly<Record<'enabled' | 'failing' | 'disabled', number>>;
  readonly openFailures: number;
  /** Of the enabled stream that is furthest behind, by its stored cursor. */
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
  /** Events after the cursor, of whatever type. */
  readonly events: number;
  /** When the oldest of them was published. */
  readonly since: Millis | undefined;
}
