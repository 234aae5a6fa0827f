import type { LogEvent, Offset } from '../../core/types.ts';

/**
 * What `watch` of the store port emits: a best-effort notification, which may be lost or repeated.
 */
export type Hint =
  /** This process appended events to a log; in offset order and without gaps. */
  | { readonly kind: 'appended'; readonly tenant: number; readonly events: readonly LogEvent[] }
  /** Another process appended events to a log, which now reaches this offset. */
  | { readonly kind: 'head'; readonly tenant: number; readonly head: Offset }
  /** A stream was created, changed, deleted, or got rows that are due now. */
  | { readonly kind: 'stream'; readonly tenant: number; readonly stream: string }
  /** A client was created, changed or deleted; cached decisions about it are invalid. */
  | { readonly kind: 'client'; readonly tenant: number; readonly client: string }
  /** Signing keys were added or removed. */
  | { readonly kind: 'keys'; readonly tenant: number }
  /** A tenant was created, renamed, or its removal began. */
  | { readonly kind: 'tenants' }
  /** Another process released streams. */
  | { readonly kind: 'free' }
  /** Hints of other processes may have been lost: any of the above may have happened. */
  | { readonly kind: 'missed' }
  /**
   * The store is another one than this process joined: everything cached from it is invalid,
   * including offsets. Emitted once per replacement, when the first command fails with
   * `StoreReplaced`.
   */
  | { readonly kind: 'replaced' };
