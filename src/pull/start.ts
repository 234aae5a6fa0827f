import type { Millis } from '../core/clock.ts';
import type { Offset } from '../core/types.ts';
import type { LogStore } from '../store/port.ts';

/** Where a client wants to begin: after an offset, at an instant, or with what comes from now on. */
export type AskedStart = { readonly after: Offset } | { readonly since: Millis } | 'now';

/** The position before the first event that the client gets, or why there is none. */
export type Start =
  | { readonly position: Offset }
  /** An event after the offset has passed its retention, or is gone: the client would miss it. */
  | { readonly refused: 'expired' }
  /** No event has this offset yet: it is not of this log. */
  | { readonly refused: 'beyond' };

/**
 * Finds where a pull begins. An offset is judged by the age of what follows it and not by what
 * happens to be left, so that the answer does not hang on when the log was pruned last. Nothing
 * older than the retention is given to a client that asks by time.
 */
export async function startOf(
  log: Pick<LogStore, 'head' | 'firstSince'>,
  tenant: number,
  asked: AskedStart,
  times: { readonly now: Millis; readonly retentionMs: number },
): Promise<Start> {
  if (asked === 'now') return { position: await log.head(tenant) };
  const retainedSince = times.now - times.retentionMs;
  if ('since' in asked) {
    const first = await log.firstSince(tenant, Math.max(asked.since, retainedSince));
    return { position: first - 1 };
  }
  const [head, first] = [await log.head(tenant), await log.firstSince(tenant, retainedSince)];
  if (asked.after > head) return { refused: 'beyond' };
  return asked.after + 1 < first ? { refused: 'expired' } : { position: asked.after };
}
