import type { Millis } from './clock.ts';

/** The size and refill of a token bucket. */
export interface RateRule {
  /** Tokens of a full bucket. */
  readonly capacity: number;
  /** Tokens refilled per second. */
  readonly perSecond: number;
  /**
   * Admits a request while any fraction of a token is left, so that it may overdraw the bucket;
   * otherwise a request needs a whole token.
   */
  readonly overdraft?: boolean | undefined;
}

/** The state of a bucket after a request. */
export interface RateState {
  readonly admitted: boolean;
  /** Tokens of the full bucket. */
  readonly limit: number;
  /** Whole tokens left, at least 0. */
  readonly remaining: number;
  /** Time until the bucket is full. */
  readonly fullInMs: number;
  /** Time until the next request is admitted; 0 if it is admitted now. */
  readonly openInMs: number;
}

/** Token buckets by key. Times are monotonic milliseconds. */
export interface Buckets {
  /** Takes tokens (by default one) if the bucket admits the request; otherwise changes nothing. */
  take(key: string, elapsedMs: Millis, tokens?: number): RateState;
  /** Returns whether the bucket admits a request, without taking tokens. */
  peek(key: string, elapsedMs: Millis): RateState;
  /**
   * Takes more tokens, below zero if necessary: for a cost known only after admission. Gives back a
   * negative number of them, up to the full bucket.
   */
  spend(key: string, tokens: number, elapsedMs: Millis): RateState;
  /** Returns the number of stored buckets. */
  size(): number;
}

/**
 * Creates token buckets; each is full at first. A bucket is stored as the instant at which it will be
 * full: refilling costs nothing, and a missing bucket is a full one. Stores at most `bucketsMax` and
 * drops the fullest first.
 */
export function createBuckets(rule: RateRule, bucketsMax: number): Buckets {
  const fullAt = new Map<string, Millis>();
  const tokenMs = 1000 / rule.perSecond;
  const needed = rule.overdraft === true ? Number.MIN_VALUE : 1;

  const state = (admitted: boolean, missingMs: number): RateState => {
    const level = rule.capacity - missingMs / tokenMs;
    return {
      admitted,
      limit: rule.capacity,
      remaining: Math.max(0, Math.floor(level + rounding)),
      fullInMs: missingMs,
      openInMs: Math.max(0, (needed - level) * tokenMs),
    };
  };
  const put = (key: string, missingMs: number, elapsedMs: Millis): void => {
    if (fullAt.size >= bucketsMax && !fullAt.has(key)) dropFullest(fullAt, bucketsMax, elapsedMs);
    fullAt.set(key, elapsedMs + missingMs);
  };

  const missing = (key: string, elapsedMs: Millis): number =>
    Math.max(0, (fullAt.get(key) ?? 0) - elapsedMs);
  const admits = (missingMs: number): boolean => {
    const level = rule.capacity - missingMs / tokenMs;
    return level + rounding >= needed && level > 0;
  };

  return {
    peek: (key, elapsedMs) => {
      const missingMs = missing(key, elapsedMs);
      return state(admits(missingMs), missingMs);
    },
    take: (key, elapsedMs, tokens = 1) => {
      const missingMs = missing(key, elapsedMs);
      if (!admits(missingMs)) return state(false, missingMs);
      put(key, missingMs + tokens * tokenMs, elapsedMs);
      return state(true, missingMs + tokens * tokenMs);
    },
    spend: (key, tokens, elapsedMs) => {
      const missingMs = Math.max(0, missing(key, elapsedMs) + tokens * tokenMs);
      put(key, missingMs, elapsedMs);
      return state(true, missingMs);
    },
    size: () => fullAt.size,
  };
}

/** Rounding errors of sums of milliseconds are smaller than this part of a token. */
const rounding = 1e-6;

/** Drops a tenth at once: the cost of the scan is spread over as many new keys. */
function dropFullest(fullAt: Map<string, Millis>, bucketsMax: number, elapsedMs: Millis): void {
  const remaining = Math.floor(bucketsMax * 0.9);
  const instants = Float64Array.from(fullAt.values()).toSorted();
  const lastDropped = Math.max(elapsedMs, instants[fullAt.size - remaining - 1] ?? elapsedMs);
  for (const [key, instant] of fullAt) {
    if (instant <= lastDropped) fullAt.delete(key);
  }
}

/**
 * Returns the bucket key of a remote address: an IPv4 address, also when it is mapped into IPv6 in any
 * notation; of an IPv6 address its /64, the usual allocation of one customer.
 */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address;
  // The notation of dual-stack sockets.
  const mapped = /^::ffff:([0-9.]+)$/.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = '', tail] = address.toLowerCase().split('%', 1).join('').split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail ?? '');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array<string>(zeros).fill('0'), ...right];
  return mappedIpv4(groups) ?? `${groups.slice(0, 4).join(':')}::/64`;
}

/** Returns the key of the network of an address, which one customer may have: IPv4 /24, IPv6 /48. */
export function networkKey(address: string): string {
  const key = addressKey(address);
  const [, ipv4] = /^(\d+\.\d+\.\d+)\.\d+$/.exec(key) ?? [];
  return ipv4 === undefined ? key.split(':').slice(0, 3).join(':') : `${ipv4}.0/24`;
}

/** Returns the 16-bit groups without leading zeros; a trailing IPv4 part becomes two groups. */
function groupsOf(text: string): string[] {
  if (text === '') return [];
  return text
    .split(':')
    .flatMap((group) =>
      group.includes('.') ? ipv4Groups(group) : [group.replace(/^0+(?=.)/, '')],
    );
}

function ipv4Groups(dotted: string): string[] {
  const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number);
  return [a * 256 + b, c * 256 + d].map((group) => group.toString(16));
}

/** Returns the IPv4 address in an IPv4-mapped one (RFC 4291 section 2.5.5.2). */
function mappedIpv4(groups: readonly string[]): string | undefined {
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return undefined;
  return groups
    .slice(6)
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [Math.floor(group / 256), group % 256])
    .join('.');
}
