import type { Health, Node, Offset, Stream, StreamRef, Subscription } from '../../core/types.ts';
import type { WaitRule } from './time.ts';

/**
 * Each node holds one lease; streams hold none. A stream is free when it has no owner, or when the
 * lease of its owner has ended. Leases are measured by the store's own clock and never by a
 * caller's, because the clocks of nodes differ and jump.
 */
export interface OwnershipStore {
  /**
   * Registers the node again, with a lease of `leaseMs`: its batches and claims start again at 1.
   * Streams that a former process of that id owned are free. Accepts the store as it is now: never
   * throws `StoreReplaced`.
   */
  join(nodeId: string, leaseMs: number): Promise<JoinedNode>;
  /**
   * Renews the lease: for `leaseMs` from now no other node takes its streams. An ended lease may be
   * renewed too, but streams may have been taken before. Returns `removed` when it ended so long ago that
   * the store has forgotten the node, which may join again, and `undefined` when another process has joined
   * under its name.
   */
  heartbeat(node: Node, leaseMs: number): Promise<Heartbeat | 'removed' | undefined>;
  /**
   * Makes the node owner of free streams that need one: enabled ones, and disabled ones with rows
   * to send, except rows of a replay. Each claim raises the stream's epoch and makes its parked
   * rows due at once (on a disabled stream those of first and test deliveries become failures). A
   * claim whose number is not above the node's last one takes nothing new and returns what that one
   * took, so it can be repeated when its result was lost. A node without a lease gets nothing.
   */
  claim(node: Node, request: ClaimRequest): Promise<OwnedStream[]>;
  /**
   * Changes the parked rows, as a claim does, of streams that one has only taken. Returns the state of those
   * that the node owns. May be repeated until an attempt begins.
   */
  begin(node: Node, streams: readonly StreamRef[], rule: WaitRule): Promise<OwnedStream[]>;
  /**
   * Returns the current state of those streams that the node owns; a missing one has another owner
   * or was deleted. From the call until its result the node must start no work for them that is
   * based on an earlier state: from now on they count as seen. Subscriptions that the node did not know
   * when it took events apply to later ones only: it goes on from what it has taken.
   */
  owned(node: Node, streams: readonly KnownStream[], rule: WaitRule): Promise<OwnedStream[]>;
  /**
   * Returns whether no node still works with the stream as it was before its last change: its owner
   * has read it since, has no lease any more, or there is none.
   */
  hasSeen(stream: StreamRef): Promise<boolean>;
  /** Returns the node with a lease that owns the stream; `undefined` when there is none. */
  owner(stream: StreamRef): Promise<string | undefined>;
  /**
   * Raises the cursors of runners that passed events without a match, as far as
   * `Settlement.version` allows; never lowers one. Returns the cursors afterwards, in the same
   * order; 0 for a stream that has another owner or another run.
   */
  raiseCursors(cursors: readonly CursorRaise[]): Promise<Offset[]>;
  /**
   * Notes that the store refuses results of a stream that the node owns, with the code of the error, or
   * without one that it has recorded a result again. The first refusal of several sets since when.
   */
  noteRefusal(
    node: Node,
    stream: StreamRef & Pick<CursorRaise, 'epoch'>,
    code: string | undefined,
  ): Promise<void>;
  /** Releases streams after raising their cursors, and as {@link owned} those with taken events. */
  release(node: Node, cursors: readonly (CursorRaise & KnownStream)[]): Promise<void>;
  /** Ends the node's lease; the streams that it still owns are free. */
  leave(node: Node): Promise<void>;
  /**
   * Returns nodes with a lease, and former ones whose streams are not taken yet, in order of id.
   */
  nodes(): Promise<NodeState[]>;
}

/** The result of joining. */
export interface JoinedNode extends Node {
  /** Present when the store is another one than this process knew. */
  readonly replaced?: Replacement | undefined;
}

/** What a process finds when it joins a store that was replaced. */
export interface Replacement {
  /** Rises with each replacement; the same for all processes that join the store then. */
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

/** The state of a node, for operators. */
export interface NodeState {
  readonly id: string;
  /** Number of streams that it owns. */
  readonly streams: number;
  /** Remaining time of its lease; 0 once it has ended. */
  readonly leaseMs: number;
  /** How far its wall clock was ahead of the store's at its last heartbeat. */
  readonly skewMs: number;
}

export interface Heartbeat {
  /**
   * The lease had ended before, even if the node does not know: others may have taken its streams.
   */
  readonly lapsed: boolean;
  /** Streams of the node that were changed and not read again since, because hints may get lost. */
  readonly changed: readonly StreamRef[];
  /**
   * Maximum streams for the node, so that all nodes have about the same number, and at least 1; `Infinity`
   * for a node that is alone. 0 for one whose clock is wrong: it takes none, not even a new one.
   */
  readonly share: number;
}

export interface ClaimRequest extends WaitRule {
  /** 1, 2, 3, … per incarnation of the node. */
  readonly claim: number;
  /** Maximum streams to take. */
  readonly take: number;
  /** Which of the free streams to consider; all of them when absent. */
  readonly among?: ClaimFilter | undefined;
  /**
   * Leaves the rows of the streams as they are, after a claim that the store refused; {@link
   * OwnershipStore.begin} follows.
   */
  readonly takesOnly?: boolean | undefined;
}

/** A part of the free streams, for a node that claims very many of them. */
export type ClaimFilter =
  /** Streams of these tenants. */
  | { readonly tenants: readonly number[] }
  /**
   * Streams after this one, in the order of tenant and id; `behind`: only those whose log continues
   * after their cursor.
   */
  | { readonly after: StreamRef | undefined; readonly behind: boolean };

/** A stream as its owner knows it; `taken` is absent when it has taken no event. */
export interface KnownStream extends StreamRef {
  readonly taken?: TakenEvents | undefined;
}

/** The events that an owner has taken from the log to send them, by a version of the stream. */
export interface TakenEvents {
  readonly epoch: number;
  readonly version: number;
  readonly subscriptions: readonly Subscription[];
  /** The last of them. */
  readonly upTo: Offset;
}

export interface CursorRaise extends StreamRef {
  readonly epoch: number;
  readonly run: number;
  readonly version: number;
  readonly cursor: Offset;
}

/** The state that a runner starts from. */
export interface OwnedStream {
  readonly stream: Stream;
  readonly tenantName: string;
  readonly epoch: number;
  readonly run: number;
  readonly cursor: Offset;
  /** First and test deliveries that wait for a retry or are in progress with a row. */
  readonly waiting: number;
  /** Deliveries of replays that wait, for a retry or for their first attempt, or are in progress. */
  readonly waitingReplays: number;
  readonly health: Health;
  /**
   * Time until the first of the stream's rows is due; rows of a replay pause while it is disabled.
   */
  readonly nextDueInMs: number | undefined;
  /** Id of the replay that is running or paused. */
  readonly replay: string | undefined;
  /** Offsets above the cursor that have a row already, or are settled. */
  readonly takenAbove: readonly Offset[];
  /** The keys that have rows; failures only where they block their key. */
  readonly keys: readonly KeyRows[];
  /** Whether results of it were refused, and none was recorded since. */
  readonly isRefused: boolean;
}

/** The rows of first deliveries with one key, see `order-key.ts`. */
export interface KeyRows {
  readonly key: string;
  /** Events that wait for the ones before. */
  readonly blocked: number;
  /** Whether one waits for a retry, or is in progress. */
  readonly held: boolean;
  /** Open failures. */
  readonly failed: number;
}
