import type { Clock } from '../core/clock.ts';
import { createVerifiedTokens } from './verified-tokens.ts';

/**
 * Rows of the store, kept in memory for a short time. A value that is fresh is answered at once,
 * without a promise; callers that need the same one together share a read.
 */
export interface TtlCache<V> {
  /**
   * The value of a key, at most `ageMsMax` old (by default `freshMs`). `read` is called when there
   * is none; it gets the value read before, when that is still known. Rejects with what it throws,
   * and keeps nothing then.
   */
  get(key: string, read: Read<V>, ageMsMax?: number): V | Promise<V>;
  /** Ends the freshness of a value, also of one that is being read: it changed meanwhile. */
  expire(key: string): void;
}

type Read<V> = (former: V | undefined) => Promise<V>;

export interface TtlCacheDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly freshMs: number;
  /** Values kept at most. */
  readonly entriesMax: number;
}

/** Creates the memory; it is empty at first. */
export function createTtlCache<V>(deps: TtlCacheDeps): TtlCache<V> {
  const { clock, freshMs } = deps;
  const kept = createVerifiedTokens<{ readonly value: V; readonly readAtMs: number }>(
    deps.entriesMax,
  );
  const reading = new Map<string, Promise<V>>();

  const readAndKeep = async (key: string, read: Read<V>): Promise<V> => {
    // The age counts from before the read: what it answers may have changed right after.
    const readAtMs = clock.elapsedMs();
    const pending = read(kept.get(key)?.value);
    reading.set(key, pending);
    try {
      const value = await pending;
      if (reading.get(key) === pending) kept.set(key, { value, readAtMs });
      return value;
    } finally {
      if (reading.get(key) === pending) reading.delete(key);
    }
  };

  return {
    get: (key, read, ageMsMax = freshMs) => {
      const entry = kept.get(key);
      if (entry !== undefined && clock.elapsedMs() - entry.readAtMs < ageMsMax) return entry.value;
      return reading.get(key) ?? readAndKeep(key, read);
    },
    expire: (key) => {
      reading.delete(key);
      const entry = kept.get(key);
      if (entry !== undefined) kept.set(key, { value: entry.value, readAtMs: -Infinity });
    },
  };
}
