import { parseKeepingNumbers } from './request.ts';

/** A condition on one field of an event, as a row of the form has it. */
export interface FilterRow {
  /** Path into the envelope, such as `data.object.email`. */
  readonly path: string;
  readonly operator: RowOperator;
  /** As typed: {@link valueOf} says what it means. */
  readonly value: string;
}

export type RowOperator = keyof typeof rowOperators;

/** The operators of rows (docs/http-api.md#filters), with their words. */
export const rowOperators = {
  $eq: 'is',
  $ne: 'is not',
  $in: 'is one of',
  $nin: 'is none of',
  $gt: 'is greater than',
  $gte: 'is at least',
  $lt: 'is less than',
  $lte: 'is at most',
  $contains: 'contains',
  $startsWith: 'starts with',
  $endsWith: 'ends with',
  exists: 'is there',
  missing: 'is missing',
} as const;

export const emptyRow: FilterRow = { path: '', operator: '$eq', value: '' };

/** Returns whether an operator has a value. */
export function hasValue(operator: RowOperator): boolean {
  return operator !== 'exists' && operator !== 'missing';
}

type Condition = Readonly<Record<string, unknown>>;

/**
 * Returns the condition that all rows have to match, as JSON text; empty without any row that names a
 * field. Two rows of one field are both kept.
 */
export function textOfRows(rows: readonly FilterRow[]): string {
  const named = rows.filter(({ path }) => path.trim() !== '');
  if (named.length === 0) return '';
  const fields = new Map<string, Condition>();
  const again: Condition[] = [];
  for (const row of named) {
    const path = row.path.trim();
    const operators = operatorsOf(row);
    const present = fields.get(path) ?? {};
    const isTaken = Object.keys(operators).some((name) => Object.hasOwn(present, name));
    if (isTaken) again.push({ [path]: shortened(operators) });
    else fields.set(path, { ...present, ...operators });
  }
  const condition = Object.fromEntries(
    [...fields].map(([path, operators]) => [path, shortened(operators)]),
  );
  return JSON.stringify(again.length === 0 ? condition : { ...condition, $and: again });
}

function operatorsOf({ operator, value }: FilterRow): Condition {
  switch (operator) {
    case 'exists':
      return { $exists: true };
    case 'missing':
      return { $exists: false };
    case '$in':
    case '$nin':
      return { [operator]: listOf(value) };
    case '$startsWith':
    case '$endsWith':
      return { [operator]: unquoted(value) };
    case '$eq':
    case '$ne':
    case '$gt':
    case '$gte':
    case '$lt':
    case '$lte':
    case '$contains':
      return { [operator]: valueOf(value) };
  }
}

/** Writes an equality without its operator, where the value cannot be taken for operators. */
function shortened(operators: Condition): unknown {
  const { $eq: value } = operators;
  const isAlone = Object.keys(operators).length === 1 && value !== undefined;
  return isAlone && (typeof value !== 'object' || value === null) ? value : operators;
}

/**
 * Returns what somebody means who types a value: JSON where it is JSON, such as `5`, `true` or
 * `"5"` for a text of one digit; else the text.
 */
export function valueOf(typed: string): unknown {
  const text = typed.trim();
  try {
    return parseKeepingNumbers(text);
  } catch {
    return text;
  }
}

/** The same where only a text makes sense. */
function unquoted(typed: string): string {
  const value = valueOf(typed);
  return typeof value === 'string' ? value : typed.trim();
}

/** A JSON array, or values between commas. */
function listOf(typed: string): unknown[] {
  const value = valueOf(typed);
  if (Array.isArray(value)) return value;
  return typed
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(valueOf);
}

/**
 * Returns the rows of a condition; `undefined` when it is none, or has more than rows can have, such as
 * `$or`.
 */
export function rowsOf(text: string): readonly FilterRow[] | undefined {
  if (text.trim() === '') return [];
  const condition = valueOf(text);
  if (!isObject(condition)) return undefined;
  const rows = Object.entries(condition).map(([path, operand]) => rowsOfField(path, operand));
  const all = rows.flatMap((those) => those ?? []);
  return rows.includes(undefined) || all.length === 0 ? undefined : all;
}

function rowsOfField(path: string, operand: unknown): readonly FilterRow[] | undefined {
  if (path === '$and' && Array.isArray(operand)) {
    const rows = operand.map((condition) => rowsOf(JSON.stringify(condition)));
    return rows.includes(undefined) ? undefined : rows.flatMap((those) => those ?? []);
  }
  if (path.startsWith('$')) return undefined;
  const isValue = !isObject(operand) || !Object.keys(operand).some((name) => name.startsWith('$'));
  if (isValue) return [{ path, operator: '$eq', value: typedOf(operand) }];
  const rows = Object.entries(operand).map(([name, value]) => rowOf(path, name, value));
  const all = rows.filter((row) => row !== undefined);
  return all.length === rows.length ? all : undefined;
}

function rowOf(path: string, name: string, value: unknown): FilterRow | undefined {
  if (name === '$exists' && typeof value === 'boolean') {
    return { path, operator: value ? 'exists' : 'missing', value: '' };
  }
  const isOperator = Object.hasOwn(rowOperators, name) && name.startsWith('$');
  if (!isOperator) return undefined;
  const isList = (name === '$in' || name === '$nin') && Array.isArray(value);
  return { path, operator: name as RowOperator, value: isList ? typedList(value) : typedOf(value) };
}

/** Writes values between commas, where that is read as the same values. */
function typedList(values: readonly unknown[]): string {
  const text = values.map(typedOf).join(', ');
  const json = JSON.stringify(values);
  return JSON.stringify(listOf(text)) === json ? text : json;
}

/** Returns what has to be typed for a value. */
function typedOf(value: unknown): string {
  if (typeof value === 'string' && valueOf(value) === value) return value;
  return JSON.stringify(value);
}

/** Says why a text is no JSON object; undefined when it is one, or empty. */
export function problemOfText(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  try {
    if (isObject(JSON.parse(text))) return undefined;
    return 'A condition is a JSON object, such as {"data.object.plan": "pro"}.';
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}.`;
  }
}

function isObject(value: unknown): value is Condition {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
