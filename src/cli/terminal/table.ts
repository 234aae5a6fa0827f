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
  /** On a terminal that is too narrow: a shorter text, and when to use it; small ranks come first. */
  readonly short?: { readonly rank: number; readonly text: (row: Row) => string };
  /** When to leave the column out on such a terminal; without any text it is left out on all of them. */
  readonly leaves?: number;
}

/** Layout of a table. */
export interface TableStyle {
  /** Columns of the terminal; `undefined` shortens nothing. */
  readonly width: number | undefined;
  readonly paint: Paint;
}

const gap = '  ';
const cutWidthMin = 8;
/** Columns are shortened or left out until those that may be cut have so much. */
const cutWidthWanted = 40;

/** Returns the lines of a table: its header, then its rows, columns aligned. */
export function tableLines<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  { width, paint }: TableStyle,
): string[] {
  const { columns, uncutMax } = columnsFor(all, rows, width);
  const texts = rows.map((row) => columns.map((column) => printable(column.text(row))));
  const natural = columns.map((column) => naturalWidth(column, rows, uncutMax));
  const cuttable = columns.map((column) => column.cuttable === true);
  const widths = width === undefined ? natural : fitted(natural, cuttable, width);
  const cell = (index: number, text: string): string => {
    const most = widths[index] ?? 0;
    const cut = cuttable[index] === true ? cutTo(text, most) : text;
    const padding = ' '.repeat(Math.max(0, most - widthOf(cut)));
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

/** Columns to show, and the most columns of the terminal for one that is never cut. */
interface Chosen<Row> {
  readonly columns: readonly Column<Row>[];
  readonly uncutMax: number;
}

/** Where a table does not fit: longer names make their own rows too wide instead of all of them. */
const uncutWidthMax = 32;

function columnsFor<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  width: number | undefined,
): Chosen<Row> {
  if (width === undefined) return { columns: all, uncutMax: Infinity };
  const columns = narrowed(all, rows, { width, uncutMax: Infinity });
  const least = columns.map((column) =>
    Math.min(naturalWidth(column, rows), column.cuttable === true ? cutWidthMin : Infinity),
  );
  if (totalWidth(least) <= width) return { columns, uncutMax: Infinity };
  const uncutMax = uncutWidthMax;
  return { columns: narrowed(all, rows, { width, uncutMax }), uncutMax };
}

function totalWidth(widths: readonly number[]): number {
  return widths.reduce((sum, each) => sum + each + gap.length, -gap.length);
}

/** Returns the width of the widest cell of a column, at most `uncutMax` where it is never cut. */
function naturalWidth<Row>(
  { header, text, cuttable }: Column<Row>,
  rows: readonly Row[],
  uncutMax = Infinity,
): number {
  const max = cuttable === true ? Infinity : Math.max(uncutMax, widthOf(header));
  return rows.reduce(
    (most, row) => Math.max(most, Math.min(max, widthOf(printable(text(row))))),
    widthOf(header),
  );
}

/** Returns the columns that a terminal has room for, by their ranks. */
function narrowed<Row>(
  all: readonly Column<Row>[],
  rows: readonly Row[],
  { width, uncutMax }: { readonly width: number; readonly uncutMax: number },
): readonly Column<Row>[] {
  let columns = all.filter(
    ({ leaves, text }) =>
      leaves === undefined || rows.length === 0 || rows.some((row) => text(row) !== ''),
  );
  const ranks = columns.flatMap(({ short, leaves }) => [short?.rank ?? [], leaves ?? []].flat());
  for (const rank of [...new Set(ranks)].toSorted((one, other) => one - other)) {
    if (wantedWidth(columns, rows, uncutMax) <= width) break;
    columns = columns
      .filter(({ leaves }) => leaves !== rank)
      .map((column) =>
        column.short?.rank === rank ? { ...column, text: column.short.text } : column,
      );
  }
  return columns;
}

function wantedWidth<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  uncutMax: number,
): number {
  const wanted = columns.map((column) => {
    const natural = naturalWidth(column, rows, uncutMax);
    return column.cuttable === true ? Math.min(natural, cutWidthWanted) : natural;
  });
  return totalWidth(wanted);
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
  let excess = totalWidth(widths) - width;
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

/** Shortens an instant of the API to the minute, without the year: `03-01 09:30Z`. */
function narrowTime(time: string): string {
  const short = shortTime(time);
  return short === time ? time : `${short.slice(5, 16)}Z`;
}

/** Creates a column of instants: on a narrow terminal they become shorter, then they go first. */
export function dateColumn<Row>(header: string, time: (row: Row) => string): Column<Row> {
  return {
    header,
    text: (row) => shortTime(time(row)),
    short: { rank: 1, text: (row) => narrowTime(time(row)) },
    leaves: 2,
  };
}
