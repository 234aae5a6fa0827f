import { printable } from '../../core/setting.ts';
import type { Format, Paint } from './terminal.ts';
import { cutTo, widthOf } from './width.ts';

/** A column of a table. */
export interface Column<Row> {
  readonly header: string;
  /** Text of the cell; the table makes it printable. */
  readonly text: (row: Row) => string;
  readonly format?: (row: Row) => Format | undefined;
  readonly align?: 'right';
  /** Whether it may be shortened on a narrow terminal; ids are not, because users copy them. */
  readonly cuttable?: boolean;
}

/** Layout of a table. */
export interface TableStyle {
  /** Columns of the terminal; `undefined` shortens nothing. */
  readonly width: number | undefined;
  readonly paint: Paint;
}

const gap = '  ';
const cutWidthMin = 8;

/** Returns the lines of a table: its header, then its rows, columns aligned. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  { width, paint }: TableStyle,
): string[] {
  const texts = rows.map((row) => columns.map((column) => printable(column.text(row))));
  const natural = columns.map((column, index) =>
    Math.max(widthOf(column.header), ...texts.map((cells) => widthOf(cells[index] ?? ''))),
  );
  const cuttable = columns.map((column) => column.cuttable === true);
  const widths = width === undefined ? natural : fitted(natural, cuttable, width);
  const cell = (index: number, text: string): string => {
    const cut = cutTo(text, widths[index] ?? 0);
    const padding = ' '.repeat((widths[index] ?? 0) - widthOf(cut));
    return columns[index]?.align === 'right' ? padding + cut : cut + padding;
  };
  const header = columns.map((column, index) => paint('bold', cell(index, column.header)));
  const body = rows.map((row, line) =>
    columns.map((column, index) => {
      const text = cell(index, texts[line]?.[index] ?? '');
      const format = column.format?.(row);
      return format === undefined ? text : paint(format, text);
    }),
  );
  return [header, ...body].map((cells) => cells.join(gap).trimEnd());
}

/**
 * Returns the widths of the columns for a terminal of `width` columns. Shortens the widest cuttable
 * column first; the table stays too wide when none can be shortened further.
 */
export function fitted(
  natural: readonly number[],
  cuttable: readonly boolean[],
  width: number,
): number[] {
  const widths = [...natural];
  let excess = widths.reduce((sum, each) => sum + each + gap.length, -gap.length) - width;
  for (; excess > 0; excess--) {
    const widest = widths.reduce(
      (best, each, index) =>
        cuttable[index] === true && each > (widths[best] ?? 0) ? index : best,
      cuttable.indexOf(true),
    );
    if ((widths[widest] ?? 0) <= cutWidthMin) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** Returns names and values, one pair per line. Values that are `undefined` are left out. */
export function pairLines(
  pairs: readonly (readonly [name: string, value: string | undefined])[],
  paint: Paint,
): string[] {
  const present = pairs.filter((pair) => pair[1] !== undefined);
  const width = Math.max(0, ...present.map(([name]) => widthOf(name)));
  return present.map(
    ([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '')}`,
  );
}

/** Shortens an instant of the API to the second: `2026-03-01 09:30:00Z`. Keeps any other text. */
export function shortTime(time: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/.test(time)
    ? `${time.slice(0, 10)} ${time.slice(11, 19)}Z`
    : time;
}
