import type { Millis } from '../../core/clock.ts';
import type { StreamState } from '../../core/stream-state.ts';
import type { Stream, Offset, Health, Selection } from '../../core/types.ts';
import type { Page } from './page.ts';

/** A page of streams; `broken` are ids of those within it whose secrets do not open. */
export interface StreamPage extends Page<Stream> {
  readonly broken: readonly string[];
}

/** A stream without its subscriptions, which may have megabytes. */
export type ListedStream = Omit<Stream, 'subscriptions'>;

export interface StreamStore {
  /**
   * Creates the stream with its cursor at the head of the log, or at the earlier `cursor`: then the
   * retained events after that are sent. Durable when it resolves. `too_many_filters`: the tenant has
   * 1,000 streams with a filter.
   */
  create(
    stream: Omit<Stream, 'subscriptions' | 'version'> &
      Selection & {
        readonly cursor?: Offset | undefined;
      },
    rules: { readonly streamsMax: number },
  ): Promise<{ created: Stream } | { refused: 'name_taken' | 'too_many' | 'too_many_filters' }>;
  get(tenant: number, id: string): Promise<Stream | undefined>;
  /** Returns streams, oldest first, after the stream with the id `after`. */
  list(
    tenant: number,
    page: { after: string | undefined; take: number; bytesMax?: number | undefined },
  ): Promise<StreamPage>;
  /** Returns those of the streams that exist, with their secrets unsealed, by their ids; without those whose secrets do not open. */
  opened(tenant: number, ids: readonly string[]): Promise<ReadonlyMap<string, ListedStream>>;
  /** Returns the hosts of the endpoints of streams, without opening other secrets. */
  endpointHosts(tenant: number, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Returns the names of those of the streams that exist, by their ids. */
  names(tenant: number, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  health(tenant: number, id: string): Promise<Health | undefined>;
  facts(tenant: number, id: string): Promise<StreamFacts | undefined>;
  /** Does the same for the streams of a page, by their ids. */
  factsOf(tenant: number, ids: readonly string[]): Promise<ReadonlyMap<string, StreamFacts>>;
  /**
   * Returns the states of all streams of a tenant, read in steps, so that they may change meanwhile.
   * `lagsOf` says for which of them `waitingSince` is needed: none, so that streams that lag are ok, those
   * that lag, those that are neither paused nor disabled, or all.
   */
  states(tenant: number, options: { readonly lagsOf: LagsOf }): Promise<TenantStates>;
  /**
   * Returns a version of the list of streams: a text that is the same as long as the tenant has the same streams,
   * none of them changed.
   */
  mark(tenant: number): Promise<string>;
  /** Returns how many deliveries of a tenant wait for an attempt, counted up to 100,000. */
  retrying(tenant: number): Promise<number>;
  /** Returns the skipped ranges of a stream, newest first; `after` is the `next` of the page before. */
  skipped(
    tenant: number,
    id: string,
    page: { readonly after: string | undefined; readonly take: number },
  ): Promise<Page<SkippedRange>>;
  /**
   * Applies a change. `decide` receives the stream, its health and the head of the log. Disabling
   * by hand turns waiting retries and untried tests into failures, as `DeliveryStore.settle` does
   * at a threshold. Enabling sets consecutive to 0, raises `run`, and with `latest` moves the
   * cursor to the head and keeps what that passed over as a skipped range. Returns `skipped`, the number of retained matching events that enabling
   * passed over. A pause begins and ends by the clock of the store, and leaves the status as it is.
   */
  update<R extends string = never>(
    tenant: number,
    id: string,
    decide: (before: Stream, state: { health: Health; head: Offset }) => StreamDecision<R>,
  ): Promise<
    { updated: Stream; skipped: number; held: 'complete' | 'pruned' | undefined } | ChangeRefused<R>
  >;
  /** Removes the stream with everything that belongs to it. Returns false when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
  /** Returns the hours of `[from, to)` that have counts, oldest first; `hour` is its start. */
  stats(
    tenant: number,
    id: string,
    window: { from: Millis; to: Millis },
  ): Promise<{ hour: Millis; delivered: number; failed: number }[]>;
  /** Returns the sums of these hours of streams, by their ids. */
  statsSums(
    tenant: number,
    ids: readonly string[],
    window: { from: Millis; to: Millis },
  ): Promise<ReadonlyMap<string, { readonly delivered: number; readonly failed: number }>>;
}

export type LagsOf = 'none' | 'lagging' | 'active' | 'all';

export interface TenantStates {
  /** The time of the store when they were read. */
  readonly now: Millis;
  /** In the order of their ids. */
  readonly streams: readonly StreamStanding[];
}

/** One stream in a list of all streams: how it is doing, and what the list is sorted and filtered by. */
export interface StreamStanding {
  readonly id: string;
  readonly name: string;
  /** Each change of the stream raises it. */
  readonly version: number;
  readonly state: StreamState;
  readonly openFailures: number;
  readonly lastFailedAt: Millis | undefined;
  /**
   * When the oldest event was accepted that waits, see {@link WaitingEvents}; absent when none waits for 90 s.
   * Of paused and disabled streams a bounded number of events is read
   * in total: it may be absent for some of those that are far behind.
   */
  readonly waitingSince: Millis | undefined;
}

/** What the store knows of a stream beyond its configuration: counters, times and what waits. All of it is read, none is set. */
export interface StreamFacts {
  /** The time of the store. */
  readonly now: Millis;
  readonly health: Health;
  /** Of a disabled stream; absent where a version before the baseline recorded nothing. */
  readonly disabled: {
    readonly reason: DisabledReason | undefined;
    readonly since: Millis | undefined;
    /** Error code of the last failed attempt before. */
    readonly code: string | undefined;
  };
  readonly waiting: WaitingEvents;
  /** Deliveries that wait for an attempt. */
  readonly retrying: number;
  readonly parked: number;
  /** When the first lease of an attempt under way ends. */
  readonly parkedUntil: Millis | undefined;
  /** When the first of the deliveries is due that may be sent now. */
  readonly nextDueAt: Millis | undefined;
  readonly lastDeliveredAt: Millis | undefined;
  readonly lastFailedAt: Millis | undefined;
  /** When the oldest attempt failed since the last success. */
  readonly failingSince: Millis | undefined;
  /** Since when the oldest attempt is due, or since the last success if that was later; may be in the future. */
  readonly overdueSince: Millis | undefined;
  /** Since when the store refuses to record its results, and the code of the error; absent while it does not. */
  readonly refused: { readonly since: Millis; readonly code: string } | undefined;
  /** Id of the replay that is running or paused. */
  readonly replay: string | undefined;
}

/** A range of the log that a stream passed over when it was enabled again. */
export interface SkippedRange {
  /** It begins with the event after this offset… */
  readonly from: Offset;
  /** …and ends with this one. */
  readonly to: Offset;
  /** Events of it that the stream wanted. */
  readonly events: number;
  /** There may be more. */
  readonly atLeast: boolean;
  /** No event of the range was accepted later. */
  readonly at: Millis;
}

export type DisabledReason = 'consecutive_failures' | 'open_failures' | 'gone' | 'lag' | 'by_hand';

/**
 * Events of the types of a stream after its cursor that have no row, among the first 10,000 events; among
 * fewer where many streams are read at once.
 */
export interface WaitingEvents {
  readonly count: number;
  /** There are further events after the cursor. */
  readonly atLeast: boolean;
  /** When the first of them was accepted. */
  readonly oldestAt: Millis | undefined;
}

/**
 * Nothing was changed: there is no such stream, another one has the name, the log has events of 100 selections of the stream, or `decide`
 * refused it.
 */
export interface ChangeRefused<R extends string> {
  readonly refused: 'unknown' | 'name_taken' | 'too_many_filters' | 'too_many_changes' | R;
  readonly health?: Health;
}

/** The decision on a PATCH or on a rotation of the secret; `refused` is returned to the caller. */
export type StreamDecision<R extends string> =
  | {
      /**
       * The stream after the change; the store sets `version` and trims passed subscriptions. The
       * same object as `before` means that nothing changes.
       */
      readonly after: Stream;
      /** The start position when this change enables the stream; `latest` by default. */
      readonly resume?: 'latest' | 'held' | undefined;
    }
  | { readonly refused: R };
