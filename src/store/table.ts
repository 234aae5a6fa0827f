import type { Millis } from '../core/clock.ts';
import type { Offset } from '../core/types.ts';

type Kind = 'integer' | 'real' | 'text' | 'bytes' | 'boolean';

/**
 * A column of a table of both engines. A row need not have it when it is inserted if it may be null, has a
 * default, or is numbered automatically: {@link IsOptional}. `Content` is what it holds of the noun of the
 * table, see rows/fields.ts.
 */
export interface Column<Value = unknown, IsOptional extends boolean = boolean, Content = unknown> {
  readonly kind: Kind;
  readonly isNullable: boolean;
  readonly isOptional: IsOptional;
  /** PostgreSQL numbers it automatically, and SQLite with `autoincrement`. */
  readonly isNumbered?: true;
  readonly isSealed?: true;
  /** About a process, or derived: a migration to another store leaves it out. */
  readonly isLeftOut?: true;
  /** What SQLite, which has no such column, reads instead of it in a migration. */
  readonly source?: string;
  readonly isJson?: true;
  /** Null stands for a noun without the field, not for one whose field is `undefined`. */
  readonly isOmitted?: true;
  /** The field of the noun, where its name is not that of the column in camel case. */
  readonly field?: string;
  /** Never set: carries the types of the values. */
  readonly type?: { readonly of: Value; readonly content: Content };
}

/** A table of both engines. */
export interface Table {
  /** Number of leading columns that are the key; a migration copies rows in its order. */
  readonly keyColumns: number;
  readonly columns: Readonly<Record<string, Column>>;
  /** The column that identifies a row of a tenant in the place of its sealed values. */
  readonly sealedBy?: string;
  /** The SQL that SQLite reads instead of the table of that name in a migration. */
  readonly from?: string;
  /** A migration to another store leaves the whole table out. */
  readonly isLeftOut?: true;
}

const columnOf = <Value, Content = Value>(kind: Kind): Column<Value, false, Content> => ({
  kind,
  isNullable: false,
  isOptional: false,
});
export const integer = () => columnOf<number>('integer');
export const millis = () => columnOf<Millis>('integer');
export const offset = () => columnOf<Offset>('integer');
export const text = <Value extends string = string>() => columnOf<Value>('text');
export const bytes = () => columnOf<Uint8Array>('bytes');
export const real = () => columnOf<number>('real');
/** A number on SQLite, which has no booleans. */
export const boolean = () => columnOf<number | boolean, boolean>('boolean');
export const json = <Content>(): Column<string, false, Content> => ({
  ...columnOf('text'),
  isJson: true,
});
/** Only these can be sealed and opened, and a rotation of the key seals them again. */
export const sealed = () => ({ ...bytes(), isSealed: true }) as const;
export const numbered = () => ({ ...defaulted(integer()), isNumbered: true }) as const;

export const orNull = <Value, Content>(
  column: Column<Value, boolean, Content>,
): Column<Value | null, true, Content | undefined> => ({
  ...column,
  isNullable: true,
  isOptional: true,
});
/** May be null, which stands for a noun without the field. */
export const omitted = <Value, Content>(column: Column<Value, boolean, Content>) =>
  ({ ...orNull(column), isOmitted: true }) as const;
export const defaulted = <Value, Content>(
  column: Column<Value, boolean, Content>,
): Column<Value, true, Content> => ({ ...column, isOptional: true });
export const named = <Name extends string, C extends Column>(field: Name, column: C) =>
  ({ ...column, field }) as const;
export const leftOut = <C extends Column>(column: C) => ({ ...column, isLeftOut: true }) as const;
export const computed = <C extends Column>(column: C, source: string) =>
  ({ ...column, source }) as const;

type ValueOf<C> = C extends Column<infer Value> ? Value : never;

/** A row as the engines return it. */
export type RowOf<T extends Table> = {
  readonly [Name in keyof T['columns']]: ValueOf<T['columns'][Name]>;
};

type OptionalIn<Columns> = {
  [Name in keyof Columns]: Columns[Name] extends Column<unknown, true> ? Name : never;
}[keyof Columns];

/** A value as it is bound: null may be absent. */
type Bound<Value> = null extends Value ? Value | undefined : Value;

/** What has to be known to insert a row. */
export type NewRowOf<T extends Table> = {
  readonly [Name in Exclude<keyof T['columns'], OptionalIn<T['columns']>>]: Bound<RowOf<T>[Name]>;
} & ChangeOf<T>;

/** Some columns of a row with new values. */
export type ChangeOf<T extends Table> = {
  readonly [Name in keyof T['columns']]?: Bound<RowOf<T>[Name]>;
};
