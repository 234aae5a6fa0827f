import type { Clock, Timer } from '../core/clock.ts';
import type { Runner } from './runner.ts';

/** Bounds the attempts per second of streams with such a limit. */
export interface Rates {
  /** Counts an attempt that begins. No further one begins while the limit is reached. */
  begun(runner: Runner): void;
  /** Reserves an attempt that begins later: until then it counts as if it began now. */
  reserved(runner: Runner): void;
  /** Counts a reserved attempt that begins. */
  reservedBegun(runner: Runner): void;
  /** Takes back reserved attempts that do not begin. */
  returned(runner: Runner, attempts: number): void;
  /** Cancels all timers. */
  close(): void;
}

/** A token bucket of one second, at least of one attempt. */
interface Bucket {
  readonly perSecond: number;
  /** When it will be full but for what is reserved, by the monotonic clock. */
  fullAtMs: number;
  reserved: number;
  timer: Timer | undefined;
}

/** Creates the limits; each bucket is full at first, so a new owner of a stream adds one burst at most. */
export function createRates(deps: {
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** The runner may send again. */
  readonly ended: (runner: Runner) => void;
}): Rates {
  const { clock, ended } = deps;
  const buckets = new WeakMap<Runner, Bucket>();
  const limited = new Set<Bucket>();
  const bucketOf = (runner: Runner): Bucket | undefined => {
    const perSecond = runner.stream.delivery?.perSecond;
    if (perSecond === undefined) return undefined;
    const known = buckets.get(runner);
    if (known?.perSecond === perSecond) return known;
    if (known !== undefined) release(known);
    const reserved = known?.reserved ?? 0;
    const bucket: Bucket = { perSecond, fullAtMs: -Infinity, reserved, timer: undefined };
    buckets.set(runner, bucket);
    return bucket;
  };
  const release = (bucket: Bucket): void => {
    bucket.timer?.cancel();
    bucket.timer = undefined;
    limited.delete(bucket);
  };
  const check = (runner: Runner, bucket: Bucket): void => {
    release(bucket);
    const waitMs = waitOf(bucket, clock.elapsedMs());
    runner.isRateLimited = waitMs > 0;
    if (waitMs === 0) return;
    limited.add(bucket);
    bucket.timer = clock.after(waitMs, () => {
      if (runner.state === 'gone' || buckets.get(runner) !== bucket) return release(bucket);
      check(runner, bucket);
      if (!runner.isRateLimited) ended(runner);
    });
  };
  const begun = (runner: Runner, reserved: number): void => {
    const bucket = bucketOf(runner);
    if (bucket === undefined) return;
    bucket.reserved = Math.max(0, bucket.reserved - reserved);
    bucket.fullAtMs = Math.max(bucket.fullAtMs, clock.elapsedMs()) + 1000 / bucket.perSecond;
    check(runner, bucket);
  };
  return {
    begun: (runner) => begun(runner, 0),
    reservedBegun: (runner) => begun(runner, 1),
    reserved: (runner) => {
      const bucket = bucketOf(runner);
      if (bucket === undefined) return;
      bucket.reserved += 1;
      check(runner, bucket);
    },
    returned: (runner, attempts) => {
      const bucket = bucketOf(runner);
      if (bucket === undefined || attempts === 0) return;
      bucket.reserved = Math.max(0, bucket.reserved - attempts);
      check(runner, bucket);
      if (!runner.isRateLimited) ended(runner);
    },
    close: () => {
      for (const bucket of limited) bucket.timer?.cancel();
      limited.clear();
    },
  };
}

/** Rounding errors of sums of milliseconds are smaller. */
const roundingMs = 1e-6;

/** Returns the time until a bucket has a whole token; 0 if it has one. */
function waitOf({ perSecond, fullAtMs, reserved }: Bucket, nowMs: number): number {
  const capacity = Math.max(1, perSecond);
  const usedMs = Math.max(0, fullAtMs - nowMs);
  const waitMs = usedMs - ((capacity - 1 - reserved) * 1000) / perSecond;
  return waitMs <= roundingMs ? 0 : waitMs;
}
