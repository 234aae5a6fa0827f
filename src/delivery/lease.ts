import type { Clock, Timer } from '../core/clock.ts';
import type { Heartbeat, OwnershipStore } from '../store/port/ownership.ts';
import type { Node } from '../core/types.ts';
import type { StoreRetry } from './store-retry.ts';
import type { DeliverySettings } from './settings.ts';

/**
 * The node's right to send for the streams it owns. The store gives them to no other node for
 * `leaseMs` after each renewal. The node counts from before it sent the renewal, on its own
 * monotonic clock, and stops earlier: so it has stopped before another node can begin, however late
 * the response came and whatever its wall clock shows.
 */
export interface Lease {
  /** Whether attempts may begin. */
  readonly isHeld: boolean;
  /** Streams that this node should own at most; see {@link OwnershipStore.heartbeat}. */
  readonly share: number;
  /** Rises each time that it is held again: earlier results of the store may be out of date. */
  readonly term: number;
  start(): void;
  /** Resolves when no heartbeat is under way or to come, so that none renews the lease of a node that has left. */
  end(): Promise<void>;
  close(): void;
}

export interface LeaseDeps {
  readonly ownership: Pick<OwnershipStore, 'heartbeat'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly storeRetry: StoreRetry;
  readonly settings: Pick<DeliverySettings, 'leaseMs' | 'leaseStopMs' | 'heartbeatMs'>;
  /**
   * The lease had ended and is held again, from right after this call: other nodes may have taken
   * streams meanwhile.
   */
  readonly regained: () => void;
  /** Another process has joined under this node's name: this one owns nothing any more. */
  readonly replaced: () => void;
  /** The store has forgotten the node, whose lease ended long ago. */
  readonly removed: () => void;
  /** The lease was renewed. `shareGrew`: another node has left or died. */
  readonly renewed: (heartbeat: Heartbeat, shareGrew: boolean) => void;
}

export function createLease(deps: LeaseDeps): Lease {
  const { ownership, node, clock, storeRetry, settings } = deps;
  let heldUntilMs = -Infinity;
  let share = 0;
  let term = 0;
  let timer: Timer | undefined;
  let closed = false;
  /** The last heartbeat that was sent. */
  let sent: Promise<unknown> = Promise.resolve();

  const isHeld = (): boolean => clock.elapsedMs() < heldUntilMs;
  const renew = async (): Promise<void> => {
    let sentMs = 0;
    const heartbeat = await storeRetry.run(() => {
      // One that failed is not repeated: this never settles.
      if (closed) return new Promise<never>(() => undefined);
      sentMs = clock.elapsedMs();
      const beat = ownership.heartbeat(node, settings.leaseMs);
      sent = beat;
      return beat;
    });
    if (closed) return;
    if (heartbeat === undefined) {
      heldUntilMs = -Infinity;
      return deps.replaced();
    }
    if (heartbeat === 'removed') return deps.removed();
    // The clock of a suspended machine stops: the store knows that the lease ended.
    const wasHeld = isHeld() && !heartbeat.lapsed;
    const shareGrew = wasHeld && heartbeat.share > share;
    share = heartbeat.share;
    if (!wasHeld) {
      term += 1;
      deps.regained();
    }
    heldUntilMs = sentMs + settings.leaseStopMs;
    deps.renewed(heartbeat, shareGrew);
    timer = clock.after(settings.heartbeatMs, () => void renew());
  };
  const close = (): void => {
    closed = true;
    timer?.cancel();
  };

  return {
    get isHeld() {
      return isHeld();
    },
    get share() {
      return share;
    },
    get term() {
      return term;
    },
    start: () => void renew(),
    end: async () => {
      close();
      await Promise.allSettled([sent]);
    },
    close,
  };
}
