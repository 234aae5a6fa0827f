/** A table that a migration copies. */

/** `bytes` are sent as hexadecimal text, so that a row is the same JSON on both sides. */
type Kind = 'integer' | 'real' | 'text' | 'bytes' | 'boolean';

export type Cell = string | number | boolean | null;

/** In the order of the columns of its table. */
export type TableRow = readonly Cell[];

/** The cells of a row that order the table. */
export type RowKey = readonly Cell[];

export interface TableColumn {
  readonly name: string;
  readonly kind: Kind;
  /** The SQL expression on SQLite, where it has no column of that name. */
  readonly source?: string;
}

export interface Table {
  readonly name: string;
  /** Number of leading columns that are the key; rows are copied and compared in its order. */
  readonly keyColumns: number;
  readonly columns: readonly TableColumn[];
  /** The SQL that SQLite reads instead of the table of that name. */
  readonly from?: string;
  /** The identity column: PostgreSQL numbers it automatically, and SQLite with `autoincrement`. */
  readonly identity?: string;
}

export const integer = (name: string, source?: string): TableColumn =>
  columnOf(name, 'integer', source);
export const text = (name: string): TableColumn => columnOf(name, 'text');
export const bytes = (name: string): TableColumn => columnOf(name, 'bytes');
export const boolean = (name: string): TableColumn => columnOf(name, 'boolean');

export function columnOf(name: string, kind: Kind, source?: string): TableColumn {
  return source === undefined ? { name, kind } : { name, kind, source };
}

export function keyOf({ keyColumns }: Table, row: TableRow): RowKey {
  return row.slice(0, keyColumns);
}

/** Returns the name of a row in messages: `events (tenant 1, offset 17)`. */
export function nameOfRow({ name, columns }: Table, key: RowKey): string {
  const parts = key.map((cell, index) => `${columns[index]?.name} ${JSON.stringify(cell)}`);
  return `${name} (${parts.join(', ')})`;
}
