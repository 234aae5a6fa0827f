import type { Millis } from '../../core/clock.ts';
import type {
  Attempt,
  Delivery,
  Failure,
  HealthLimits,
  NewEvent,
  Node,
  Offset,
  StreamRef,
} from '../../core/types.ts';
import type { Page } from './page.ts';
import type { SettledStream, Settlement } from './settlement.ts';
import type { WaitRule } from './time.ts';
import type { StepQuery } from './upkeep.ts';

export interface DeliveryStore {
  /** Returns open failure records, newest first; `after` is the `next` of the previous page. */
  listFailures(tenant: number, stream: string, query: FailureQuery): Promise<Page<Failure>>;
  /** Returns what an alert says of open failures, newest first, without their events and histories. */
  newFailures(tenant: number, stream: string, query: NewFailureQuery): Promise<Page<NewFailure>>;
  failure(tenant: number, stream: string, eventId: string): Promise<Failure | undefined>;
  /**
   * Starts a new cycle for one failure: its row becomes `retrying`, due now, attempt 1, and the
   * history gets a `redelivered` entry. One that waits for a retry by a schedule of its stream becomes
   * due now; `allHaveSchedule` where those without one have that of LEAT_RETRY. `retrying`: another cycle is in progress. `delivered`: the
   * history has a success. `dismissed`: the failure was dismissed. `unknown`: none of these.
   */
  redeliver(
    tenant: number,
    stream: string,
    eventId: string,
    allHaveSchedule?: boolean,
  ): Promise<'accepted' | 'retrying' | 'delivered' | 'dismissed' | 'unknown'>;
  /** Does the same for every failed row that matches, and returns how many. */
  redeliverMany(tenant: number, stream: string, filter: FailureFilter): Promise<number>;
  /**
   * Makes every delivery of the stream that waits for a retry due now, and returns how many. Takes
   * several transactions where thousands wait.
   */
  retryNow(tenant: number, stream: string): Promise<number>;
  /**
   * Makes deliveries of a range of the log that wait for a retry due now for the owner of their stream,
   * in the order of the log, at most `take`. None are for a caller that lost the stream.
   */
  releaseWaiting(request: ReleaseRequest): Promise<Released>;
  /**
   * Makes one delivery of an event due before its time for the owner of its stream: the first after
   * this offset that waits for a retry, redeliveries excepted. `undefined` when there is none, and for
   * a caller that lost the stream.
   */
  bringForward(
    request: OwnedWaiting & { readonly after: Offset },
  ): Promise<BroughtForward | undefined>;
  /** Adds a test delivery, due now, which never enters the log. */
  addTest(
    tenant: number,
    stream: string,
    event: Omit<NewEvent, 'chosen'>,
  ): Promise<'accepted' | 'disabled' | 'unknown'>;
  /**
   * Claims due rows: at most `take` per stream, first the oldest blocked one of each requested key,
   * then the oldest first, those of a replay last. They become `parked` for the lease of the request.
   * A stream whose epoch is not the requested one returns no rows.
   */
  claimDue(requests: readonly DueRequest[]): Promise<DueRows[]>;
  /**
   * Records the outcomes of a batch of attempts in one transaction and returns one result per
   * settlement, in the same order. At one of the limits a stream is disabled. Batches of a node are
   * numbered 1, 2, 3, … per incarnation; one whose number is not above the last changes nothing.
   * Throws `StoreContentRefused` when some text cannot be stored; nothing is recorded then.
   */
  settle(
    node: Node,
    batch: number,
    settlements: readonly Settlement[],
    limits: HealthLimits,
  ): Promise<readonly SettledStream[]>;
  /**
   * A step of upkeep, see `UpkeepStore`: removes the history of all tenants of the days (UTC) that
   * ended longer ago than `olderThanMs`. Entries of open deliveries are kept.
   */
  pruneAttempts(query: StepQuery): Promise<number>;
}

/** The waiting deliveries of a stream, as its owner names them. */
export interface OwnedWaiting extends StreamRef {
  readonly epoch: number;
}

/** The request of a stream's owner for the deliveries of a range. */
export interface ReleaseRequest extends OwnedWaiting {
  /** The range begins after it… */
  readonly after: Offset;
  /** …and ends here. */
  readonly upTo: Offset;
  readonly take: number;
}

/** Deliveries that are due now. */
export interface Released {
  readonly due: number;
  /** Nothing of the range up to here waits any more; the end of the range when less were due than requested. */
  readonly upTo: Offset;
}

/** A delivery that is due before its time. */
export interface BroughtForward {
  readonly eventId: string;
  readonly offset: Offset;
  /** How long it would still have waited. */
  readonly waitMs: number;
}

export interface FailureFilter {
  readonly types?: readonly string[] | undefined;
  /** Applied to the event's `time`: `from` inclusive, `to` exclusive. */
  readonly from?: Millis | undefined;
  readonly to?: Millis | undefined;
}

export interface FailureQuery extends FailureFilter {
  readonly after: string | undefined;
  readonly take: number;
  readonly bytesMax?: number | undefined;
}

export interface NewFailureQuery extends Pick<FailureQuery, 'after' | 'take'> {
  /** Only failures that were recorded later than this. */
  readonly failedAfter: Millis;
}

/** An open failure with its last failed attempt, as far as an alert shows it. */
export interface NewFailure extends Pick<Attempt, 'status' | 'error'> {
  readonly eventId: string;
  readonly eventType: string;
  readonly failedAt: Millis;
  /** Attempts of its last cycle. */
  readonly attempts: number;
}

export interface DueRequest extends DueRules {
  readonly tenant: number;
  readonly stream: string;
  readonly epoch: number;
  readonly take: number;
  /** Keys whose next event may be sent, at most `take`. */
  readonly keys?: readonly string[] | undefined;
}

export interface DueRules extends WaitRule {
  /** A claimed row is due again after this time, unless its attempt was settled. */
  readonly leaseMs: number;
}

export interface DueRows {
  readonly tenant: number;
  readonly stream: string;
  readonly rows: readonly Delivery[];
  /** Time until the first of the rows that were not claimed is due, if there are any. */
  readonly nextDueInMs: number | undefined;
}
