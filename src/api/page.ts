import { formatCursor, parseCursor } from '../core/page.ts';
import { formatViolation } from './formats.ts';
import { badQuery } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

/** The page of a query, for the store. */
export interface PageRequest {
  readonly after: string | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

/**
 * Returns the page of a query; `take` defaults to `pageItems`. Throws 400 for a cursor whose key fails
 * `isKey`, because it is from another list.
 */
export function pageOf(
  query: { readonly take?: number | undefined; readonly from?: string | undefined },
  { pageItems, pageBytesMax: bytesMax }: Pick<ApiSettings['limits'], 'pageItems' | 'pageBytesMax'>,
  isKey: (key: string) => boolean,
): PageRequest {
  const { take = pageItems, from } = query;
  if (from === undefined) return { after: undefined, take, bytesMax };
  const after = parseCursor(from);
  if (after !== undefined && isKey(after)) return { after, take, bytesMax };
  throw badQuery(formatViolation('cursor', from), 'from', 'The next of the page before');
}

/** Returns the field `next` of a response: absent on the last page. */
export function nextOf(key: string | undefined): { next?: string } {
  return key === undefined ? {} : { next: formatCursor(key) };
}
