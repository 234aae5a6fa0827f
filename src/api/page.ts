import { formatCursor, parseCursor } from '../core/page.ts';
import { badQuery, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

/** The page that a query asks for, as the store speaks of it. */
export interface AskedPage {
  readonly after: string | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

/**
 * Reads `take`, which is `pageItems` unless sent, and `from`. `isKey` tells a key of this list from one of another: a cursor that no
 * page of this list ever had is 400.
 */
export function pageOf(
  query: { readonly take?: number | undefined; readonly from?: string | undefined },
  { pageItems, pageBytesMax: bytesMax }: Pick<ApiSettings['limits'], 'pageItems' | 'pageBytesMax'>,
  isKey: (key: string) => boolean,
): AskedPage {
  const { take = pageItems, from } = query;
  if (from === undefined) return { after: undefined, take, bytesMax };
  const after = parseCursor(from);
  if (after !== undefined && isKey(after)) return { after, take, bytesMax };
  const reason = `Object didn't pass validation for format cursor: ${quoted(from)}`;
  throw badQuery(reason, 'from', 'The next of the page before');
}

/** The member `next` of an answer: absent on the last page. */
export function nextOf(key: string | undefined): { next?: string } {
  return key === undefined ? {} : { next: formatCursor(key) };
}
