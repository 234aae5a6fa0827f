import { LRUCache } from 'lru-cache';
import type { Clock } from '../core/clock.ts';
import { entriesAtMost } from '../core/lru.ts';

/**
 * Rows of the store, cached for a short time. A fresh value is returned without a promise, which the
 * `fetch` of `lru-cache` cannot do. Callers that need the same key at the same time share one read.
 */
export interface TtlCache<V> {
  /**
   * Returns the value of a key, at most `ageMsMax` old (by default `freshMs`). Calls `read` when
   * there is none, with the former value if it is still cached. Rejects with what `read` throws, and
   * caches nothing then.
   */
  get(key: string, read: Read<V>, ageMsMax?: number): V | Promise<V>;
  /** Returns the cached value of a key, however old; `undefined` when there is none. */
  last(key: string): V | undefined;
  /** Marks a value as changed: it is no longer fresh, and a read under way is not cached. */
  expire(key: string): void;
}

type Read<V> = (former: V | undefined) => Promise<V>;

export interface TtlCacheDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly freshMs: number;
  /** The least recently used value is dropped beyond this number. */
  readonly entriesMax: number;
}

/** Creates an empty cache. */
export function createTtlCache<V>(deps: TtlCacheDeps): TtlCache<V> {
  const { clock, freshMs } = deps;
  const entries = new LRUCache<string, Entry<V>>(entriesAtMost(deps.entriesMax));
  const reading = new Map<string, Promise<V>>();

  const readAndCache = async (key: string, read: Read<V>): Promise<V> => {
    // The age counts from before the read: the row may change right after the store has read it.
    const readAtMs = clock.elapsedMs();
    const pending = read(entries.get(key)?.value);
    reading.set(key, pending);
    try {
      const value = await pending;
      if (reading.get(key) === pending) entries.set(key, { value, readAtMs });
      return value;
    } finally {
      if (reading.get(key) === pending) reading.delete(key);
    }
  };

  return {
    get: (key, read, ageMsMax = freshMs) => {
      const entry = entries.get(key);
      if (entry !== undefined && clock.elapsedMs() - entry.readAtMs < ageMsMax) return entry.value;
      return reading.get(key) ?? readAndCache(key, read);
    },
    last: (key) => entries.get(key)?.value,
    expire: (key) => {
      reading.delete(key);
      const entry = entries.get(key);
      if (entry !== undefined) entries.set(key, { value: entry.value, readAtMs: -Infinity });
    },
  };
}

interface Entry<V> {
  readonly value: V;
  readonly readAtMs: number;
}
