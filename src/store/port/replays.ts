import type { Offset, Replay } from '../../core/types.ts';
import type { CursorRaise } from './ownership.ts';
import type { StepQuery } from './upkeep.ts';

/** The part of the store port that is about replays. */
export interface ReplayStore {
  /**
   * Begins to send the events of a range to a stream again; one that is empty is done at once.
   * `disabled`: the stream is. `running`: a replay of it is already. Durable when it answers.
   */
  create(
    replay: NewReplay,
  ): Promise<{ created: Replay } | { refused: 'unknown' | 'disabled' | 'running' }>;
  get(tenant: number, stream: string, id: string): Promise<Replay | undefined>;
  /**
   * Ends a replay that is running: its deliveries that have not ended are dropped, and what comes of
   * attempts under way is history and health only. One that is over stays as it is. False when
   * there is none.
   */
  cancel(tenant: number, stream: string, id: string): Promise<boolean>;
  /**
   * Goes on with the replay of a stream that the caller owns and that is enabled: raises the cursor
   * as {@link OwnershipStore.raiseCursors} does, and turns the next events of the range up to it
   * into `replay` deliveries that are due now. Events that the stream does not want as it is now,
   * that have a row, that were pruned, or that were sent for the first time after the replay was
   * accepted are passed. A replay is over once nothing of it is left, or when all that was left of
   * its range was pruned.
   */
  materialize(request: MaterializeRequest): Promise<MaterializeResult>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: forgets replays of all tenants that were over longer
   * ago than `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

/** A replay that is asked for. */
export interface NewReplay {
  readonly tenant: number;
  readonly stream: string;
  readonly id: string;
  /** The range begins after it, and after what was pruned… */
  readonly from: Offset;
  /** …and ends here: at the head of the log when the replay was accepted, or before. */
  readonly to: Offset;
  /** All that the stream wants when absent. */
  readonly types: readonly string[] | undefined;
}

/** The owner of a stream asks for the next events of its replay. */
export interface MaterializeRequest extends CursorRaise {
  /** Id of the replay. */
  readonly replay: string;
  /** Deliveries to add at most… */
  readonly take: number;
  /** …and how many of the replay may wait or be under way then. */
  readonly waitingMax: number;
}

/** What came of a {@link MaterializeRequest}. */
export interface MaterializeResult {
  /**
   * `running`: there is more to come. `over`: the replay has ended. `lost`: the stream is no longer
   * the asker's.
   */
  readonly result: 'running' | 'over' | 'lost';
  /** Where the cursor of the stream is now; 0 when it is lost, or has another run. */
  readonly cursor: Offset;
  /** Deliveries added. */
  readonly materialized: number;
  /** Whether a look further along the range may find more at once. */
  readonly more: boolean;
}
