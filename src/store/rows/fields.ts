import type { Column, NewRowOf, RowOf, Table } from '../table.ts';

/** Converts between the rows of a table and the fields that they hold of its noun. */
interface Conversion<T extends Table, Name extends keyof T['columns']> {
  /** Returns the fields of a row. */
  fieldsOf(row: Pick<RowOf<T>, Name>): Fields<T, Name>;
  /** Returns the columns of a noun, which has to have each field. */
  cellsOf<Noun extends Settable<Fields<T, Name>>>(
    noun: Noun & Record<Exclude<keyof Fields<T, Name>, keyof Noun>, never>,
  ): Pick<NewRowOf<T>, Name>;
}

type Fields<T extends Table, Names extends keyof T['columns']> = {
  readonly [
    Name in Exclude<Names, OmittedIn<T['columns']>> as FieldName<Name, T['columns'][Name]>
  ]: ContentOf<T['columns'][Name]>;
} & {
  readonly [
    Name in Names & OmittedIn<T['columns']> as FieldName<Name, T['columns'][Name]>
  ]?: ContentOf<T['columns'][Name]>;
};

type OmittedIn<Columns> = {
  [Name in keyof Columns]: Columns[Name] extends { readonly isOmitted: true } ? Name : never;
}[keyof Columns];

type FieldName<Name, C> = C extends { readonly field: infer Field } ? Field : CamelCase<Name>;

/** `createdAt` of `created_at`. */
type CamelCase<Name> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name;

type ContentOf<C> = C extends Column<unknown, boolean, infer Content> ? Content : never;

/** The fields of a noun: those that may be undefined may also be absent. */
type Settable<All> = {
  readonly [Name in keyof All as undefined extends All[Name] ? never : Name]: All[Name];
} & {
  readonly [Name in keyof All as undefined extends All[Name] ? Name : never]?: All[Name];
};

/**
 * Creates the conversion of the columns of a table `without` some. The field of a column has its name in
 * camel case, or the one that it is given. It is `undefined` for null, or absent where the
 * column is `omitted`, and JSON is parsed.
 */
export function conversionOf<T extends Table, const Other extends keyof T['columns'] = never>(
  { columns }: T,
  { without = [] }: { readonly without?: readonly Other[] } = {},
): Conversion<T, Exclude<keyof T['columns'], Other>> {
  const others = new Set<unknown>(without);
  const converted = Object.entries(columns)
    .filter(([name]) => !others.has(name))
    .map(([name, column]) => ({ name, column, field: column.field ?? inCamelCase(name) }));
  type Converted = Conversion<T, Exclude<keyof T['columns'], Other>>;
  return {
    fieldsOf: (row: Readonly<Record<string, unknown>>) => {
      const fields: Record<string, unknown> = {};
      for (const { name, column, field } of converted) {
        const cell = row[name];
        if (cell !== null) fields[field] = contentOf(column, cell);
        else if (column.isOmitted !== true) fields[field] = undefined;
      }
      return fields;
    },
    cellsOf: (noun: Readonly<Record<string, unknown>>) => {
      const cells: Record<string, unknown> = {};
      for (const { name, column, field } of converted) cells[name] = cellOf(column, noun[field]);
      return cells;
    },
    // The types above say of each column what the loops do.
  } as unknown as Converted;
}

function inCamelCase(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, character: string) => character.toUpperCase());
}

function contentOf({ kind, isJson }: Column, cell: unknown): unknown {
  if (isJson === true) return JSON.parse(String(cell));
  return kind === 'boolean' ? Boolean(cell) : cell;
}

function cellOf({ isJson }: Column, content: unknown): unknown {
  return isJson === true ? JSON.stringify(content) : content;
}
