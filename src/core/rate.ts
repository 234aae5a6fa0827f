import type { Millis } from './clock.ts';

/** How fast something may be asked for. */
export interface RateRule {
  /** Size of a bucket. */
  readonly capacity: number;
  /** Refill. */
  readonly perSecond: number;
  /**
   * Admits while anything at all is left, so that one request may take off more than there is;
   * otherwise one whole token is needed.
   */
  readonly overdraft?: boolean | undefined;
}

/** A bucket right after a request. */
export interface RateState {
  readonly admitted: boolean;
  /** Size of the bucket. */
  readonly limit: number;
  /** Whole tokens left, not below 0. */
  readonly remaining: number;
  /** Until the bucket is full again. */
  readonly fullInMs: number;
  /** Until the next request would be admitted; 0 when it would be now. */
  readonly openInMs: number;
}

/** Token buckets by key. Times are monotonic milliseconds. */
export interface Buckets {
  /** Takes tokens off, one unless said, unless the bucket refuses; then nothing changes. */
  take(key: string, elapsedMs: Millis, tokens?: number): RateState;
  /** Whether the bucket would admit a request; takes nothing off. */
  peek(key: string, elapsedMs: Millis): RateState;
  /** Takes further tokens off, below zero if need be: for a cost known only after admission. */
  spend(key: string, tokens: number, elapsedMs: Millis): RateState;
  /** Buckets kept now. */
  size(): number;
}

/**
 * Creates buckets that are all full at first. A bucket is one number, the instant at which it will
 * be full again: refilling costs nothing, and a bucket that is forgotten is a full one. At most
 * `bucketsMax` are kept, the fullest are dropped first.
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
      const missingMs = missing(key, elapsedMs) + tokens * tokenMs;
      put(key, missingMs, elapsedMs);
      return state(true, missingMs);
    },
    size: () => fullAt.size,
  };
}

/** Sums of fractions of milliseconds miss a whole token by less than this. */
const rounding = 1e-6;

/** A tenth at once, so that the look through all of them is paid for by as many new keys. */
function dropFullest(fullAt: Map<string, Millis>, bucketsMax: number, elapsedMs: Millis): void {
  const keep = Math.floor(bucketsMax * 0.9);
  const instants = Float64Array.from(fullAt.values()).toSorted();
  const lastDropped = Math.max(elapsedMs, instants[fullAt.size - keep - 1] ?? elapsedMs);
  for (const [key, instant] of fullAt) {
    if (instant <= lastDropped) fullAt.delete(key);
  }
}

/**
 * The key of a remote address: an IPv4 address as it is, also when it comes mapped into IPv6, in
 * whatever notation; an IPv6 address by its /64, which is what one customer has.
 */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address;
  // As a dual-stack socket writes every one of them.
  const mapped = /^::ffff:([0-9.]+)$/.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [head = '', tail] = address.toLowerCase().split('%', 1).join('').split('::');
  const left = groupsOf(head);
  const right = groupsOf(tail ?? '');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array<string>(zeros).fill('0'), ...right];
  return mappedIpv4(groups) ?? `${groups.slice(0, 4).join(':')}::/64`;
}

/** The 16-bit groups without leading zeros; a trailing IPv4 part makes two of them. */
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

/** The IPv4 address of an IPv4-mapped one (RFC 4291 section 2.5.5.2). */
function mappedIpv4(groups: readonly string[]): string | undefined {
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return undefined;
  return groups
    .slice(6)
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [Math.floor(group / 256), group % 256])
    .join('.');
}
