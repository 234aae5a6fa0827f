import type { Table } from './table.ts';
import { tables } from './tables.ts';

type Tables = typeof tables;
export type SealedTable = {
  [Name in keyof Tables]: Tables[Name] extends { readonly sealedBy: string } ? Name : never;
}[keyof Tables];
type SealedIn<Columns> = {
  [Name in keyof Columns & string]: Columns[Name] extends { readonly isSealed: true }
    ? Name
    : never;
}[keyof Columns & string];
type ColumnOf<T extends SealedTable> = T extends T ? SealedIn<Tables[T]['columns']> : never;
type SealedColumn = ColumnOf<SealedTable>;

/**
 * Every column with sealed values, by table, with the column that identifies a row of a tenant. A rotation
 * of the key seals them again in the order of `(tenant, row)`, which has an index.
 */
export const sealedTables = Object.fromEntries(
  Object.entries<Table>(tables).flatMap(([name, { sealedBy: row, columns: all }]) => {
    if (row === undefined) return [];
    const columns = Object.keys(all).filter((column) => all[column]?.isSealed === true);
    return [[name, { row, columns: columns as readonly SealedColumn[] }]];
  }),
) as Record<SealedTable, { readonly row: string; readonly columns: readonly SealedColumn[] }>;

/** Where a sealed value is stored. It opens there only. */
export interface Place {
  readonly tenant: number;
  readonly table: SealedTable | 'key_check';
  readonly row: string;
  readonly column: SealedColumn | 'sealed';
}

/** Returns the place of a column in a row of a tenant. */
export function placeIn<T extends SealedTable>(
  table: T,
  { tenant, row }: { readonly tenant: number; readonly row: string },
  column: ColumnOf<T>,
): Place {
  return { tenant, table, row, column };
}

/** The place of the key check, which belongs to no tenant. */
export const keyCheckPlace: Place = { tenant: 0, table: 'key_check', row: '1', column: 'sealed' };
