/** Days (UTC) to search for rows, both included. */
export interface Days {
  readonly first: number;
  readonly last: number;
}

/** The largest value of the column. */
export const everyDay: Days = { first: 0, last: 0x7fffffff };

/** Returns the days and one more, with those between. */
export function widened({ first, last }: Days, day: number): Days {
  return { first: Math.min(first, day), last: Math.max(last, day) };
}

/** Rows whose days are close together. */
export interface DayGroup<Row> {
  readonly days: Days;
  readonly rows: readonly Row[];
}

/** To open this many unneeded days costs less than another statement. */
const gapMax = 5;

/**
 * Groups rows whose days are close together. A statement for all of them would open every day from
 * the first to the last: a year, where a stream fails once a month. The rows of a group keep their order.
 */
export function groupByDays<Row>(
  rows: readonly Row[],
  daysOf: (row: Row) => Days,
): DayGroup<Row>[] {
  const groups: { days: Days; readonly rows: { readonly row: Row; readonly index: number }[] }[] =
    [];
  const ordered = rows
    .map((row, index) => ({ row, index, days: daysOf(row) }))
    .toSorted((one, other) => one.days.first - other.days.first);
  for (const { row, index, days } of ordered) {
    const group = groups.at(-1);
    if (group === undefined || days.first > group.days.last + gapMax) {
      groups.push({ days, rows: [{ row, index }] });
      continue;
    }
    group.rows.push({ row, index });
    group.days = { first: group.days.first, last: Math.max(group.days.last, days.last) };
  }
  return groups.map(({ days, rows: found }) => ({
    days,
    rows: found.toSorted((one, other) => one.index - other.index).map(({ row }) => row),
  }));
}

/** How the rows of some days are read. */
export interface DayReader<Row, Found> {
  readonly daysOf: (row: Row) => Days;
  /** Returns what it found for the first rows, one at least. */
  readonly read: (group: DayGroup<Row>) => Promise<ReadonlyMap<Row, Found>>;
  readonly bytesOf: (found: Found) => number;
  readonly bytesMax: number;
}

/**
 * Reads what is stored for the first rows, group by group: all of them, or as many as are not larger than
 * `bytesMax`, one at least. What was read of later rows is dropped at once: days that the first and the last
 * rows of a page share are read before those between.
 */
export async function readByDays<Row, Found>(
  rows: readonly Row[],
  { daysOf, read, bytesOf, bytesMax }: DayReader<Row, Found>,
): Promise<ReadonlyMap<Row, Found>> {
  const all = new Map<Row, Found>();
  let end = rows.length;
  let bytes = 0;
  const indexed = rows.map((row, index) => ({ row, index }));
  const groups = groupByDays(indexed, ({ row }) => daysOf(row)).toSorted(
    (one, other) => (one.rows[0]?.index ?? 0) - (other.rows[0]?.index ?? 0),
  );
  for (const { days, rows: ofDays } of groups) {
    const wanted = ofDays.filter(({ index }) => index < end);
    if (wanted.length === 0) break;
    const found = await read({ days, rows: wanted.map(({ row }) => row) });
    let foundEnd = end;
    for (const { row, index } of wanted) {
      const one = found.get(row);
      if (one === undefined) {
        foundEnd = index;
        break;
      }
      all.set(row, one);
      bytes += bytesOf(one);
    }
    while (end > foundEnd || (end > 1 && bytes > bytesMax)) {
      end -= 1;
      const row = rows[end];
      const dropped = row === undefined ? undefined : all.get(row);
      if (row === undefined || dropped === undefined) continue;
      bytes -= bytesOf(dropped);
      all.delete(row);
    }
  }
  return all;
}
