import type { Millis } from '../../core/clock.ts';
import type { Stream, Offset, Health } from '../../core/types.ts';
import type { Page } from './page.ts';

export interface StreamStore {
  /**
   * Creates the stream with its cursor at the head of the log, or before it at `cursor`: it is sent
   * the retained events after that. Durable when it answers.
   */
  create(
    stream: Omit<Stream, 'subscriptions' | 'version'> & {
      readonly types: readonly string[];
      readonly cursor?: Offset | undefined;
    },
    rules: { readonly streamsMax: number },
  ): Promise<{ created: Stream } | { refused: 'name_taken' | 'too_many' }>;
  get(tenant: number, id: string): Promise<Stream | undefined>;
  /** Oldest first, after the stream with the id `after`. */
  list(
    tenant: number,
    page: { after: string | undefined; take: number; bytesMax?: number | undefined },
  ): Promise<Page<Stream>>;
  health(tenant: number, id: string): Promise<Health | undefined>;
  /**
   * Applies a change. `decide` sees the stream, its health and the head of the log. Disabling by
   * hand turns waiting retries and untried tests into failures as `DeliveryStore.settle`
   * does at a threshold. Enabling sets consecutive to 0, raises `run`, and with `latest` moves the
   * cursor to the head. Answers `skipped`, the retained matching events that enabling passed over.
   */
  update(
    tenant: number,
    id: string,
    decide: (before: Stream, state: { health: Health; head: Offset }) => StreamDecision,
  ): Promise<
    | { updated: Stream; skipped: number; held: 'complete' | 'pruned' | undefined }
    | { refused: 'unknown' | 'name_taken' | 'too_many_failures'; health?: Health }
  >;
  /** Removes the stream with everything that belongs to it. False when there was none. */
  delete(tenant: number, id: string): Promise<boolean>;
  /** Hours of `[from, to)` that have counts, oldest first; `hour` is its start. */
  stats(
    tenant: number,
    id: string,
    window: { from: Millis; to: Millis },
  ): Promise<{ hour: Millis; delivered: number; failed: number }[]>;
}

/** What a PATCH or a rotation of the secret comes to. */
export type StreamDecision =
  | {
      /**
       * The stream as it shall be; the store sets `version` and trims passed subscriptions. The
       * very same object as `before` means that nothing changes.
       */
      readonly after: Stream;
      /** Where to go on when this change enables the stream; `latest` unless said. */
      readonly resume?: 'latest' | 'held' | undefined;
    }
  | { readonly refused: 'too_many_failures' };
