import { formatCursor, parseCursor } from '../core/page.ts';
import { formatViolation } from './http/violation.ts';
import { badQuery, Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import type { NumberedPage, PageByNumber } from '../store/port/page.ts';

/** The page of a query, for the store. */
export interface PageRequest {
  readonly after: string | undefined;
  readonly take: number;
  readonly bytesMax: number;
}

/** The parameters of a cursor page, without defaults. */
interface CursorQuery {
  readonly take?: number | undefined;
  readonly from?: string | undefined;
}

/**
 * Returns the page of a query; `take` defaults to `pageItems`. Throws 400 for a cursor whose key fails
 * `isKey`, because it is from another list.
 */
export function pageOf(
  query: CursorQuery,
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

/** The paging parameters of a query, without defaults. */
export interface NumberedQuery {
  readonly page?: number | undefined;
  readonly per_page?: number | undefined;
  readonly include_totals?: boolean | undefined;
}

/**
 * Returns whether a query of a list with both kinds of pages asks for a cursor page. `take` and `from`
 * win, because clients send `include_totals` along with them.
 */
export function isCursorPage({ take, from }: CursorQuery): boolean {
  return take !== undefined || from !== undefined;
}

/** Returns whether such a query asks for a numbered page, where neither is the default. */
export function isNumbered(query: NumberedQuery & CursorQuery): boolean {
  const { page, per_page: perPage, include_totals: includeTotals } = query;
  if (isCursorPage(query)) return false;
  return page !== undefined || perPage !== undefined || includeTotals !== undefined;
}

/** Returns the page of a query for the store. */
export function numberedPageOf({ page = 0, per_page: perPage = 50 }: NumberedQuery): PageByNumber {
  return { page, perPage };
}

/** Items that page numbers can reach where the cost of a page grows with the number of skipped ones. */
export const numberedItemsMax = 1000;

/** Throws 400 for a page beyond the first {@link numberedItemsMax} items. */
export function refuseFarPage({ page, perPage }: PageByNumber): void {
  if (page * perPage < numberedItemsMax) return;
  const message = `You can only page through the first ${numberedItemsMax} records.`;
  throw new Problem(400, message, 'invalid_paging');
}

/** A page of a list that has no items. */
export const noItems: NumberedPage<never> = { items: [], total: 0 };

/** Returns the bare items, or with `include_totals` an object (docs/http-api.md#numbered-pages). */
export function numberedResponse(
  name: string,
  { items, total }: NumberedPage<unknown>,
  query: NumberedQuery,
): object {
  if (query.include_totals !== true) return items;
  const { page, perPage } = numberedPageOf(query);
  const totals = { start: page * perPage, limit: perPage, total, length: items.length };
  return { ...totals, [name]: items };
}

/** Returns the 400 for a page of more than 8 MiB; `parameters` of the query make it smaller. */
export function pageTooLarge(parameters: string): Problem {
  const message = `The page would be larger than 8 MiB. Use a smaller ${parameters}.`;
  return new Problem(400, message, 'invalid_paging');
}
