import type { Clock } from '../core/clock.ts';

/** Values that are computed at request, kept for a short time and shared by requests. */
export interface Recent<V> {
  /**
   * Returns the value of a key. Requests that need it at the same time share one `load`; what that throws
   * is not kept. A request for a value of more than half of its age also loads the next one, so that
   * regular requests do not wait.
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
  /** Whether the next value is being loaded. */
  isRefreshing: boolean;
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

  const drop = (key: string, entry: Entry<V>): void => {
    if (entries.get(key) === entry) entries.delete(key);
  };

  const begin = (load: () => Promise<V>): Entry<V> => ({
    value: load(),
    requestedAtMs: clock.elapsedMs(),
    weight: 0,
    isRefreshing: false,
  });

  const keep = (key: string, entry: Entry<V>, value: V): void => {
    const leftMs = entry.requestedAtMs + keptMs - clock.elapsedMs();
    if (leftMs <= 0) return drop(key, entry);
    entry.weight = Math.max(1, weightOf(value));
    clock.after(leftMs, () => drop(key, entry));
    dropHeavy();
  };

  const loaded = async (key: string, load: () => Promise<V>): Promise<V> => {
    const entry = begin(load);
    entries.delete(key);
    entries.set(key, entry);
    try {
      const value = await entry.value;
      keep(key, entry, value);
      return value;
    } catch (error) {
      drop(key, entry);
      throw error;
    }
  };

  /** Replaces a value once the next one is there; the first request after its time reports an error. */
  const refresh = async (key: string, before: Entry<V>, load: () => Promise<V>): Promise<void> => {
    before.isRefreshing = true;
    const entry = begin(load);
    try {
      const value = await entry.value;
      const current = entries.get(key);
      // A request after its time has begun to load a newer one.
      if (current !== undefined && current !== before) return;
      entries.delete(key);
      entries.set(key, entry);
      keep(key, entry, value);
    } catch {
      before.isRefreshing = false;
    }
  };

  return {
    get: (key, load) => {
      const entry = entries.get(key);
      if (entry === undefined) return loaded(key, load);
      if (entry.weight === 0) return entry.value;
      const ageMs = clock.elapsedMs() - entry.requestedAtMs;
      if (ageMs >= keptMs) return loaded(key, load);
      if (ageMs >= keptMs / 2 && !entry.isRefreshing) void refresh(key, entry, load);
      return entry.value;
    },
  };
}
