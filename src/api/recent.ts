import type { Clock, Millis, Timer } from '../core/clock.ts';
import type { ApiSettings } from './settings.ts';

/** Returns a value; it is told whether it runs ahead of requests. */
export type Load<V> = (isAhead: boolean) => Promise<V>;

export interface RecentDeps<V> {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Once aborted, no value is kept, and none is loaded without a request. */
  readonly closing: AbortSignal;
  /** A value is not returned when it was requested longer ago. */
  readonly keptMs: number;
  /** For so long after its last request the value of a key is loaded again before its time is over. */
  readonly watchedMs: number;
  /** Keys for which that is done: those of the last requests. */
  readonly watchedMax: number;
  /** The oldest values are dropped beyond this weight in total. */
  readonly weightMax: number;
  readonly weightOf: (value: V) => number;
}

interface Entry<V> {
  readonly load: Load<V>;
  readonly value: Promise<V>;
  readonly requestedAtMs: number;
  /** Of the data before its load; that may have read a later state. */
  readonly mark: string | undefined;
  /** 0 while it is being loaded. */
  weight: number;
  /** Loads the next one, and then ends it after its time. */
  timer?: Timer;
  /** The next one while it is being loaded. */
  next?: Entry<V> | undefined;
}

/** The share of its time after which a value that is watched is loaded again. */
const renewedAt = 0.8;

interface PageDeps extends Pick<RecentDeps<unknown>, 'clock' | 'closing'> {
  readonly settings: {
    readonly limits: Pick<
      ApiSettings['limits'],
      'pagesMs' | 'pagesMax' | 'watchedMs' | 'watchedPagesMax'
    >;
  };
}

/** Creates one of pages: the last ones stay. */
export function createPages<V>({ clock, closing, settings: { limits } }: PageDeps): Recent<V> {
  const { pagesMs: keptMs, pagesMax: weightMax, watchedMs, watchedPagesMax: watchedMax } = limits;
  const weightOf = (): number => 1;
  return new Recent({ clock, closing, keptMs, watchedMs, watchedMax, weightMax, weightOf });
}

/** Values that are computed at request, kept for a short time and shared by requests. */
export class Recent<V> {
  readonly #deps: RecentDeps<V>;
  readonly #entries = new Map<string, Entry<V>>();
  /** When the keys of the last requests are watched no more, the earliest request first. */
  readonly #watched = new Map<string, Millis>();

  constructor(deps: RecentDeps<V>) {
    this.#deps = deps;
    deps.closing.addEventListener('abort', () => {
      for (const [key, entry] of this.#entries) this.#drop(key, entry);
    });
  }

  /**
   * Returns the value of a key. Requests that need it at the same time share one `load`; what that throws
   * is not kept. A request for a value of more than half of its age also loads the next one, so that
   * regular requests do not wait; one after its time waits for that load. For some time after the last
   * request for one of the last keys, its next values are loaded without one.
   *
   * @param isAhead whether a load that is ahead of requests needs the value: that is not a request
   * @param mark a version of the data at the time of the request: a value with another mark is not returned
   */
  get(key: string, load: Load<V>, isAhead = false, mark?: string): Promise<V> {
    const { clock, keptMs } = this.#deps;
    if (!isAhead) this.#watch(key);
    const entry = this.#entries.get(key);
    const begin = (): Entry<V> => this.#begin(load, isAhead, mark ?? entry?.mark);
    const isOther = mark !== undefined && entry?.mark !== mark;
    if (entry === undefined || isOther) return this.#loaded(key, begin());
    if (entry.weight === 0) return entry.value;
    const ageMs = clock.elapsedMs() - entry.requestedAtMs;
    if (ageMs >= keptMs) return entry.next?.value ?? this.#loaded(key, begin());
    if (ageMs >= keptMs / 2 && entry.next === undefined) void this.#loadNext(key, entry, begin());
    return entry.value;
  }

  async #loaded(key: string, entry: Entry<V>): Promise<V> {
    this.#put(key, entry);
    try {
      const value = await entry.value;
      this.#keep(key, entry, value);
      return value;
    } catch (error) {
      this.#drop(key, entry);
      throw error;
    }
  }

  /** Replaces a value once the next one is there. An error reaches those that wait for it. */
  async #loadNext(key: string, before: Entry<V>, entry: Entry<V>): Promise<void> {
    before.next = entry;
    try {
      const value = await entry.value;
      const present = this.#entries.get(key) ?? before;
      // A request with another mark was faster.
      if (present !== before && present !== entry) return;
      this.#put(key, entry);
      this.#keep(key, entry, value);
    } catch {
      before.next = undefined;
      this.#drop(key, entry);
    }
  }

  #begin(load: Load<V>, isAhead: boolean, mark: string | undefined): Entry<V> {
    // Before the load, which may hold the event loop.
    const requestedAtMs = this.#deps.clock.elapsedMs();
    return { load, value: load(isAhead), requestedAtMs, mark, weight: 0 };
  }

  #watch(key: string): void {
    const { clock, watchedMs, watchedMax } = this.#deps;
    this.#watched.delete(key);
    this.#watched.set(key, clock.elapsedMs() + watchedMs);
    for (const [earliest, untilMs] of this.#watched) {
      if (untilMs > clock.elapsedMs() && this.#watched.size <= watchedMax) return;
      this.#watched.delete(earliest);
    }
  }

  #isWatched(key: string): boolean {
    return (this.#watched.get(key) ?? 0) > this.#deps.clock.elapsedMs();
  }

  #put(key: string, entry: Entry<V>): void {
    this.#entries.get(key)?.timer?.cancel();
    // The last one in the order in which they are dropped.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
  }

  /** Its timer would keep it in memory. */
  #drop(key: string, entry: Entry<V>): void {
    entry.timer?.cancel();
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
  }

  #keep(key: string, entry: Entry<V>, value: V): void {
    const { clock, closing, keptMs, weightOf } = this.#deps;
    const leftMs = entry.requestedAtMs + keptMs - clock.elapsedMs();
    if (leftMs <= 0 || closing.aborted) return this.#drop(key, entry);
    if (this.#entries.get(key) !== entry) return;
    entry.weight = Math.max(1, weightOf(value));
    const endMs = Math.min(leftMs, keptMs * (1 - renewedAt));
    entry.timer = clock.after(leftMs - endMs, () => {
      if (this.#isWatched(key) && entry.next === undefined)
        void this.#loadNext(key, entry, this.#begin(entry.load, true, entry.mark));
      entry.timer = clock.after(endMs, () => this.#end(key, entry));
    });
    this.#dropHeavy();
  }

  /** Requests after the end of a value wait for the next one, if it is being loaded. */
  #end(key: string, entry: Entry<V>): void {
    if (entry.next === undefined) this.#drop(key, entry);
    else this.#put(key, entry.next);
  }

  #dropHeavy(): void {
    let weight = this.#entries.values().reduce((sum, entry) => sum + entry.weight, 0);
    for (const [key, entry] of this.#entries) {
      if (weight <= this.#deps.weightMax) return;
      if (entry.weight === 0) continue;
      this.#end(key, entry);
      weight -= entry.weight;
    }
  }
}
