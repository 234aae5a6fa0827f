/**
 * Every column with sealed values, by table, with the column that identifies a row of a tenant.
 * Only these can be sealed and opened, and a rotation of the key seals them again, in the order of
 * `(tenant, row)`, which has an index.
 */
export const sealedTables = {
  signing_keys: { row: 'kid', columns: ['private_jwk'] },
  webhook_keys: { row: 'kid', columns: ['private_jwk'] },
  streams: { row: 'id', columns: ['destination', 'signing_secrets'] },
} as const;

export type SealedTable = keyof typeof sealedTables;
type ColumnOf<T extends SealedTable> = (typeof sealedTables)[T]['columns'][number];

/** Where a sealed value is stored. It opens there only. */
export interface Place {
  readonly tenant: number;
  readonly table: SealedTable | 'key_check';
  readonly row: string;
  readonly column: ColumnOf<SealedTable> | 'sealed';
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
