import type { ChangeOf, NewRowOf, Table } from '../table.ts';
import { type Bindable, Fragment, verbatim } from './dialect.ts';

// Parts of statements that name the columns of a table as tables.ts has them.

/** `"id", "name"`: the columns of a table, except for some; `s."id", s."name"` where it is called `as`. */
export function columnsOf<T extends Table>(
  table: T,
  { without = [], as }: { without?: readonly (keyof T['columns'])[]; as?: string } = {},
): Fragment {
  const names = Object.keys(table.columns).filter((name) => !without.includes(name));
  const prefix = as === undefined ? '' : `${as}.`;
  return verbatim(names.map((name) => `${prefix}${quoted(name)}`).join(', '));
}

/** `("id", "name") values (?, ?)`: a row to insert. */
export function valuesOf<T extends Table>(table: T, row: NewRowOf<T>): Fragment {
  const [names, values] = cellsOf(table, row);
  const commas = values.slice(1).map(() => ', ');
  return both([`(${names.map(quoted).join(', ')}) values (`, ...commas, ')'], values);
}

/** `"name" = ?, "scope" = ?`: columns to update, which those of the key never are. */
export function changesOf<T extends Table>(table: T, change: ChangeOf<T>): Fragment {
  const keys = Object.keys(table.columns).slice(0, table.keyColumns);
  const [names, values] = cellsOf(table, change, keys);
  const texts = names.map((name, index) => `${index === 0 ? '' : ', '}${quoted(name)} = `);
  return both([...texts, ''], values);
}

/** In the order of the table, so that the text does not depend on that of the properties. */
function cellsOf(
  { columns }: Table,
  row: Readonly<Record<string, unknown>>,
  without: readonly string[] = [],
): [names: string[], values: Bindable[]] {
  const names = Object.keys(columns).filter(
    (name) => Object.hasOwn(row, name) && !without.includes(name),
  );
  return [names, names.map((name) => row[name] as Bindable)];
}

function both(texts: readonly string[], values: readonly Bindable[]): Fragment {
  const piece = { texts, values };
  return new Fragment({ sqlite: piece, postgres: piece });
}

function quoted(name: string): string {
  return `"${name}"`;
}
