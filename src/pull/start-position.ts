import type { Millis } from '../core/clock.ts';
import { checkOf, type Position } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import type { LogStore } from '../store/port/log.ts';

/** Where a client asks to start: after an offset, at an instant, or at the end of the log. */
export type RequestedStart = { readonly after: Position } | { readonly since: Millis } | 'now';

/** The position before the first event that the client receives, or why there is none. */
export type Start =
  | { readonly position: Position }
  /**
   * An event after the offset is older than the retention, or was removed, or the log does not have
   * the event at the offset: the client would miss events.
   */
  | { readonly refused: 'expired' };

/**
 * Finds where a pull starts. An offset is accepted or rejected by the age of the events after it, not
 * by whether they still exist, so the result does not depend on when the log was pruned last. A start
 * by time never returns events older than the retention.
 *
 * An offset above the head, or whose event is another one, belongs to a longer log: before a restore
 * from a backup, or before a fail-over to a replica that was behind. The returned position has the
 * check of its event, if the log still has that event.
 */
export async function startOf(
  log: Pick<LogStore, 'head' | 'firstSince' | 'page'>,
  tenant: number,
  requested: RequestedStart,
  times: { readonly now: Millis; readonly retentionMs: number },
): Promise<Start> {
  if (requested === 'now')
    return { position: await positionAt(log, tenant, await log.head(tenant)) };
  const retainedSince = times.now - times.retentionMs;
  if ('since' in requested) {
    const first = await log.firstSince(tenant, Math.max(requested.since, retainedSince));
    return { position: await positionAt(log, tenant, first - 1) };
  }
  const { offset, check } = requested.after;
  const [head, first] = [await log.head(tenant), await log.firstSince(tenant, retainedSince)];
  if (offset > head || offset + 1 < first) return { refused: 'expired' };
  if (check === undefined || offset === 0) return { position: requested.after };
  const id = await idAt(log, tenant, offset);
  // An event older than the retention may have been removed; those after it are not.
  const isHere = id === undefined ? offset < first : checkOf(id) === check;
  return isHere ? { position: requested.after } : { refused: 'expired' };
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

/** Returns the id of the event at an offset; `undefined` when the log no longer has it. */
export async function idAt(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  offset: Offset,
): Promise<string | undefined> {
  const query = { after: offset - 1, upTo: offset, take: 1, bytesMax: 1 };
  const { events } = await log.page(tenant, query);
  return events[0]?.id;
}
