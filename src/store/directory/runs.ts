import type { Millis } from '../../core/clock.ts';
import type { Attempt, LogEvent, NewEvent, Offset } from '../../core/types.ts';
import type { CursorRaise } from '../port/ownership.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import type { Call } from './command.ts';
import type { Fragment } from './dialect.ts';

/**
 * What commands of streams need of runs and logs. Each engine has it in a form of its own, made for
 * settling: one run after the other on SQLite, many runs in one statement on PostgreSQL.
 */
export interface Runs {
  /** Returns the time of the store. */
  now(): Call<Millis>;
  /**
   * Locks the run of a stream until the commit and returns its state; `undefined` when there is no
   * such stream. The first step of every change of a stream.
   */
  lock(tenant: number, stream: string): Call<Run | undefined>;
  /**
   * Does the same for a node, and raises the cursor as {@link OwnershipStore.raiseCursors} does.
   * Returns the run as it was before, and the cursor afterwards: 0 when the node does not own the
   * stream, or it has another run.
   */
  lockRaised(raise: CursorRaise): Call<{ readonly run: Run | undefined; readonly cursor: Offset }>;
  /** Writes the changes of a run by disabling and enabling. */
  write(run: Run): Call<void>;
  /** Records that the stream was changed: its owner has to read it again. */
  noteChange(run: Run): Call<void>;
  /** Records that the stream has due rows, for an owner that the hint does not reach. */
  noteDue(run: Run): Call<void>;
  /** Adds the same entry to the history of each of these deliveries of a stream. */
  addEntries(run: Run, events: readonly HistoryEvent[], entry: Attempt): Call<void>;
  /** Adds failures of a stream to the counts of the hour. */
  countFailed(run: Run, failed: number, now: Millis): Call<void>;
  /** Returns the last offset assigned of a log; 0 for an unknown tenant. */
  head(tenant: number): Call<Offset>;
  /** Returns the oldest retained offset after `after`; one past the head when there is none. */
  oldestAfter(tenant: number, after: Offset): Call<Offset>;
  /** Returns a stretch of a log, or as much of it as one statement may read on its events. */
  stretch(tenant: number, range: Range): Call<Stretch>;
}

/**
 * Appends events in the transaction of a command. Returns those that are new: hint at them after the commit.
 * Throws `StoreTenantGone`, and `StoreContentRefused` when the content is at fault.
 */
export type AppendStep = (tenant: number, events: readonly NewEvent[]) => Call<readonly LogEvent[]>;

/** A range of a log. */
export interface Range {
  readonly after: Offset;
  readonly upTo: Offset;
}

/** A range of a log that one statement reads. */
export interface Stretch {
  /** Its last offset. */
  readonly upTo: Offset;
  /**
   * A further condition on the columns of `events`, true for all of the stretch: PostgreSQL opens
   * every partition that is not excluded.
   */
  readonly inDays: Fragment;
}
