/** Where a page is in a list that is paged by number (docs/http-api.md#numbered-pages). */
export interface NumberedPage {
  readonly start: number;
  readonly limit: number;
  readonly length: number;
  readonly total: number;
}

/** Returns the query of a page; `from` is the parameter of the address, a number of {@link nextPage}. */
export function pageQuery(
  from: string | undefined,
  perPage: number,
): Record<string, string | number> {
  const page = /^\d{1,6}$/.test(from ?? '') ? Number(from) : 0;
  return { page, per_page: perPage, include_totals: 'true' };
}

/** Returns the number of the next page; undefined on the last one, and where `itemsMax` ends the list. */
export function nextPage(
  { start, limit, length, total }: NumberedPage,
  itemsMax = Number.POSITIVE_INFINITY,
): string | undefined {
  const next = start + limit;
  return start + length < total && next < itemsMax ? String(Math.floor(next / limit)) : undefined;
}
