import type { Clock } from '../core/clock.ts';

/** Values that are computed at request, kept for a short time and shared by requests. */
export interface Recent<V> {
  /**
   * Returns the value of a key. Requests that need it at the same time share one `load`; what that throws
   * is not kept.
   */
  get(key: string, load: () => Promise<V>): Promise<V>;
}

export interface RecentDeps<V> {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** A value is not returned when it was requested longer ago. */
  readonly keptMs: number;
  /** The oldest values are dropped beyond this weight in total. */
  readonly weightMax: number;
  readonly weightOf: (value: V) => number;
}

interface Entry<V> {
  readonly value: Promise<V>;
  readonly requestedAtMs: number;
  /** 0 while it is being loaded. */
  weight: number;
}

/** Creates a {@link Recent} without values. */
export function createRecent<V>({ clock, keptMs, weightMax, weightOf }: RecentDeps<V>): Recent<V> {
  const entries = new Map<string, Entry<V>>();

  const dropHeavy = (): void => {
    let weight = entries.values().reduce((sum, entry) => sum + entry.weight, 0);
    for (const [key, entry] of entries) {
      if (weight <= weightMax) return;
      if (entry.weight === 0) continue;
      entries.delete(key);
      weight -= entry.weight;
    }
  };

  const loaded = async (key: string, load: () => Promise<V>): Promise<V> => {
    const entry: Entry<V> = { value: load(), requestedAtMs: clock.elapsedMs(), weight: 0 };
    entries.delete(key);
    entries.set(key, entry);
    const drop = (): void => {
      if (entries.get(key) === entry) entries.delete(key);
    };
    try {
      const value = await entry.value;
      const leftMs = entry.requestedAtMs + keptMs - clock.elapsedMs();
      if (leftMs > 0) {
        entry.weight = Math.max(1, weightOf(value));
        clock.after(leftMs, drop);
        dropHeavy();
      } else drop();
      return value;
    } catch (error) {
      drop();
      throw error;
    }
  };

  return {
    get: (key, load) => {
      const entry = entries.get(key);
      const isUsable =
        entry !== undefined &&
        (entry.weight === 0 || clock.elapsedMs() - entry.requestedAtMs < keptMs);
      return isUsable ? entry.value : loaded(key, load);
    },
  };
}
