import type { Millis } from '../../core/clock.ts';
import type { EventState } from '../../core/event-state.ts';
import type { Attempt, LogEvent, Offset } from '../../core/types.ts';
import type { Page } from './page.ts';

/** The part of the store port that answers what became of events. Every query is bounded. */
export interface EventLogStore {
  /**
   * Returns events of the wanted types (all types when absent), newest first, until `take` events or
   * `bytesMax` characters of bodies are reached (at least one event when any matches). Scans a bounded
   * number of offsets.
   */
  newest(tenant: number, query: NewestQuery): Promise<NewestEvents>;
  /** Returns an event of the log, or one that the log no longer has and a delivery still needs. */
  find(tenant: number, eventId: string): Promise<FoundEvent | undefined>;
  /** Returns the offsets of those of the events that the log has, by their ids. */
  offsetsOf(tenant: number, eventIds: readonly string[]): Promise<ReadonlyMap<string, Offset>>;
  /**
   * Returns what became of an event at the streams of the tenant, in the order of their ids: those that
   * are or were subscribed to its type, and those with a trace of it. `after` is the `next` of the
   * page before.
   */
  deliveries(
    tenant: number,
    event: FoundEvent,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<EventDeliveries>;
  /**
   * Returns attempts of a stream for events of the log, as far as the history has them: the newest
   * events first, and the newest attempts of an event first.
   */
  attempts(
    tenant: number,
    stream: string,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<StreamAttempt>>;
  /**
   * A step of upkeep, see `UpkeepStore`: removes at most `take` records about events that the log no
   * longer has: skipped ranges and past selections of streams, dismissals, and event types. Returns how
   * many.
   */
  prune(tenant: number, take: number): Promise<number>;
}

export interface NewestQuery {
  /** The first offset that is not wanted any more… */
  readonly before: Offset;
  /** …and the last one before the wanted ones. */
  readonly after: Offset;
  readonly types?: readonly string[] | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

export interface NewestEvents {
  readonly events: readonly LogEvent[];
  /** Every matching event from here on is in `events`, or not before `before`. */
  readonly scannedTo: Offset;
  /** There is nothing to scan before it. */
  readonly isEnd: boolean;
}

export interface FoundEvent {
  readonly id: string;
  readonly type: string;
  readonly time: Millis;
  readonly body: string;
  /** Absent for a test event. */
  readonly offset: Offset | undefined;
  /** Absent when the log does not have the event. */
  readonly publishedAt: Millis | undefined;
}

export interface EventDeliveries extends Page<EventDelivery> {
  /** How many streams there are of each state, those of other pages included. */
  readonly counts: Readonly<Partial<Record<EventState, number>>>;
}

/** Entries of a history that are read. */
export const historyMax = 100;

/** What became of an event at one stream. */
export interface EventDelivery {
  readonly stream: string;
  readonly name: string;
  readonly state: EventState;
  /** When the next attempt is due, if it waits for one and may be sent. */
  readonly nextAttemptAt: Millis | undefined;
  /** The newest entries of the history, oldest first, at most {@link historyMax}. */
  readonly attempts: readonly Attempt[];
}

/** One attempt of a stream. */
export interface StreamAttempt {
  readonly offset: Offset;
  /** The event; absent when the log does not have it any more. */
  readonly event: { readonly id: string; readonly type: string } | undefined;
  readonly attempt: Attempt;
}
