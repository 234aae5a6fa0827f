import type { Store } from '../store/port/store.ts';
import type { ChangesSettings } from './settings.ts';
import type { Topic } from './topic.ts';

export interface ExchangeDeps {
  readonly store: Pick<Store, 'share'>;
  /** Unique name of this process. */
  readonly node: string;
  readonly settings: ChangesSettings;
}

type Topics = ReadonlyMap<number, Topic>;

/**
 * Tells the other nodes which tenants are watched here, and what this node did for tenants that are
 * watched elsewhere: while nobody watches, nothing is sent. Where notifications do not arrive, as behind a
 * pooler, it reports from time to time that anything may have changed.
 */
export class Exchange {
  readonly #deps: ExchangeDeps;
  /** The tenant to begin with, so that none waits for ever. */
  #next = 0;
  /** When notifications last arrived. */
  #receivedAtMs = -Infinity;
  /** When everything was last reported because none arrive. */
  #reportedAllAtMs = -Infinity;

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
  }

  /** Expects the first notification soon. */
  open(nowMs: number): void {
    const { watchedMs, unheardMs } = this.#deps.settings;
    this.#receivedAtMs = Math.max(this.#receivedAtMs, nowMs - watchedMs + unheardMs);
  }

  /** Handles that a notification of this node has come back to it. */
  received(nowMs: number): void {
    this.#receivedAtMs = nowMs;
  }

  onTick(topics: Topics, nowMs: number): void {
    this.#announce(topics, nowMs);
    this.#next = this.#shareChanges(topics);
    const { watchedMs, unheardMs } = this.#deps.settings;
    if (nowMs - this.#receivedAtMs < watchedMs || nowMs - this.#reportedAllAtMs < unheardMs) return;
    this.#reportedAllAtMs = nowMs;
    for (const topic of topics.values()) topic.changedAll();
  }

  #announce(topics: Topics, nowMs: number): void {
    const { store, node: by, settings } = this.#deps;
    const due = [...topics].filter(
      ([, topic]) => topic.limit.taken > 0 && nowMs >= topic.announceAtMs,
    );
    // Those that have waited longest first, so that none waits for ever.
    const sorted = due.toSorted(([, one], [, other]) => one.announceAtMs - other.announceAtMs);
    for (const [tenant, topic] of sorted.slice(0, settings.sharedMax)) {
      topic.announceAtMs = nowMs + settings.announceMs;
      store.share({ kind: 'watched', tenant, by });
    }
  }

  /** Returns the tenant to begin with next. */
  #shareChanges(topics: Topics): number {
    const { store, settings } = this.#deps;
    let streamsLeft = settings.sharedStreamsMax;
    let left = settings.sharedMax;
    for (const [tenant, topic] of inTurn(topics, this.#next)) {
      const streams = topic.takeUnshared(streamsLeft);
      if (streams === undefined) continue;
      store.share({ kind: 'changed', tenant, streams });
      if (streams !== 'all') streamsLeft -= streams.length;
      left -= 1;
      if (left === 0) return tenant + 1;
    }
    return 0;
  }
}

/** Begins with the tenant `first`, or the next one there is. */
function inTurn(topics: Topics, first: number): [number, Topic][] {
  const sorted = [...topics].toSorted(([one], [other]) => one - other);
  return [...sorted.filter(([id]) => id >= first), ...sorted.filter(([id]) => id < first)];
}
