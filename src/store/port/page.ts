/**
 * A page ordered by an opaque key. `next` is absent on the last page. A page with `bytesMax` ends
 * before the item that would make it larger, and has at least one.
 */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

/** A page by number, as the lists of docs/http-api.md#numbered-pages use it. */
export interface NumberedPage<T> {
  readonly items: readonly T[];
  readonly total: number;
}

export interface PageByNumber {
  readonly page: number;
  readonly perPage: number;
}

/** The result of reading a page by number that has a bound on bytes: such a page is never cut. */
export type BoundedPage<T> = NumberedPage<T> | { refused: 'too_large' };

/** Bytes that a page may have; without a bound when absent. */
export interface BytesMax {
  readonly bytesMax?: number | undefined;
}
