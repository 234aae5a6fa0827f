import { backoffMs } from '../core/backoff.ts';
import type { Clock, Timer } from '../core/clock.ts';
import { streamKeyOf } from '../core/stream-key.ts';
import type { CursorRaise } from '../store/port/ownership.ts';

const waits = { firstMs: 1000, maxMs: 60_000 };

/** A stream that was not abandoned again for this long begins with the shortest wait. */
const rememberedMs = 5 * waits.maxMs;

interface Abandoned {
  readonly cursor: CursorRaise;
  readonly atMs: number;
  /** In a row. */
  readonly times: number;
  /** Absent once it was taken up. */
  wait: Timer | undefined;
}

/**
 * Streams of which the store refuses results or other changes. The node sends nothing of them, and still
 * owns them in the store, so that no other node meets the same refusal at once. After a wait, which grows to
 * a minute, they are taken up again.
 */
export class AbandonedStreams {
  readonly #clock: Pick<Clock, 'elapsedMs' | 'after'>;
  readonly #takeUp: (cursor: CursorRaise) => void;
  readonly #streams = new Map<string, Abandoned>();
  #isClosed = false;

  /** `takeUp` releases the stream, and lets it be claimed. */
  constructor(clock: Pick<Clock, 'elapsedMs' | 'after'>, takeUp: (cursor: CursorRaise) => void) {
    this.#clock = clock;
    this.#takeUp = takeUp;
  }

  /** Abandons a stream; its cursor is that of the store. */
  add(cursor: CursorRaise): void {
    if (this.#isClosed) return;
    const key = streamKeyOf(cursor);
    const atMs = this.#clock.elapsedMs();
    for (const [each, { wait, atMs: then }] of this.#streams)
      if (wait === undefined && atMs - then > rememberedMs) this.#streams.delete(each);
    const times = (this.#streams.get(key)?.times ?? 0) + 1;
    const wait = this.#clock.after(backoffMs(times, waits), () => this.takeUp(key));
    this.#streams.set(key, { cursor, atMs, times, wait });
  }

  /** Takes up a stream now if it waits: it was changed, so its results may be other ones. */
  takeUp(key: string): void {
    const abandoned = this.#streams.get(key);
    if (abandoned?.wait === undefined) return;
    abandoned.wait.cancel();
    abandoned.wait = undefined;
    this.#takeUp(abandoned.cursor);
  }

  close(): void {
    this.#isClosed = true;
    for (const { wait } of this.#streams.values()) wait?.cancel();
  }
}
