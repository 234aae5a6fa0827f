/**
 * What changed in a tenant, for pages that show it: merges until it is sent. Bounded: beyond
 * {@link streamsMax} streams it says that any of them may have changed.
 */
export class Changes {
  readonly #streams = new Set<string>();
  #isAll = false;
  #isEmpty = true;

  /** Whether nothing changed. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** The streams that changed; `all` when there are too many to name, or they are not known. */
  get streams(): readonly string[] | 'all' {
    return this.#isAll ? 'all' : [...this.#streams];
  }

  /** Adds a change of one stream. */
  addStream(stream: string): void {
    this.#isEmpty = false;
    if (this.#isAll) return;
    this.#streams.add(stream);
    if (this.#streams.size > streamsMax) this.addAll();
  }

  /** Adds a change of the tenant that is none of its streams: an event was published. */
  addOverview(): void {
    this.#isEmpty = false;
  }

  /** Adds that anything may have changed. */
  addAll(): void {
    this.#isEmpty = false;
    this.#isAll = true;
    this.#streams.clear();
  }

  /** Forgets everything. */
  clear(): void {
    this.#isEmpty = true;
    this.#isAll = false;
    this.#streams.clear();
  }

  /** Adds the changes of another one. */
  merge({ isEmpty, streams }: Pick<Changes, 'isEmpty' | 'streams'>): void {
    if (isEmpty) return;
    this.addOverview();
    if (streams === 'all') this.addAll();
    else for (const stream of streams) this.addStream(stream);
  }
}

/** Streams that one message names at most. */
export const streamsMax = 100;

/** Returns the frame of server-sent events (docs/http-api.md#changes). The overview shows every change. */
export function changedFrame({ streams }: Pick<Changes, 'streams'>): string {
  const isAll = streams === 'all';
  const data = { streams: isAll ? [] : streams, ...(isAll && { all: true }), overview: true };
  return `event: changed\ndata: ${JSON.stringify(data)}\n\n`;
}
