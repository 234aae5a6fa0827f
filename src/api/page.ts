import { formatCursor, parseCursor } from '../core/page.ts';
import { badQuery, quoted } from './problem.ts';

/** The page that a query asks for, as the store speaks of it. */
export interface AskedPage {
  readonly after: string | undefined;
  readonly take: number;
}

/**
 * Reads `take` and `from`. `isKey` tells a key of this list from one of another: a cursor that no
 * page of this list ever had is 400.
 */
export function pageOf(
  query: { readonly take?: number | undefined; readonly from?: string | undefined },
  takeDefault: number,
  isKey: (key: string) => boolean,
): AskedPage {
  const { take = takeDefault, from } = query;
  if (from === undefined) return { after: undefined, take };
  const after = parseCursor(from);
  if (after !== undefined && isKey(after)) return { after, take };
  const reason = `Object didn't pass validation for format cursor: ${quoted(from)}`;
  throw badQuery(reason, 'from', 'The next of the page before');
}

/** The member `next` of an answer: absent on the last page. */
export function nextOf(key: string | undefined): { next?: string } {
  return key === undefined ? {} : { next: formatCursor(key) };
}
