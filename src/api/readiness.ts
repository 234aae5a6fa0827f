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
  let last: { readonly result: Promise<Ready | NotReady>; readonly atMs: number } | undefined;
  return {
    check: async () => {
      // Not kept: a node that has just started gets its lease some milliseconds after the first probe.
      const reason = obstacle();
      if (reason !== undefined) return { isReady: false, reason };
      const nowMs = clock.elapsedMs();
      if (last === undefined || nowMs - last.atMs >= freshMs) {
        last = { result: checkOnce(deps), atMs: nowMs };
      }
      const result = await last.result;
      // A lease may end while the store takes its time to answer.
      const later = obstacle();
      return later === undefined ? result : { isReady: false, reason: later };
    },
  };
}

async function checkOnce({ store, clock }: ReadinessDeps): Promise<Ready | NotReady> {
  const late = Promise.withResolvers<NotReady>();
  const timer = clock.after(timeoutMs, () => {
    late.resolve({ isReady: false, reason: 'The store does not answer in time.' });
  });
  try {
    return await Promise.race([late.promise, checkStore(store)]);
  } finally {
    timer.cancel();
  }
}

async function checkStore({
  ping,
  ownership,
  time,
}: ReadinessDeps['store']): Promise<Ready | NotReady> {
  try {
    await ping();
    const nodes = await ownership.nodes();
    const isWrong = isSkewed(time.skewMs()) && nodes.some(isLiveAndExact);
    return isWrong ? { isReady: false, reason: wrongClock } : { isReady: true, nodes };
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

const texts: Record<UnavailableReason, string> = {
  away: 'The store is not available.',
  ...storeTexts,
  outdated: 'A newer version of Leat changed the store so that this one may not use it.',
  key: 'LEAT_SECRET_KEY of this node lacks the key that seals the secrets in the store.',
};
