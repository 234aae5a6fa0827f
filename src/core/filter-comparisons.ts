import { type Json, readText, someElement, ValueSet, type Work } from './filter-values.ts';

/**
 * Tests the value of a field, `undefined` when it is missing: then every test is false. A test takes
 * some milliseconds at most, whatever the value is, and takes its work off `work`.
 */
export type Comparison = (value: Json | undefined, work: Work) => boolean;

export const exists: Comparison = (value) => value !== undefined;

/** Returns the test whether the value, or an element of it, equals one of `values`. */
export function equalsOneOf(values: readonly Json[]): Comparison {
  const set = new ValueSet(values);
  const isOne = (value: Json | undefined, work: Work): boolean => set.has(value, work);
  return (value, work) => isOne(value, work) || someElement(value, work, isOne);
}

/** Returns the test whether `operand` is a substring or an element of the value. */
export function contains(operand: Json): Comparison {
  const set = new ValueSet([operand]);
  return (value, work) => {
    if (typeof value !== 'string') {
      return someElement(value, work, (element, left) => set.has(element, left));
    }
    if (typeof operand !== 'string') return false;
    const text = readText(value);
    // At worst the engine searches in quadratic time.
    work.left -= (text.length * operand.length) / 128;
    return text.includes(operand);
  };
}

/** The comparisons by order. */
export type OrderName = '$gt' | '$gte' | '$lt' | '$lte';

/**
 * Returns the test whether the value, or an element of it, has this order to `operand` and its type.
 * Strings are ordered by their UTF-16 code units.
 */
export function ordered(name: OrderName, operand: string | number): Comparison {
  const holds = orders[name];
  return scalarOrElement(operand, (value) => {
    if (typeof value === 'string' && typeof operand === 'string') {
      return holds(readText(value), operand);
    }
    return typeof value === 'number' && typeof operand === 'number' && holds(value, operand);
  });
}

const orders: Readonly<
  Record<OrderName, <T extends string | number>(one: T, other: T) => boolean>
> = {
  $gt: (one, other) => one > other,
  $gte: (one, other) => one >= other,
  $lt: (one, other) => one < other,
  $lte: (one, other) => one <= other,
};

/** Returns the test whether the value, or an element of it, begins with `operand`. */
export function startsWith(operand: string): Comparison {
  return scalarOrElement(
    operand,
    (value) => typeof value === 'string' && value.startsWith(operand),
  );
}

/** Returns the test whether the value as far as it is read, or an element of it, ends with it. */
export function endsWith(operand: string): Comparison {
  return scalarOrElement(
    operand,
    (value) => typeof value === 'string' && readText(value).endsWith(operand),
  );
}

function scalarOrElement(operand: string | number, test: (value: Json) => boolean): Comparison {
  const tested = (value: Json, work: Work): boolean => {
    // Texts that differ at the end only are compared character by character, some 3 ns for each.
    if (typeof value === 'string' && typeof operand === 'string') {
      work.left -= Math.min(value.length, operand.length) / 3;
    }
    return test(value);
  };
  return (value, work) =>
    value !== undefined && (tested(value, work) || someElement(value, work, tested));
}
