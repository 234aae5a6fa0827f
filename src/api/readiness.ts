import type { Clock, Millis } from '../core/clock.ts';
import { StoreUnavailable, type UnavailableReason } from '../core/errors.ts';
import type { NodeState } from '../store/port/ownership.ts';
import type { Store } from '../store/port/store.ts';
import { isSkewed } from '../store/port/time.ts';
import { storeTexts } from './http/problem.ts';

/** Checks whether this node can do its work. */
export interface Readiness {
  check(): Promise<Ready | NotReady>;
}

export interface Ready {
  readonly isReady: true;
  readonly nodes: readonly NodeState[];
}

export interface NotReady {
  readonly isReady: false;
  /** One sentence. */
  readonly reason: string;
}

export interface ReadinessDeps {
  readonly store: Pick<Store, 'ping' | 'ownership' | 'time'>;
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Why this node is not ready although the store responds; one sentence. Asked at each probe. */
  readonly obstacle: () => string | undefined;
}

/** The store is checked once in this time, however many probes come. */
const freshMs: Millis = 1000;
/** Shorter than the usual timeout of a load balancer's probe. */
const timeoutMs: Millis = 3000;

/** Creates the readiness check. */
export function createReadiness(deps: ReadinessDeps): Readiness {
  const { clock, obstacle } = deps;
  let last: { readonly result: Promise<Checked>; readonly atMs: number } | undefined;
  let first: string | undefined;
  return {
    check: async () => {
      const nowMs = clock.elapsedMs();
      if (last === undefined || nowMs - last.atMs >= freshMs) {
        last = { result: checkOnce(deps), atMs: nowMs };
      }
      const { isPublishing = false, ...result } = await last.result;
      // Not kept: a node that has just started gets its lease some milliseconds after the first probe. Without
      // one it does not deliver, but the requests of publishers are served.
      const hindrance = isPublishing ? undefined : obstacle();
      const reason = reasonOf(result, hindrance);
      if (reason === undefined) first = undefined;
      // What follows from the first cause, as a lost lease, does not replace it.
      else if (first === undefined || (!result.isReady && consequences.has(first))) first = reason;
      if (first !== undefined) return { isReady: false, reason: first };
      return result;
    },
  };
}

/** A store that does not answer says less than the lack of a lease. */
function reasonOf(result: Ready | NotReady, hindrance: string | undefined): string | undefined {
  if (result.isReady) return hindrance;
  return result.reason === lateText ? (hindrance ?? lateText) : result.reason;
}

/** The result of a check; `isPublishing` if publishers append now. */
type Checked = (Ready | NotReady) & { readonly isPublishing?: boolean };

async function checkOnce({ store, clock }: ReadinessDeps): Promise<Checked> {
  const late = Promise.withResolvers<Checked>();
  const timer = clock.after(timeoutMs, () => {
    late.resolve({ isReady: false, reason: lateText });
  });
  try {
    return await Promise.race([late.promise, checkStore(store)]);
  } finally {
    timer.cancel();
  }
}

async function checkStore({ ping, ownership, time }: ReadinessDeps['store']): Promise<Checked> {
  try {
    const isPublishing = await ping();
    // New connections may be refused while those of publishers work, as with a new password.
    const nodes = await ownership.nodes().catch((error: unknown) => {
      if (isPublishing && error instanceof StoreUnavailable) return [];
      throw error;
    });
    const isWrong = isSkewed(time.skewMs()) && nodes.some(isLiveAndExact);
    return isWrong
      ? { isReady: false, reason: wrongClock }
      : { isReady: true, nodes, isPublishing };
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return { isReady: false, reason: texts[error.reason] };
  }
}

/** This node would misjudge tokens, and another one can serve its requests. */
const wrongClock = 'The clock of this node is wrong.';

function isLiveAndExact({ leaseMs, skewMs }: NodeState): boolean {
  return leaseMs > 0 && !isSkewed(skewMs);
}

export const noLease = 'The node has no lease.';
const lateText = 'The store does not answer in time.';

const texts: Record<UnavailableReason, string> = {
  ...storeTexts,
  outdated: 'A newer version of Leat changed the store so that this one may not use it.',
  key: 'LEAT_SECRET_KEY of this node lacks the key that seals the secrets in the store.',
};

/** What a better known cause replaces. */
const consequences: ReadonlySet<string> = new Set([texts.away, lateText, noLease]);
