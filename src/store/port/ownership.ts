import type { Node, Offset, Stream, StreamRef } from '../../core/types.ts';
import type { WaitRule } from './time.ts';

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
  claim(node: Node, request: ClaimRequest): Promise<OwnedStream[]>;
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
   * `Settlement.version` lets them; never lowers one. Answers in the same order where they are
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

export interface ClaimRequest extends WaitRule {
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
