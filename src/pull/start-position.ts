import type { Millis } from '../core/clock.ts';
import { checkOf, type Position } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import type { LogStore } from '../store/port/log.ts';

/** Where a client wants to begin: after an offset, at an instant, or with what comes from now on. */
export type AskedStart = { readonly after: Position } | { readonly since: Millis } | 'now';

/** The position before the first event that the client gets, or why there is none. */
export type Start =
  | { readonly position: Position }
  /**
   * An event after the offset has passed its retention, or is gone, or the log does not have the event
   * of the offset: the client would miss something.
   */
  | { readonly refused: 'expired' };

/**
 * Finds where a pull begins. An offset is judged by the age of what follows it and not by what
 * happens to be left, so that the answer does not hang on when the log was pruned last. Nothing
 * older than the retention is given to a client that asks by time.
 *
 * An offset above the head, or whose event is another one, is of a log that was longer: before a
 * restore from a backup, or a fail-over to a replica that was behind. A position found here has the
 * check of its event, if the log still has that event.
 */
export async function startOf(
  log: Pick<LogStore, 'head' | 'firstSince' | 'page'>,
  tenant: number,
  asked: AskedStart,
  times: { readonly now: Millis; readonly retentionMs: number },
): Promise<Start> {
  if (asked === 'now') return { position: await positionAt(log, tenant, await log.head(tenant)) };
  const retainedSince = times.now - times.retentionMs;
  if ('since' in asked) {
    const first = await log.firstSince(tenant, Math.max(asked.since, retainedSince));
    return { position: await positionAt(log, tenant, first - 1) };
  }
  const { offset, check } = asked.after;
  const [head, first] = [await log.head(tenant), await log.firstSince(tenant, retainedSince)];
  if (offset > head || offset + 1 < first) return { refused: 'expired' };
  if (check === undefined || offset === 0) return { position: asked.after };
  const id = await idAt(log, tenant, offset);
  // One that has passed its retention may be gone, and nothing after it is.
  const isHere = id === undefined ? offset < first : checkOf(id) === check;
  return isHere ? { position: asked.after } : { refused: 'expired' };
}

/** Returns the position after the event at an offset, without a check where the log does not have it. */
export async function positionAt(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  offset: Offset,
): Promise<Position> {
  const id = offset === 0 ? undefined : await idAt(log, tenant, offset);
  return id === undefined ? { offset } : { offset, check: checkOf(id) };
}

/** The id of the event at an offset; `undefined` when the log does not have it any more. */
export async function idAt(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  offset: Offset,
): Promise<string | undefined> {
  const query = { after: offset - 1, upTo: offset, take: 1, bytesMax: 1 };
  const { events } = await log.page(tenant, query);
  return events[0]?.id;
}
