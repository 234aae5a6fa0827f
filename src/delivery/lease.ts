import type { Clock, Timer } from '../core/clock.ts';
import type { Heartbeat, OwnershipStore } from '../store/port/ownership.ts';
import type { Node } from '../core/types.ts';
import type { StoreRetry } from './store-retry.ts';
import type { DeliverySettings } from './settings.ts';

/**
 * The node's right to work for the streams it owns. The store lets nobody else have them for
 * `leaseMs` from each renewal on; the node counts from before it sent the renewal, on its own
 * monotonic clock, and stops earlier: so it has stopped before another can begin, however late the
 * answer came and whatever its wall clock says.
 */
export interface Lease {
  /** Whether anything may begin. */
  readonly isHeld: boolean;
  /** Streams that this node should own at most; see {@link OwnershipStore.heartbeat}. */
  readonly share: number;
  /** Rises each time that it is held again: what the store answered before may be out of date. */
  readonly term: number;
  start(): void;
  close(): void;
}

export interface LeaseDeps {
  readonly ownership: Pick<OwnershipStore, 'heartbeat'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly storeRetry: StoreRetry;
  readonly settings: Pick<DeliverySettings, 'leaseMs' | 'leaseStopMs' | 'heartbeatMs'>;
  /**
   * It was not held and is again, from right after this call: streams may have been taken
   * meanwhile.
   */
  readonly regained: () => void;
  /** Another process has joined in this node's name: this one is over, and owns nothing. */
  readonly replaced: () => void;
  /** It was renewed. `grew`: the share did, so another node has left or died. */
  readonly renewed: (heartbeat: Heartbeat, grew: boolean) => void;
}

export function createLease(deps: LeaseDeps): Lease {
  const { ownership, node, clock, storeRetry, settings } = deps;
  let heldUntilMs = -Infinity;
  let share = 0;
  let term = 0;
  let timer: Timer | undefined;
  let closed = false;

  const isHeld = (): boolean => clock.elapsedMs() < heldUntilMs;
  const renew = async (): Promise<void> => {
    let sentMs = 0;
    const answer = await storeRetry.run(() => {
      sentMs = clock.elapsedMs();
      return ownership.heartbeat(node, settings.leaseMs);
    });
    if (closed) return;
    if (answer === undefined) return deps.replaced();
    // While a machine is suspended its clock stands still: the store knows that the lease ended.
    const wasHeld = isHeld() && !answer.lapsed;
    const grew = wasHeld && answer.share > share;
    share = answer.share;
    if (!wasHeld) {
      term += 1;
      deps.regained();
    }
    heldUntilMs = sentMs + settings.leaseStopMs;
    deps.renewed(answer, grew);
    timer = clock.after(settings.heartbeatMs, () => void renew());
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
    close: () => {
      closed = true;
      timer?.cancel();
    },
  };
}
