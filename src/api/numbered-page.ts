import { Problem } from './http/problem.ts';
import type { NumberedPage, PageByNumber } from '../store/port/page.ts';

/** What a query says of its page, defaults left out. */
export interface NumberedQuery {
  readonly page?: number | undefined;
  readonly per_page?: number | undefined;
  readonly include_totals?: boolean | undefined;
}

/** The page that a query asks for, as the store speaks of it. */
export function numberedPageOf({ page = 0, per_page: perPage = 50 }: NumberedQuery): PageByNumber {
  return { page, perPage };
}

/** The answer of docs/http-api.md#numbered-pages: the bare items, or with totals under their name. */
export function numberedResponse(
  name: string,
  { items, total }: NumberedPage<unknown>,
  query: NumberedQuery,
): object {
  if (query.include_totals !== true) return items;
  return { ...totalsOf(query, total), [name]: items };
}

/** 400 for a page of more than 8 MiB; `members` of the query make it smaller. */
export function pageTooLarge(members: string): Problem {
  const message = `The page would be larger than 8 MiB. Use a smaller ${members}.`;
  return new Problem(400, message, 'invalid_paging');
}

/** Where the page stands in its list. */
export function totalsOf(
  query: NumberedQuery,
  total: number,
): { start: number; limit: number; total: number } {
  const { page, perPage } = numberedPageOf(query);
  return { start: page * perPage, limit: perPage, total };
}
