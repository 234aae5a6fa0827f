import type { Clock, Timer } from '../core/clock.ts';

/** Values that are computed at request, kept for a short time and shared by requests. */
export interface Recent<V> {
  /**
   * Returns the value of a key. Requests that need it at the same time share one `load`; what that throws
   * is not kept. A request for a value of more than half of its age also loads the next one, so that
   * regular requests do not wait; one after its time waits for that load.
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
  /** Ends it after its time. */
  timer?: Timer;
  /** The next one while it is being loaded. */
  next?: Entry<V> | undefined;
}

/** Creates a {@link Recent} without values. */
export function createRecent<V>({ clock, keptMs, weightMax, weightOf }: RecentDeps<V>): Recent<V> {
  const entries = new Map<string, Entry<V>>();

  const put = (key: string, entry: Entry<V>): void => {
    entries.get(key)?.timer?.cancel();
    // The last one in the order in which they are dropped.
    entries.delete(key);
    entries.set(key, entry);
  };

  /** Its timer would keep it in memory. */
  const drop = (key: string, entry: Entry<V>): void => {
    entry.timer?.cancel();
    if (entries.get(key) === entry) entries.delete(key);
  };

  const dropHeavy = (): void => {
    let weight = entries.values().reduce((sum, entry) => sum + entry.weight, 0);
    for (const [key, entry] of entries) {
      if (weight <= weightMax) return;
      if (entry.weight === 0) continue;
      drop(key, entry);
      weight -= entry.weight;
    }
  };

  const keep = (key: string, entry: Entry<V>, value: V): void => {
    const leftMs = entry.requestedAtMs + keptMs - clock.elapsedMs();
    if (leftMs <= 0) return drop(key, entry);
    entry.weight = Math.max(1, weightOf(value));
    // Requests after its time wait for the next one.
    entry.timer = clock.after(leftMs, () =>
      entry.next === undefined ? drop(key, entry) : put(key, entry.next),
    );
    dropHeavy();
  };

  const loaded = async (key: string, load: () => Promise<V>): Promise<V> => {
    const entry = begin(load, clock.elapsedMs());
    put(key, entry);
    try {
      const value = await entry.value;
      keep(key, entry, value);
      return value;
    } catch (error) {
      drop(key, entry);
      throw error;
    }
  };

  /** Replaces a value once the next one is there. An error reaches those that wait for it. */
  const refresh = async (key: string, before: Entry<V>, load: () => Promise<V>): Promise<void> => {
    const entry = begin(load, clock.elapsedMs());
    before.next = entry;
    try {
      const value = await entry.value;
      // Dropped for its weight, the value before may have a successor already.
      const current = entries.get(key) ?? before;
      if (current !== before && current !== entry) return;
      put(key, entry);
      keep(key, entry, value);
    } catch {
      before.next = undefined;
      drop(key, entry);
    }
  };

  return {
    get: (key, load) => {
      const entry = entries.get(key);
      if (entry === undefined) return loaded(key, load);
      if (entry.weight === 0) return entry.value;
      const ageMs = clock.elapsedMs() - entry.requestedAtMs;
      if (ageMs >= keptMs) return entry.next?.value ?? loaded(key, load);
      if (ageMs >= keptMs / 2 && entry.next === undefined) void refresh(key, entry, load);
      return entry.value;
    },
  };
}

function begin<V>(load: () => Promise<V>, requestedAtMs: number): Entry<V> {
  return { value: load(), requestedAtMs, weight: 0 };
}
