/**
 * The store port: what Leat asks of an engine. Every method is one whole command or query, atomic
 * by itself; there is no transaction to hold open. A verb changes something, a noun or `list…`
 * reads. Where a rule has to see the row first, the command takes a pure synchronous function that
 * the store calls between its locked read and its write.
 *
 * Every method throws `StoreUnavailable` while the engine cannot be reached or cannot write. Methods
 * that read a log or change what delivery relies on throw its subclass `StoreReplaced`, and write
 * nothing, once the store has turned out to be another one than this process joined (after a
 * fail-over or a restore); they do so until `ownership.join` has succeeded again.
 * Instants are milliseconds since the epoch. What deliveries, retention and leases depend on goes by
 * the store's own clock, so commands take and answer durations: see `port-time.ts`. Instants that are
 * only shown, and those of keys and users, are the caller's.
 */
import type { Millis } from '../core/clock.ts';
import type {
  Api,
  Appended,
  Attempt,
  Client,
  DeliveredEvent,
  Delivery,
  DeliveryKind,
  Failure,
  Grant,
  Health,
  HealthLimits,
  LogEvent,
  NewEvent,
  Offset,
  Permission,
  Role,
  SigningKey,
  Stream,
} from '../core/types.ts';
import type { Hint } from './port-hints.ts';
import type { LookStore } from './port-looks.ts';
import type { OverviewStore } from './port-overview.ts';
import type { ReplayStore } from './port-replays.ts';
import type { TenantStore } from './port-tenants.ts';
import type { UserStore } from './port-users.ts';
import type { StepQuery, UpkeepStore } from './port-upkeep.ts';
import type { StoreTime, WaitRule } from './port-time.ts';

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
  readonly looks: LookStore;
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

export type { Hint } from './port-hints.ts';

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

/**
 * A page ordered by an opaque key. `next` is absent on the last page. A page that is asked for with
 * `bytesMax` ends before the item that would make it larger; it has one at least.
 */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

// The log

export interface LogStore {
  /**
   * Appends all of `events` at the next offsets, or none. Concurrent calls share a commit. Durable
   * when it answers. A chosen id that the log has, or that an open failure of a pruned event has,
   * is answered with its first offset and writes nothing; so is a repeat within `events`.
   * Throws `StoreContentRefused` when this call's content is at fault; calls it shared a commit
   * with are not affected.
   */
  append(tenant: number, events: readonly NewEvent[]): Promise<Appended[]>;
  /** Last offset given out, 0 when the log is empty. */
  head(tenant: number): Promise<Offset>;
  /** The heads of several logs, in the order asked for. */
  heads(tenants: readonly number[]): Promise<readonly Offset[]>;
  /**
   * Returns a mark for each block of tenants that has any, by the block's number; see `core/tenant-blocks.ts`.
   * The mark of a block is another one once a log in it has grown, so that a caller with many tenants
   * asks for the heads of a few only.
   */
  headMarks(): Promise<ReadonlyMap<number, string>>;
  /**
   * Events after `after` of the wanted types (all types when absent), oldest first, until `take`
   * events or `bytesMax` characters of bodies are reached (at least one event when any matches). Reads
   * a bounded number of offsets and days: `scannedTo` says how far it came.
   */
  page(tenant: number, query: LogQuery): Promise<LogPage>;
  /**
   * The oldest event that the log has of those accepted at or after `since`; one past the head when
   * there is none. With 0 that is the oldest of all.
   */
  firstSince(tenant: number, since: Millis): Promise<Offset>;
  /**
   * Removes the oldest events published longer ago than `olderThanMs`, at most `take`, never one
   * that an enabled stream's cursor has not passed. See {@link UpkeepStore} for how age is measured.
   * Events that open deliveries need are kept for these. Returns how many were removed.
   */
  prune(tenant: number, query: StepQuery): Promise<number>;
}

export interface LogQuery {
  readonly after: Offset;
  /** Last offset to look at; absent means up to the head. */
  readonly upTo?: Offset | undefined;
  readonly types?: readonly string[] | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

export interface LogPage {
  readonly events: readonly LogEvent[];
  /** Every matching event up to here is in `events` or lies at or before `after`. */
  readonly scannedTo: Offset;
}

// Event streams

export interface StreamStore {
  /**
   * Creates the stream with its cursor at the head of the log, or before it at `cursor`: it is sent
   * the retained events after that. Durable when it answers.
   */
  create(
    stream: Omit<Stream, 'subscriptions' | 'version'> & {
      readonly types: readonly string[];
      readonly cursor?: Offset | undefined;
    },
    rules: { readonly streamsMax: number },
  ): Promise<{ created: Stream } | { refused: 'name_taken' | 'too_many' }>;
  get(tenant: number, id: string): Promise<Stream | undefined>;
  /** Oldest first, after the stream with the id `after`. */
  list(
    tenant: number,
    page: { after: string | undefined; take: number; bytesMax?: number | undefined },
  ): Promise<Page<Stream>>;
  health(tenant: number, id: string): Promise<Health | undefined>;
  /**
   * Applies a change. `decide` sees the stream, its health and the head of the log. Disabling by
   * hand turns waiting retries and untried tests into failures as {@link DeliveryStore.settle}
   * does at a threshold. Enabling sets consecutive to 0, raises `run`, and with `latest` moves the
   * cursor to the head. Answers `skipped`, the retained matching events that enabling passed over.
   */
  update(
    tenant: number,
    id: string,
    decide: (before: Stream, state: { health: Health; head: Offset }) => StreamDecision,
  ): Promise<
    | { updated: Stream; skipped: number; held: 'complete' | 'pruned' | undefined }
    | { refused: 'unknown' | 'name_taken' | 'too_many_failures'; health?: Health }
  >;
  /** Removes the stream with everything that belongs to it. False when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
  /** Hours of `[from, to)` that have counts, oldest first; `hour` is its start. */
  stats(
    tenant: number,
    id: string,
    window: { from: Millis; to: Millis },
  ): Promise<{ hour: Millis; delivered: number; failed: number }[]>;
}

/** What a PATCH or a rotation of the secret comes to. */
export type StreamDecision =
  | {
      /**
       * The stream as it shall be; the store sets `version` and trims passed subscriptions. The
       * very same object as `before` means that nothing changes.
       */
      readonly after: Stream;
      /** Where to go on when this change enables the stream; `latest` unless said. */
      readonly resume?: 'latest' | 'held' | undefined;
    }
  | { readonly refused: 'too_many_failures' };

// Deliveries

export interface DeliveryStore {
  /** Open failure records, newest first; `after` is the `next` of the page before. */
  listFailures(tenant: number, stream: string, query: FailureQuery): Promise<Page<Failure>>;
  failure(tenant: number, stream: string, eventId: string): Promise<Failure | undefined>;
  /**
   * Starts a new cycle for one failure: its row becomes `retrying`, due now, attempt 1, and the
   * history gets a `redelivered` entry. `retrying`: a cycle is under way. `delivered`: the history
   * knows a success. `unknown`: neither.
   */
  redeliver(
    tenant: number,
    stream: string,
    eventId: string,
  ): Promise<'accepted' | 'retrying' | 'delivered' | 'unknown'>;
  /** The same for every failed row that matches; answers how many. */
  redeliverMany(tenant: number, stream: string, filter: FailureFilter): Promise<number>;
  /** Adds a test delivery, due now, which never enters the log. */
  addTest(
    tenant: number,
    stream: string,
    event: Omit<NewEvent, 'chosen'>,
  ): Promise<'accepted' | 'disabled' | 'unknown'>;
  /**
   * Takes rows that are due, per asked stream the oldest first, those of a replay last, and at most
   * `take`: they become `parked` for `leaseMs`. Streams whose epoch is not the asked one answer nothing.
   */
  claimDue(asks: readonly DueAsk[], rules: DueRules): Promise<DueAnswer[]>;
  /**
   * Records, in one transaction, what a batch of attempts led to; see {@link Settlement}. Outcomes
   * are applied in order through `nextHealth`; at a threshold the stream is disabled. A batch whose
   * number is not above the node's last one changes nothing. Throws `StoreContentRefused` when
   * some text cannot be stored; nothing of the batch is then.
   */
  settle(batch: SettleBatch): Promise<SettleAnswer>;
  /**
   * A step of upkeep, see {@link UpkeepStore}: removes the history of all tenants of the days (UTC)
   * that ended longer ago than `olderThanMs`. Entries of open deliveries are kept.
   */
  pruneAttempts(query: StepQuery): Promise<number>;
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
  /** Only those that were recorded later than this. */
  readonly failedAfter?: Millis | undefined;
}

export interface DueAsk {
  readonly tenant: number;
  readonly stream: string;
  readonly epoch: number;
  readonly take: number;
}

export interface DueRules extends WaitRule {
  /** A row that is taken is due again after it, unless its attempt was settled. */
  readonly leaseMs: number;
}

export interface DueAnswer {
  readonly tenant: number;
  readonly stream: string;
  readonly rows: readonly Delivery[];
  /** Until the first of the rows not taken is due, when there are any. */
  readonly nextDueInMs: number | undefined;
}

export interface SettleBatch {
  readonly node: Node;
  /** 1, 2, 3, … per incarnation of the node. */
  readonly batch: number;
  readonly settlements: readonly Settlement[];
  readonly limits: HealthLimits;
}

/** What happened on one stream. */
export interface Settlement {
  readonly tenant: number;
  readonly stream: string;
  readonly epoch: number;
  /** Only results of the stream's present run raise its cursor. */
  readonly run: number;
  /**
   * Of the stream that the node works by. Where that is not the present one, the cursor is not
   * raised over a change of subscriptions: the node has not judged what comes after by it.
   */
  readonly version: number;
  /** Every matching event up to here is settled, or has a row after this batch. */
  readonly cursor: Offset;
  /** In the order in which the attempts ended. */
  readonly outcomes: readonly Outcome[];
}

/** The end of one attempt, or that it takes long enough to be parked. */
export type Outcome = OutcomeOf & {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** Whether `deliveries` has a row for it, from before or from this batch. */
  readonly hasRow: boolean;
};

type OutcomeOf =
  /** Unless it is settled, the row is due after `leaseMs`. */
  | { readonly result: 'parked'; readonly leaseMs: number }
  | ({ readonly result: 'delivered' } & Attempted)
  /** The next attempt is due after `delayMs`. */
  | ({ readonly result: 'retry'; readonly delayMs: number; readonly error: string } & Attempted)
  | ({ readonly result: 'failed'; readonly error: string } & Attempted);

type Attempted = Pick<Attempt, 'durationMs' | 'status'> & {
  /** How long ago the attempt began. */
  readonly agoMs: number;
};

export interface SettleAnswer {
  /** Per settlement, in the same order. */
  readonly streams: readonly SettledStream[];
}

export interface SettledStream {
  /** `lost`: another owner has the stream, or it is gone; nothing was recorded for it. */
  readonly result: 'recorded' | 'lost';
  /** The stream's version now; differs from the owner's when someone changed it, 0 when lost. */
  readonly version: number;
  /** Where its cursor is now; 0 when lost. */
  readonly cursor: Offset;
  /** Set when this batch disabled the stream. */
  readonly disabled: (Health & { readonly reason: 'consecutive' | 'total' }) | undefined;
}

// Ownership

/** A running Leat process; `incarnation` rises each time it joins. */
export interface Node {
  readonly id: string;
  readonly incarnation: number;
}

/**
 * Nodes hold a lease each, streams do not: a stream is free when nobody owns it or when the lease of
 * its owner has ended. Leases are measured by the store's own clock and never by a caller's, as the
 * clocks of nodes differ and jump.
 */
export interface OwnershipStore {
  /**
   * Registers the node anew, with a lease of `leaseMs`: its batches and claims start again at 1. What
   * a former process of that id owned is free. Accepts the store as it is now: never throws
   * `StoreReplaced`.
   */
  join(nodeId: string, leaseMs: number): Promise<JoinedNode>;
  /**
   * Renews the lease: for `leaseMs` from now nobody takes what the node owns. A lease that has ended
   * may be renewed too, but streams may have been taken before. `undefined` when the node is no
   * longer present: another process has joined in its name.
   */
  heartbeat(node: Node, leaseMs: number): Promise<Heartbeat | undefined>;
  /**
   * Makes the node owner of streams that are free and have something to do: enabled ones, and
   * disabled ones with rows to send, those of a replay aside. Each claim raises the stream's epoch and makes its parked rows
   * due at once (on a disabled stream those of first and test deliveries become failures). A claim
   * whose number is not above the node's last one takes nothing new and answers what that one took:
   * so it can be repeated when its answer was lost. A node without a lease gets nothing.
   */
  claim(node: Node, ask: ClaimAsk): Promise<OwnedStream[]>;
  /**
   * The streams as they are now, of those that the node owns; what is missing is lost or gone. The
   * node must begin nothing for them from before it asks until it has the answer: from here on they
   * count as seen.
   */
  owned(node: Node, streams: readonly StreamRef[], rule: WaitRule): Promise<OwnedStream[]>;
  /**
   * Whether nobody works any more by the stream as it was before its last change: its owner has
   * read it since, has lost its lease, or there is none.
   */
  hasSeen(stream: StreamRef): Promise<boolean>;
  /**
   * Raises cursors of runners that passed events without any match, as far as
   * {@link Settlement.version} lets them; never lowers one. Answers in the same order where they are
   * now; 0 for a stream that has another owner or another run.
   */
  raiseCursors(cursors: readonly CursorRaise[]): Promise<Offset[]>;
  /** Gives streams up, raising their cursors first. */
  release(node: Node, cursors: readonly CursorRaise[]): Promise<void>;
  /** Ends the node's lease; what it still owns is free. */
  leave(node: Node): Promise<void>;
  /** Nodes with a lease, and former ones whose streams nobody has taken yet, in order of id. */
  nodes(): Promise<NodeState[]>;
}

/** What joining returns. */
export interface JoinedNode extends Node {
  /** Present when the store is another one than this process knew. */
  readonly replaced?: Replacement | undefined;
}

/** What a process finds when it joins a store that was replaced. */
export interface Replacement {
  /** How often the store was replaced so far; the same for all processes that join it then. */
  readonly generation: number;
  /** The logs of which this process knew a head. */
  readonly heads: readonly HeadChange[];
}

/** The head of a tenant's log before and after the store was replaced. */
export interface HeadChange {
  readonly tenant: number;
  readonly before: Offset;
  readonly now: Offset;
}

/** How a node stands, for operators. */
export interface NodeState {
  readonly id: string;
  /** Streams that it owns. */
  readonly streams: number;
  /** What is left of its lease; 0 once it has ended. */
  readonly leaseMs: number;
  /** By how much its wall clock was ahead of the store's at its last heartbeat. */
  readonly skewMs: number;
}

export interface Heartbeat {
  /** The lease had ended before, whatever the node thinks: others may have taken its streams. */
  readonly lapsed: boolean;
  /** Streams of the node that were changed and not read again since: wake-ups may get lost. */
  readonly changed: readonly StreamRef[];
  /**
   * Streams that the node should own at most, so that all nodes have about the same number;
   * `Infinity` for a node that is alone.
   */
  readonly share: number;
}

export interface ClaimAsk extends WaitRule {
  /** 1, 2, 3, … per incarnation of the node. */
  readonly claim: number;
  /** Streams to take at most. */
  readonly take: number;
  /** Which of the free streams are meant; all of them when absent. */
  readonly among?: ClaimFilter | undefined;
}

/** Part of the streams that are free, for a node that claims very many of them. */
export type ClaimFilter =
  /** Streams of these tenants. */
  | { readonly tenants: readonly number[] }
  /**
   * Streams after this one, in the order of tenant and id; `behind`: only those whose log goes on
   * after their cursor.
   */
  | { readonly after: StreamRef | undefined; readonly behind: boolean };

export interface StreamRef {
  readonly tenant: number;
  readonly stream: string;
}

export interface CursorRaise extends StreamRef {
  readonly epoch: number;
  readonly run: number;
  readonly version: number;
  readonly cursor: Offset;
}

/** Everything a runner starts from. */
export interface OwnedStream {
  readonly stream: Stream;
  readonly tenantName: string;
  readonly epoch: number;
  readonly run: number;
  readonly cursor: Offset;
  /** First and test deliveries that wait for a retry or are under way with a row. */
  readonly waiting: number;
  /** Until the first of the stream's rows is due; those of a replay pause while it is disabled. */
  readonly nextDueInMs: number | undefined;
  /** Id of the replay that is running, or pauses. */
  readonly replay: string | undefined;
  /** Offsets above the cursor that have a row already. */
  readonly rowsAbove: readonly Offset[];
}

// Keys

export interface KeyStore {
  /** Newest first, expired ones left out. */
  list(tenant: number, now: Millis): Promise<SigningKey[]>;
  /** Adds a key and gives those before it the instant from which they are no longer published. */
  add(key: Omit<SigningKey, 'expiresAt'>, formerExpiresAt: Millis): Promise<void>;
  /** Lets a key sign from `now` on. False when there is none. */
  promote(tenant: number, kid: string, now: Millis): Promise<boolean>;
  /** Removes a key at once. False when there is none. */
  revoke(tenant: number, kid: string): Promise<boolean>;
}

// Clients, APIs, grants, roles

/** A page by number, as the lists of contract section 14.1 use it. */
export interface NumberedPage<T> {
  readonly items: readonly T[];
  readonly total: number;
}

export interface PageByNumber {
  readonly page: number;
  readonly perPage: number;
}

export interface ClientStore {
  get(tenant: number, id: string): Promise<Client | undefined>;
  list(tenant: number, page: PageByNumber): Promise<NumberedPage<Client>>;
  create(client: Omit<Client, 'version'>): Promise<{ created: Client } | { refused: 'id_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Client, grants: readonly Grant[]) => { after: Client } | { refused: string },
  ): Promise<{ updated: Client } | { refused: string }>;
  /** Removes the client with its grants and its roles. False when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
  /** Remembers the `jti` of an assertion until it expires; false when it was used before. */
  useAssertion(tenant: number, clientId: string, jti: string, expiresAt: Millis): Promise<boolean>;
}

export interface ApiStore {
  /** By id or by identifier. */
  get(tenant: number, idOrIdentifier: string): Promise<Api | undefined>;
  /** Refuses a page of more than `bytesMax`. */
  list(
    tenant: number,
    page: PageByNumber & { readonly bytesMax?: number | undefined },
  ): Promise<NumberedPage<Api> | { refused: 'too_large' }>;
  create(api: Api): Promise<{ created: Api } | { refused: 'identifier_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Api) => Api,
  ): Promise<{ updated: Api } | { refused: 'unknown' }>;
  /** Removes the API with its grants and its permissions. False when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
}

export interface GrantStore {
  get(tenant: number, id: string): Promise<Grant | undefined>;
  /** The grant of one client for one API. */
  of(tenant: number, client: string, api: string): Promise<Grant | undefined>;
  list(
    tenant: number,
    query: {
      client?: string | undefined;
      api?: string | undefined;
      after: string | undefined;
      take: number;
      bytesMax?: number | undefined;
    },
  ): Promise<Page<Grant>>;
  create(
    grant: Grant,
  ): Promise<{ created: Grant } | { refused: 'exists' | 'unknown_client' | 'unknown_api' }>;
  update(
    tenant: number,
    id: string,
    scope: readonly string[],
  ): Promise<{ updated: Grant } | { refused: 'unknown' }>;
  delete(tenant: number, id: string): Promise<boolean>;
}

export interface RoleStore {
  get(tenant: number, id: string): Promise<Role | undefined>;
  byName(tenant: number, name: string): Promise<Role | undefined>;
  list(tenant: number, page: PageByNumber): Promise<NumberedPage<Role>>;
  create(role: Role): Promise<{ created: Role } | { refused: 'name_taken' }>;
  update(
    tenant: number,
    id: string,
    decide: (before: Role) => Role,
  ): Promise<{ updated: Role } | { refused: 'unknown' | 'name_taken' }>;
  /** Removes the role with its permissions and its members. False when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;

  /** In the order of API id and name. */
  permissions(tenant: number, role: string, page: PageByNumber): Promise<NumberedPage<Permission>>;
  /** Adds all or none; one that the role has already stays. */
  addPermissions(
    tenant: number,
    role: string,
    permissions: readonly Permission[],
  ): Promise<'added' | 'unknown_role' | 'unknown_api'>;
  /** One that the role does not have is no error. False when there is no such role. */
  removePermissions(
    tenant: number,
    role: string,
    permissions: readonly Permission[],
  ): Promise<boolean>;

  /** Ids of clients, in order. */
  clients(tenant: number, role: string, page: PageByNumber): Promise<NumberedPage<string>>;
  /** Adds all or none; one that has the role already keeps it. */
  addClients(
    tenant: number,
    role: string,
    clients: readonly string[],
  ): Promise<'added' | 'unknown_role' | 'unknown_client'>;
  /** One that does not have the role is no error. False when there is no such role. */
  removeClients(tenant: number, role: string, clients: readonly string[]): Promise<boolean>;

  /** Ids of users, in order, after the user with the id `after`. */
  users(
    tenant: number,
    role: string,
    page: { after: string | undefined; take: number },
  ): Promise<Page<string>>;
  /** Adds all or none; one that has the role already keeps it. */
  addUsers(
    tenant: number,
    role: string,
    users: readonly string[],
  ): Promise<'added' | 'unknown_role' | 'unknown_user'>;
  /** One that does not have the role is no error. False when there is no such role. */
  removeUsers(tenant: number, role: string, users: readonly string[]): Promise<boolean>;

  /** The permissions that the roles of a client have for an API, each once, sorted. */
  permissionsOf(tenant: number, client: string, api: string): Promise<readonly string[]>;
}
