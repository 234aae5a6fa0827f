import { yieldToEventLoop } from '../../core/slices.ts';

/** Bytes of a row in a response in addition to its long columns. */
export const rowBytes = 1024;

/** The first rows of a page. */
export interface BoundedRows<Row> {
  readonly rows: readonly Row[];
  /** Whether the bound on bytes left out rows within `take`. */
  readonly isCut: boolean;
  /** Whether there are rows after these, if the statement reads one more than `take`. */
  readonly hasMore: boolean;
}

/**
 * Reads rows until there are `take` of them or the next one would make them larger than `bytesMax`.
 * The first row is read whatever its size.
 *
 * @param rows are read one by one, and no further than needed
 * @param bytesOf counts the long columns of a row
 */
function readBounded<Row>(
  rows: Iterable<Row>,
  { take, bytesMax = Infinity }: { readonly take: number; readonly bytesMax?: number | undefined },
  bytesOf: (row: Row) => number,
): BoundedRows<Row> {
  const read: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    if (read.length === take) return { rows: read, isCut: false, hasMore: true };
    bytes += bytesOf(row) + rowBytes;
    if (bytes > bytesMax && read.length > 0) return { rows: read, isCut: true, hasMore: true };
    read.push(row);
  }
  return { rows: read, isCut: false, hasMore: false };
}

/** Bytes that a synchronous engine reads without yielding: about a millisecond. */
const pieceBytes = 512 * 1024;

/**
 * Does the same in pieces, and yields to the event loop between two of them. Rows that change in
 * the meantime may be missing or duplicated only where pages are read by number.
 *
 * @param readFrom reads rows one by one, at most `take`, after those that were read already
 */
export async function readPieces<Row>(
  readFrom: (read: readonly Row[], take: number) => Iterable<Row>,
  { take, bytesMax = Infinity }: { readonly take: number; readonly bytesMax?: number | undefined },
  bytesOf: (row: Row) => number,
): Promise<BoundedRows<Row>> {
  const read: Row[] = [];
  let leftBytes = bytesMax;
  for (;;) {
    const bounds = { take: take - read.length, bytesMax: Math.min(pieceBytes, leftBytes) };
    const piece = readBounded(readFrom(read, bounds.take + 1), bounds, bytesOf);
    const bytes = piece.rows.reduce((sum, row) => sum + bytesOf(row) + rowBytes, 0);
    if (bytes > leftBytes && read.length > 0) return { rows: read, isCut: true, hasMore: true };
    read.push(...piece.rows);
    leftBytes -= bytes;
    if (!piece.isCut) return { ...piece, rows: read };
    if (leftBytes <= 0) return { rows: read, isCut: true, hasMore: true };
    await yieldToEventLoop();
  }
}
