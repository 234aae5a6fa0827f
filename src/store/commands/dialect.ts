import { StoreTextRefused } from '../../core/errors.ts';

/** What a statement may contain between its texts. */
export type Value = Scalar | Fragment;

type Scalar = string | number | boolean | Uint8Array | null | undefined;
export type Bindable = Scalar | readonly string[] | readonly number[];
export type Dialect = 'sqlite' | 'postgres';

/** A piece of SQL, written for each dialect. */
export class Fragment {
  readonly pieces: Readonly<Record<Dialect, Piece>>;

  constructor(pieces: Fragment['pieces']) {
    this.pieces = pieces;
  }
}

interface Piece {
  /** The texts around the values; constant, because statements are cached by them. */
  readonly texts: readonly string[];
  readonly values: readonly Bindable[];
}

/** A text without values. */
export function perDialect(texts: Readonly<Record<Dialect, string>>): Fragment {
  return new Fragment({
    sqlite: { texts: [texts.sqlite], values: [] },
    postgres: { texts: [texts.postgres], values: [] },
  });
}

/** A text that both dialects have, such as the name of a table. */
export function verbatim(text: string): Fragment {
  return perDialect({ sqlite: text, postgres: text });
}

/** The function that returns the larger of two numbers. */
export const larger = perDialect({ sqlite: 'max', postgres: 'greatest' });

/** A text with values in one dialect. */
export function piece(texts: TemplateStringsArray, ...values: Bindable[]): Piece {
  return { texts, values };
}

/** `and client = ?`: a further condition, left out where any value will do. */
export function andEquals(column: string, value: string | Uint8Array | undefined): Fragment {
  if (value === undefined) return verbatim('');
  const condition = { texts: [`and ${column} = `, ''], values: [value] };
  return new Fragment({ sqlite: condition, postgres: condition });
}

/** A fragment for what SQLite does without. */
export function postgresOnly(texts: TemplateStringsArray, ...values: Bindable[]): Fragment {
  return new Fragment({ sqlite: piece``, postgres: { texts, values } });
}

// SQLite has one writer: its transactions need no locks of rows.
export const unlocked = postgresOnly``;
/** Locks the rows until the commit. */
export const forUpdate = postgresOnly`for update`;
/** The same, while other rows may begin to refer to these. */
export const forNoKeyUpdate = postgresOnly`for no key update`;
/** Keeps the rows from being changed until the commit. */
export const forShare = postgresOnly`for share`;
/** Keeps the rows from being deleted until the commit. */
export const forKeyShare = postgresOnly`for key share`;

// SQLite has no arrays: a list is one value of JSON there.

/** `id ${oneOf(ids)}`: the column has one of the values. */
export function oneOf(list: readonly string[]): Fragment {
  return new Fragment({
    sqlite: piece`in (select value from json_each(${jsonOf(list)}))`,
    postgres: piece`= any(${list}::text[])`,
  });
}

/** The same for a column of numbers. */
export function oneOfNumbers(list: readonly number[]): Fragment {
  return new Fragment({
    sqlite: piece`in (select value from json_each(${JSON.stringify(list)}))`,
    postgres: piece`= any(${list}::bigint[])`,
  });
}

// PostgreSQL does not see a list that a subquery returns while it plans. Otherwise it estimates the rows of
// each value for each partition, which takes longer than to find those of hundreds by an index.

/** The same as {@link oneOf} for hundreds of values of an index. */
export function oneOfMany(list: readonly string[]): Fragment {
  return new Fragment({
    sqlite: piece`in (select value from json_each(${jsonOf(list)}))`,
    postgres: piece`= any((select ${list}::text[])::text[])`,
  });
}

/** A table `listed` with the numbers in its column `value`. */
export function listedNumbers(list: readonly number[]): Fragment {
  return new Fragment({
    sqlite: piece`json_each(${JSON.stringify(list)}) as listed`,
    postgres: piece`unnest(${list}::bigint[]) as listed (value)`,
  });
}

/** A table `listed` with the texts in its column `value`. */
export function listed(list: readonly string[]): Fragment {
  return new Fragment({
    sqlite: piece`json_each(${jsonOf(list)}) as listed`,
    postgres: piece`unnest(${list}::text[]) as listed (value)`,
  });
}

/** The aggregate that returns a list as JSON. */
export const jsonList = perDialect({ sqlite: 'json_group_array', postgres: 'json_agg' });

/** Returns a JSON array of its arguments. */
export const jsonRow = perDialect({ sqlite: 'json_array', postgres: 'json_build_array' });

/** Returns the values of a {@link jsonList}. */
export function listOf<T>(list: string | null | undefined): T[] {
  return JSON.parse(list ?? '[]') as T[];
}

/** Returns where a text begins in another; 0 when it is not in it. */
export const positionIn = perDialect({ sqlite: 'instr', postgres: 'strpos' });

/** A table `listed` with the rows as JSON arrays in its column `value`. */
export function listedRows(rows: readonly (readonly (string | number)[])[]): Fragment {
  const json = jsonOf(rows);
  return new Fragment({
    sqlite: piece`json_each(${json}) as listed`,
    postgres: piece`jsonb_array_elements(${json}::jsonb) as listed (value)`,
  });
}

/**
 * Returns a list as JSON. As in a text that is bound, half a surrogate pair becomes U+FFFD in it, and U+0000
 * throws `StoreTextRefused`: in JSON it would be an escape that SQLite accepts and PostgreSQL does not.
 */
export function jsonOf(list: readonly unknown[]): string {
  return JSON.stringify(list, (_key, value: unknown) => {
    if (typeof value !== 'string') return value;
    if (value.includes('\0')) throw new StoreTextRefused('A text has the character U+0000.');
    return value.toWellFormed();
  });
}

/** A statement as the engine of one dialect takes it. */
export interface Written {
  readonly strings: TemplateStringsArray;
  readonly values: readonly Bindable[];
}

type Write = (statement: {
  readonly strings: TemplateStringsArray;
  readonly values: readonly Value[];
}) => Written;

/** Returns a function that writes statements in one dialect: the same text is the same array. */
export function createWriter(dialect: Dialect): Write {
  const writtenByPieces = new WeakMap<TemplateStringsArray, Map<string, TemplateStringsArray>>();
  return ({ strings, values }) => {
    if (!values.some((value) => value instanceof Fragment))
      return { strings, values: values as Bindable[] };
    const pieces = values.map((value) =>
      value instanceof Fragment ? value.pieces[dialect] : { texts: bare, values: [value] },
    );
    const key = pieces.map(({ texts }) => texts.join('?')).join();
    const cached = writtenByPieces.get(strings) ?? new Map<string, TemplateStringsArray>();
    const written = cached.get(key) ?? merged(strings, pieces);
    writtenByPieces.set(strings, cached.set(key, written));
    return { strings: written, values: pieces.flatMap((each) => each.values) };
  };
}

/** Around one value. */
const bare = ['', ''];

function merged(strings: TemplateStringsArray, pieces: readonly Piece[]): TemplateStringsArray {
  const parts = [strings[0] ?? ''];
  const append = (part: string): void => void parts.push(`${parts.pop() ?? ''}${part}`);
  for (const [index, { texts }] of pieces.entries()) {
    const [first = '', ...others] = texts;
    append(first);
    parts.push(...others);
    append(strings[index + 1] ?? '');
  }
  return Object.assign(parts, { raw: parts });
}
