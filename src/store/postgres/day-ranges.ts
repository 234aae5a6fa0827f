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

/** To open this many unneeded days costs less than another statement. */
const gapMax = 5;

/**
 * Groups rows whose days are close together. A statement for all of them would open every day from
 * the first to the last: a year, where a stream fails once a month. The rows of a group keep their order.
 */
export function groupByDays<Row>(
  rows: readonly Row[],
  daysOf: (row: Row) => Days,
): { readonly days: Days; readonly rows: readonly Row[] }[] {
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
