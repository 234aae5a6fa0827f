import { parseOffset } from '../core/offset.ts';
import type { ApiClient } from './http/api-client.ts';

/** What a tail shows, and between which events. */
export interface TailRange {
  readonly type?: readonly string[] | undefined;
  /** Offset that it begins after. */
  readonly from: string | undefined;
  /** Time of acceptance that it begins at. */
  readonly since: string | undefined;
  /** Time of acceptance that it ends before. */
  readonly until?: string | undefined;
}

/**
 * Returns the position of the last event in a range, by the log as it is now; `undefined` when there is
 * no event in it. Reads the newest events first, and none before the beginning of the range.
 */
export async function lastPosition(
  api: ApiClient,
  { type, from, since, until }: TailRange,
): Promise<number | undefined> {
  const start = from === undefined ? -1 : positionOf(from);
  const query = {
    event_types: type?.join(','),
    date_from: since,
    date_to: until,
    take: 1,
  };
  for (let next: string | undefined; ;) {
    const { body } = await api.send({
      method: 'GET',
      path: '/event-log',
      query: { ...query, from: next },
    });
    const page = Object(body) as LogPage;
    const [newest] = page.events ?? [];
    if (newest !== undefined) {
      const position = positionOf(newest.offset);
      return position > start ? position : undefined;
    }
    // A search by type reads a part of the log at a time.
    const isOver = page.scanned_to !== undefined && positionOf(page.scanned_to) <= start;
    if (page.next === undefined || page.next === next || isOver) return undefined;
    next = page.next;
  }
}

/** The fields of a page of the log that are read (docs/http-api.md#list-events). */
interface LogPage {
  readonly events?: readonly { readonly offset: string }[];
  readonly scanned_to?: string;
  readonly next?: string;
}

/** Returns the position of an offset; a text that is none is the beginning of the log. */
export function positionOf(offset: string): number {
  return parseOffset(offset)?.offset ?? -1;
}
