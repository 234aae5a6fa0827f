import { printable } from '../../core/setting.ts';
import type { Format, Paint } from './terminal.ts';
import { cutTo, widthOf } from './width.ts';

/** A column of a table. */
export interface Column<Row> {
  readonly header: string;
  /** What stands in a row; made printable by the table. */
  readonly text: (row: Row) => string;
  readonly format?: (row: Row) => Format | undefined;
  readonly align?: 'right';
  /** Whether it may be cut where room is short. Ids are not: people copy them. */
  readonly cuttable?: boolean;
}

/** How a table is shown. */
export interface TableStyle {
  /** Columns of the terminal; absent: nothing is cut. */
  readonly width: number | undefined;
  readonly paint: Paint;
}

const gap = '  ';
const cutWidthMin = 8;

/** The lines of a table: its header, then its rows, columns aligned. */
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
 * Widths that fit together into the width of the terminal, as far as the columns that may be cut
 * allow it: the widest of them gives first.
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

/** Names and values, one pair a line. Values that are `undefined` are left out. */
export function pairLines(
  pairs: readonly (readonly [name: string, value: string | undefined])[],
  paint: Paint,
): string[] {
  const given = pairs.filter((pair) => pair[1] !== undefined);
  const width = Math.max(0, ...given.map(([name]) => widthOf(name)));
  return given.map(
    ([name, value]) => `${paint('dim', name.padEnd(width))}  ${printable(value ?? '')}`,
  );
}

/** An instant of the API, `2026-03-01T09:30:00.000Z`, as people read it: to the second. */
export function shortTime(time: string): string {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/.test(time)
    ? `${time.slice(0, 10)} ${time.slice(11, 19)}Z`
    : time;
}
