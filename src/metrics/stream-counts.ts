import { errorCodeOf } from '../core/attempt-error.ts';
import { minuteMs } from '../core/units.ts';
import type { AttemptReport } from '../delivery/report.ts';

/** Numbers of attempts by {@link keyOf} outcome and code. */
export type Counts = ReadonlyMap<string, number>;

/** A stream with series of its own. */
export interface ShownStream {
  readonly tenant: number;
  readonly stream: string;
  readonly counts: Counts;
}

/**
 * Counts the attempts of single streams, for a bounded number of them: they have series of their own,
 * and the attempts of all others are summed up.
 *
 * An attempt counts once, where its stream is at that time: in the series of the stream, or in the sum.
 * Nothing is moved between the two, so neither ever falls, and rates over all of them are right. A stream
 * that gets its series back continues with its last number, or at 0 if that was dropped meanwhile.
 */
export class StreamCounts {
  readonly #streamsMax: number;
  readonly #elapsedMs: () => number;
  /** Shown streams, and others that failed recently or were shown before. */
  readonly #streams = new Map<string, Tracked>();
  readonly #others = new Map<string, number>();
  #shown = 0;
  #attempts = 0;

  constructor(streamsMax: number, elapsedMs: () => number) {
    this.#streamsMax = streamsMax;
    this.#elapsedMs = elapsedMs;
  }

  /** The attempts of streams while they had no series. */
  get others(): Counts {
    return this.#others;
  }

  /** Counts an attempt. Returns whether its stream has got its series by it. */
  count(attempt: AttemptReport): boolean {
    const key = keyOf(attempt);
    const hasFailed = attempt.result !== 'delivered';
    const isNew = this.#shown < this.#streamsMax;
    let stream = this.#streams.get(attempt.stream);
    if (stream === undefined && (isNew || hasFailed)) stream = this.#track(attempt);
    if (stream !== undefined && hasFailed) noteFailure(stream, this.#elapsedMs());
    if (stream === undefined || (!stream.isShown && !isNew)) {
      increase(this.#others, key);
      // Its series will exist from the start, as 0.
      if (hasFailed && stream !== undefined) increase(stream.counts, keyWithin(stream, key), 0);
      return false;
    }
    const isShownNow = !stream.isShown;
    if (isShownNow) this.#show(stream);
    stream.lastAttempt = ++this.#attempts;
    increase(stream.counts, keyWithin(stream, key));
    return isShownNow;
  }

  has(stream: string): boolean {
    return this.#streams.has(stream);
  }

  /** Records that this node does not send for a stream any more, or does again. */
  setOwned(stream: string, isOwned: boolean): void {
    const tracked = this.#streams.get(stream);
    if (tracked !== undefined) tracked.lostAtMs = isOwned ? undefined : this.#elapsedMs();
  }

  /** Removes a stream. */
  forget(stream: string): void {
    if (this.#streams.get(stream)?.isShown === true) this.#shown -= 1;
    this.#streams.delete(stream);
  }

  /**
   * Gives series to streams that fail: free ones, then those of streams without recent failures, the
   * quietest first, then those of streams that fail less than half as often. Others keep theirs.
   * Returns the streams that got some.
   */
  rebalance(): readonly string[] {
    const nowMs = this.#elapsedMs();
    for (const [id, { lostAtMs }] of this.#streams) {
      if (lostAtMs !== undefined && nowMs - lostAtMs > lostMs) this.forget(id);
    }
    const all = [...this.#streams.values()].map((stream) => ({
      stream,
      failures: recentFailures(stream, nowMs),
    }));
    const failing = all
      .filter(({ stream, failures }) => !stream.isShown && failures > 0)
      .toSorted((one, other) => other.failures - one.failures);
    const replaceable = all
      .filter(({ stream }) => stream.isShown)
      .toSorted(
        (one, other) =>
          one.failures - other.failures || one.stream.lastAttempt - other.stream.lastAttempt,
      );
    const given: string[] = [];
    for (const { stream, failures } of failing) {
      if (this.#shown >= this.#streamsMax) {
        const least = replaceable.shift();
        if (least === undefined || (least.failures > 0 && failures <= 2 * least.failures)) break;
        least.stream.isShown = false;
        this.#shown -= 1;
      }
      this.#show(stream);
      given.push(stream.stream);
    }
    return given;
  }

  *shown(): Iterable<ShownStream> {
    for (const stream of this.#streams.values()) if (stream.isShown) yield stream;
  }

  #show(stream: Tracked): void {
    stream.isShown = true;
    this.#shown += 1;
  }

  /** Returns `undefined` when there are too many. */
  #track({ tenant, stream }: AttemptReport): Tracked | undefined {
    if (this.#streams.size >= trackedPerShown * this.#streamsMax) this.#dropQuiet();
    if (this.#streams.size >= trackedPerShown * this.#streamsMax) return undefined;
    const tracked: Tracked = {
      tenant,
      stream,
      counts: new Map(),
      isShown: false,
      lastAttempt: 0,
      lostAtMs: undefined,
      window: 0,
      failures: 0,
      failuresBefore: 0,
    };
    this.#streams.set(stream, tracked);
    return tracked;
  }

  #droppedAtMs = -Infinity;

  /** Drops streams without series that did not fail recently; once in a while, as it reads all. */
  #dropQuiet(): void {
    const nowMs = this.#elapsedMs();
    if (nowMs - this.#droppedAtMs < minuteMs) return;
    this.#droppedAtMs = nowMs;
    for (const [id, stream] of this.#streams) {
      if (!stream.isShown && recentFailures(stream, nowMs) === 0) this.#streams.delete(id);
    }
  }
}

interface Tracked extends ShownStream {
  readonly counts: Map<string, number>;
  isShown: boolean;
  /** Number of its last attempt, among all attempts of shown streams. */
  lastAttempt: number;
  /** When this node ceased to send for it. */
  lostAtMs: number | undefined;
  /** Attempts that failed in a window of time, and in the one before. */
  window: number;
  failures: number;
  failuresBefore: number;
}

/** Streams in memory for each one that may have series. */
const trackedPerShown = 10;
/** Outcomes and codes of a stream that have a series; a receiver can respond with any status. */
const keysMax = 20;
/** Failures count as recent for one to two windows. */
const windowMs = 5 * minuteMs;
/** A stream that this node does not send for keeps its series for so long, unless it is deleted. */
const lostMs = 15 * minuteMs;

function noteFailure(stream: Tracked, nowMs: number): void {
  const window = Math.floor(nowMs / windowMs);
  if (window !== stream.window) {
    stream.failuresBefore = window === stream.window + 1 ? stream.failures : 0;
    stream.failures = 0;
    stream.window = window;
  }
  stream.failures += 1;
}

function recentFailures({ window, failures, failuresBefore }: Tracked, nowMs: number): number {
  const age = Math.floor(nowMs / windowMs) - window;
  if (age === 0) return failures + failuresBefore;
  return age === 1 ? failures : 0;
}

function increase(counts: Map<string, number>, key: string, by = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}

/** Returns the key under which a stream counts what has this one. A key that it has stays its own. */
function keyWithin({ counts }: Pick<Tracked, 'counts'>, key: string): string {
  if (counts.has(key) || counts.size < keysMax) return key;
  return `${key.slice(0, key.indexOf(' '))} other`;
}

/** Statuses with a code of their own; the others are counted by their class. */
const statuses = new Set([
  400, 401, 403, 404, 408, 409, 410, 413, 415, 422, 429, 500, 501, 502, 503, 504,
]);

/** Returns `<outcome> <code>`; there are few of them, whatever receivers respond. */
function keyOf({ result, status, error }: AttemptReport): string {
  if (status === undefined) return `${result} ${errorCodeOf({ status, error })}`;
  if (statuses.has(status)) return `${result} http_${status}`;
  return `${result} http_${Math.floor(status / 100)}xx`;
}
