import type { Column, Table as DescribedTable } from '../table.ts';
import { tables } from '../tables.ts';

export type Cell = string | number | boolean | null;

/** In the order of the columns of its table; bytes as hexadecimal text, so that it is the same JSON on both sides. */
export type TableRow = readonly Cell[];

/** The cells of a row that order the table. */
export type RowKey = readonly Cell[];

export interface TableColumn extends Column {
  readonly name: string;
}

/** A table that a migration copies. */
export interface Table extends Pick<DescribedTable, 'keyColumns' | 'from'> {
  readonly name: string;
  readonly columns: readonly TableColumn[];
}

export const migratedTables: readonly Table[] = Object.entries<DescribedTable>(tables)
  .filter(([, { isLeftOut = false }]) => !isLeftOut)
  .map(([name, table]) => ({ ...table, name, columns: migratedColumns(table) }));

function migratedColumns({ columns }: DescribedTable): TableColumn[] {
  return Object.entries(columns)
    .filter(([, { isLeftOut = false }]) => !isLeftOut)
    .map(([name, column]) => ({ ...column, name }));
}

export function keyOf({ keyColumns }: Table, row: TableRow): RowKey {
  return row.slice(0, keyColumns);
}

/** Returns the name of a row in messages: `events (tenant 1, offset 17)`. */
export function nameOfRow({ name, columns }: Table, key: RowKey): string {
  const parts = key.map((cell, index) => `${columns[index]?.name} ${JSON.stringify(cell)}`);
  return `${name} (${parts.join(', ')})`;
}
