/** A column of a table for the operator. */
export interface Column<Row> {
  readonly header: string;
  readonly text: (row: Row) => string;
  readonly align?: 'right';
}

/** Returns the lines of a table, columns two spaces apart. Names are never truncated. */
export function tableOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string[] {
  const cells = [
    columns.map(({ header }) => header),
    ...rows.map((row) => columns.map(({ text }) => text(row))),
  ];
  const widths = columns.map((_column, index) =>
    Math.max(...cells.map((line) => line[index]?.length ?? 0)),
  );
  return cells.map((line) =>
    line
      .map((cell, index) => {
        const width = widths[index] ?? 0;
        return columns[index]?.align === 'right' ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd(),
  );
}

/** Returns `1.2 GiB`: at most three digits before the unit. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let amount = bytes;
  let unit = 0;
  while (amount >= 1000 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  const text = unit === 0 || amount >= 100 ? amount.toFixed(0) : amount.toFixed(1);
  return `${text} ${units[unit]}`;
}

/** Returns `45 s`, `12 min`, `3 h` or `9 d`. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const countText = (count: number): string => count.toLocaleString('en-US');
