import {
  type Comparison,
  contains,
  endsWith,
  equalsOneOf,
  exists,
  ordered,
  startsWith,
} from './filter-comparisons.ts';
import { beginsWithWord, fieldNames } from './field-path.ts';
import type { FieldPath } from './filter-fields.ts';
import { Filter, type FilterNode } from './filter-program.ts';
import {
  charactersRead,
  elementsRead,
  isArray,
  isObject,
  type Json,
  valueDepthMax,
} from './filter-values.ts';

/** Streams with a filter, of a tenant. */
export const filtersMax = 1000;
/** Bytes of a filter as JSON. */
const filterBytesMax = 16_384;
/** Comparisons of a filter. */
const conditionsMax = 64;
/** Levels of `$and`, `$or` and `$not`. */
const depthMax = 8;

/** Why a condition is no filter. */
export interface FilterViolation {
  /** Names and indexes from the root of the condition, joined by dots; empty for the root. */
  readonly path: string;
  readonly reason: string;
}

export type ParsedFilter =
  | {
      readonly filter: Filter;
      /** The condition as JSON text, to be stored. */
      readonly json: string;
    }
  | { readonly violation: FilterViolation };

/** Parses a condition, as `JSON.parse` returns it. */
export function parseFilter(condition: unknown): ParsedFilter {
  return parse(condition, beginsWithWord);
}

function parse(condition: unknown, isField: (path: string) => boolean): ParsedFilter {
  try {
    checkSize(condition);
    const node = new ConditionParser(isField).condition(condition, [], 0);
    return { filter: new Filter(node), json: JSON.stringify(condition) };
  } catch (error) {
    if (!(error instanceof InvalidCondition)) throw error;
    return { violation: { path: error.path.join('.'), reason: error.message } };
  }
}

/**
 * Returns the filter of a stored text, which was made by {@link parseFilter}; one of an earlier version may have fields
 * that no event has.
 */
export function storedFilter(json: string): Filter {
  const parsed = parse(JSON.parse(json), () => true);
  if ('filter' in parsed) return parsed.filter;
  throw new Error(
    `A stored filter is not valid at ${parsed.violation.path}: ${parsed.violation.reason}.`,
  );
}

/** Levels of arrays and objects that a condition within the other limits can have, and some more. */
const levelsMax = 64;

/** Rejects what is too large to be parsed; does not recur, so that it takes values of any depth. */
function checkSize(condition: unknown): void {
  const open = [{ value: condition, level: 0 }];
  for (let item = open.pop(), left = filterBytesMax; item !== undefined; item = open.pop()) {
    if (typeof item.value !== 'object' || item.value === null) continue;
    const level = item.level + 1;
    const values: unknown[] = Object.values(item.value);
    left -= values.length;
    if (left < 0) throw new InvalidCondition([], tooLong);
    if (level > levelsMax) throw new InvalidCondition([], `More than ${levelsMax} levels`);
    for (const value of values) open.push({ value, level });
  }
  if (new TextEncoder().encode(JSON.stringify(condition)).length <= filterBytesMax) return;
  throw new InvalidCondition([], tooLong);
}

const tooLong = `More than ${filterBytesMax} bytes as JSON`;

type Path = readonly string[];

/** Ends the parser; its message is a reason. */
class InvalidCondition extends Error {
  readonly path: Path;

  constructor(path: Path, reason: string) {
    super(reason);
    this.path = path;
  }
}

const comparisonNames: ReadonlySet<string> = new Set([
  '$eq',
  '$ne',
  '$gt',
  '$gte',
  '$lt',
  '$lte',
  '$in',
  '$nin',
  '$exists',
  '$startsWith',
  '$endsWith',
  '$contains',
]);

class ConditionParser {
  readonly #isField: (path: string) => boolean;
  #conditions = 0;

  constructor(isField: (path: string) => boolean) {
    this.#isField = isField;
  }

  /** `depth`: levels of `$and`, `$or` and `$not` around it. */
  condition(value: unknown, path: Path, depth: number): FilterNode {
    if (!isObject(value)) {
      const reason = `Expected a condition such as {"type": "user.created"} but found ${typeOf(value)}`;
      throw new InvalidCondition(path, reason);
    }
    const fields = Object.entries(value);
    if (fields.length === 0) this.#count(path);
    return {
      all: fields.map(([name, operand]) =>
        name.startsWith('$')
          ? this.#combination(name, operand, [...path, name], depth)
          : this.#field(name, operand, [...path, name], depth),
      ),
    };
  }

  /** The operators between conditions. */
  #combination(name: string, operand: Json, path: Path, depth: number): FilterNode {
    if (name === '$not') return { not: this.condition(operand, path, deeper(path, depth)) };
    if (name !== '$and' && name !== '$or') {
      const reason = comparisonNames.has(name)
        ? `An operator of a field: write it such as {"data.object.plan": {"${name}": …}}`
        : 'Unknown operator: between conditions there are $and, $or and $not';
      throw new InvalidCondition(path, reason);
    }
    if (!isArray(operand) || operand.length === 0) {
      throw new InvalidCondition(
        path,
        `Expected an array of conditions but found ${typeOf(operand)}`,
      );
    }
    const inside = deeper(path, depth);
    const nodes = operand.map((item, index) =>
      this.condition(item, [...path, String(index)], inside),
    );
    return name === '$and' ? { all: nodes } : { any: nodes };
  }

  /** The conditions on one field of the envelope. */
  #field(name: string, operand: Json, path: Path, depth: number): FilterNode {
    const names = fieldNames(name);
    if (names === undefined || names.length === 0) {
      throw new InvalidCondition(
        path,
        'No field: write its names with one dot between two of them, or a JSON Pointer such as /data/object/id',
      );
    }
    if (!this.#isField(name)) {
      const reason =
        'No field of an event: begin with an attribute of its envelope, such as data.object.id or /data/object/id';
      throw new InvalidCondition(path, reason);
    }
    const field: FieldPath = { text: name, names };
    if (isObject(operand) && hasOperator(operand)) {
      return this.#operators(field, operand, path, depth);
    }
    const stray = operatorWithin(operand, path);
    if (stray !== undefined) {
      const reason = `An operator within a value: write the field with dots, such as "${name}.…", or compare by $eq`;
      throw new InvalidCondition(stray, reason);
    }
    return this.#oneOf(field, [operand], path);
  }

  #operators(
    field: FieldPath,
    operators: { readonly [name: string]: Json },
    path: Path,
    depth: number,
  ): FilterNode {
    const nodes = Object.entries(operators).map(([name, operand]) =>
      this.#operator(field, name, operand, [...path, name], depth),
    );
    return { all: nodes };
  }

  #operator(field: FieldPath, name: string, operand: Json, path: Path, depth: number): FilterNode {
    switch (name) {
      case '$eq':
        return this.#oneOf(field, [operand], path);
      case '$ne':
        return { not: this.#oneOf(field, [operand], path) };
      case '$in':
        return this.#oneOf(field, listOf(operand, path), path);
      case '$nin':
        return { not: this.#oneOf(field, listOf(operand, path), path) };
      case '$gt':
      case '$gte':
      case '$lt':
      case '$lte':
        return this.#step(field, path, ordered(name, comparable(operand, path)));
      case '$startsWith':
        return this.#step(field, path, startsWith(textOf(operand, path)));
      case '$endsWith':
        return this.#step(field, path, endsWith(textOf(operand, path)));
      case '$contains':
        return this.#step(field, path, contains(checked(operand, path)));
      case '$exists':
        return this.#exists(field, operand, path);
      case '$not':
        if (!isObject(operand) || !hasOperator(operand)) {
          const reason = `Expected operators such as {"$gt": 5} but found ${typeOf(operand)}; for a value use $ne`;
          throw new InvalidCondition(path, reason);
        }
        return { not: this.#operators(field, operand, path, deeper(path, depth)) };
      default:
        throw new InvalidCondition(path, unknownText(name));
    }
  }

  #exists(field: FieldPath, operand: Json, path: Path): FilterNode {
    if (typeof operand !== 'boolean') {
      throw new InvalidCondition(path, `Expected true or false but found ${typeOf(operand)}`);
    }
    const node = this.#step(field, path, exists);
    return operand ? node : { not: node };
  }

  #oneOf(field: FieldPath, operands: readonly Json[], path: Path): FilterNode {
    const values = operands.map((each) => checked(each, path));
    const [value = null, ...others] = values;
    const only = typeof value === 'object' || others.length > 0 ? undefined : value;
    return { ...this.#step(field, path, equalsOneOf(values)), only };
  }

  #step(field: FieldPath, path: Path, test: Comparison): FilterNode {
    this.#count(path);
    return { path: field, test };
  }

  #count(path: Path): void {
    this.#conditions += 1;
    if (this.#conditions > conditionsMax) {
      throw new InvalidCondition(path, `More than ${conditionsMax} conditions`);
    }
  }
}

function unknownText(name: string): string {
  return name.startsWith('$')
    ? `Unknown operator: there are ${[...comparisonNames].join(', ')} and $not`
    : 'Beside an operator only operators are allowed: write the field with dots';
}

function hasOperator(value: { readonly [name: string]: Json }): boolean {
  return Object.keys(value).some((name) => name.startsWith('$'));
}

/** Returns the path of an operator within a value that is compared without an operator. */
function operatorWithin(value: Json, path: Path, depth = 0): Path | undefined {
  if (typeof value !== 'object' || value === null || depth > valueDepthMax) return undefined;
  for (const [name, field] of Object.entries(value)) {
    if (name.startsWith('$')) return [...path, name];
    const found = operatorWithin(field, [...path, name], depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function deeper(path: Path, depth: number): number {
  if (depth < depthMax) return depth + 1;
  throw new InvalidCondition(path, `More than ${depthMax} levels of $and, $or and $not`);
}

function listOf(operand: Json, path: Path): readonly Json[] {
  if (isArray(operand)) return operand;
  throw new InvalidCondition(path, `Expected an array of values but found ${typeOf(operand)}`);
}

function textOf(operand: Json, path: Path): string {
  if (typeof operand === 'string') return checkedText(operand, path);
  throw new InvalidCondition(path, `Expected a string but found ${typeOf(operand)}`);
}

function comparable(operand: Json, path: Path): string | number {
  if (typeof operand === 'string') return checkedText(operand, path);
  if (typeof operand === 'number') return checkedNumber(operand, path);
  throw new InvalidCondition(path, `Expected a number or a string but found ${typeOf(operand)}`);
}

/** Returns a value to compare with. Throws when no value that is read can equal it. */
function checked(value: Json, path: Path, depth = 0): Json {
  if (typeof value === 'string') return checkedText(value, path);
  if (typeof value === 'number') return checkedNumber(value, path);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === valueDepthMax) {
    throw new InvalidCondition(path, `More than ${valueDepthMax} levels of arrays and objects`);
  }
  if (isArray(value) && value.length > elementsRead) {
    const reason = `${value.length} elements: arrays are read up to ${elementsRead}`;
    throw new InvalidCondition(path, reason);
  }
  for (const [name, field] of Object.entries(value)) {
    checked(field, [...path, name], depth + 1);
  }
  return value;
}

function checkedText(text: string, path: Path): string {
  if (text.length <= charactersRead) return text;
  const reason = `${text.length} characters: strings are read up to ${charactersRead}`;
  throw new InvalidCondition(path, reason);
}

function checkedNumber(value: number, path: Path): number {
  if (Number.isFinite(value)) return value;
  throw new InvalidCondition(path, 'A number too large to be compared');
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (isArray(value as Json)) return (value as Json[]).length === 0 ? 'an empty array' : 'an array';
  if (value === undefined) return 'nothing';
  return isObject(value) ? 'an object' : `a ${typeof value}`;
}
