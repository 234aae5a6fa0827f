import type { Offset, Replay } from '../../core/types.ts';
import type { CursorRaise } from './ownership.ts';
import type { Page } from './page.ts';
import type { StepQuery } from './upkeep.ts';

/** The part of the store port that is about replays. */
export interface ReplayStore {
  /**
   * Starts to send the events of a range to a stream again; an empty range is done at once.
   * `disabled`: the stream is disabled. `running`: it already has a running replay.
   * Durable when it resolves.
   */
  create(
    replay: NewReplay,
  ): Promise<{ created: Replay } | { refused: 'unknown' | 'disabled' | 'running' }>;
  /** Returns the replays of a stream, newest first; `after` is the `next` of the page before. */
  list(
    tenant: number,
    stream: string,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<Replay>>;
  get(tenant: number, stream: string, id: string): Promise<Replay | undefined>;
  /**
   * Ends a running replay: its unfinished deliveries are dropped, and results of attempts in
   * progress only change history and health. A finished replay stays as it is. Returns false when
   * there is none.
   */
  cancel(tenant: number, stream: string, id: string): Promise<boolean>;
  /**
   * Continues the replay of a stream that the caller owns and that is enabled: raises the cursor as
   * {@link OwnershipStore.raiseCursors} does, and turns the next events of the range up to it into
   * `replay` deliveries that are due now. Skips events that the stream does not want as it is now,
   * that have a row, that were pruned, or that were first sent after the replay was accepted. A
   * replay is over once nothing of it is left, or when all that was left of its range was pruned.
   */
  materialize(request: MaterializeRequest): Promise<MaterializeResult>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: deletes replays of all tenants that were over longer
   * ago than `olderThanMs`, at most `take`. Returns how many.
   */
  prune(query: StepQuery): Promise<number>;
}

/** A replay to create. */
export interface NewReplay {
  readonly tenant: number;
  readonly stream: string;
  readonly id: string;
  /** The range begins after it, and after the pruned events… */
  readonly from: Offset;
  /** …and ends here: at the head of the log when the replay was accepted, or before. */
  readonly to: Offset;
  /** All types that the stream wants when absent. */
  readonly types: readonly string[] | undefined;
  /** The chosen events of the range, in order, the last one at its end; absent for all of them. */
  readonly offsets?: readonly Offset[] | undefined;
}

/** The request of a stream's owner for the next events of its replay. */
export interface MaterializeRequest extends CursorRaise {
  /** Id of the replay. */
  readonly replay: string;
  /** Maximum deliveries to add… */
  readonly take: number;
  /** …and maximum deliveries of the replay that wait or are in progress afterwards. */
  readonly waitingMax: number;
  /** The result of filtering the stretch that a former result named. */
  readonly filtered?: FilteredStretch | undefined;
}

/** A part of the range of a replay (a stretch) whose events have to be filtered before they become deliveries. */
export interface UnfilteredStretch {
  readonly after: Offset;
  readonly upTo: Offset;
  readonly types: readonly string[];
  /** The filter of the stream now, as JSON text. */
  readonly filter: string;
}

/** A stretch that was filtered. */
export interface FilteredStretch extends UnfilteredStretch {
  /** Offsets of the matching events of the types, in order. */
  readonly offsets: readonly Offset[];
}

/** The result of a {@link MaterializeRequest}. */
export interface MaterializeResult {
  /**
   * `running`: there is more to come. `over`: the replay has ended. `lost`: the caller no longer
   * owns the stream.
   */
  readonly result: 'running' | 'over' | 'lost';
  /** The cursor of the stream now; 0 when the caller lost it, or it has another run. */
  readonly cursor: Offset;
  /** Deliveries added. */
  readonly materialized: number;
  /** Whether the next step along the range may find more at once. */
  readonly more: boolean;
  /**
   * The stream has a filter: nothing was added, and this stretch has to be filtered first. The store
   * does not evaluate filters itself, because SQLite could not pause within its transaction.
   */
  readonly unfiltered?: UnfilteredStretch | undefined;
}
