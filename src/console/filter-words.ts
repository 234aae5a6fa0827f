/** A condition over the envelope of an event, see docs/http-api.md#filters. */
export type Condition = Readonly<Record<string, unknown>>;

/** Returns a filter in words, one text for each part that must hold. */
export function filterWords(condition: Condition): string[] {
  return Object.entries(condition).flatMap(([name, operand]) => partWords(name, operand));
}

function partWords(name: string, operand: unknown): string[] {
  if (name === '$and' && isList(operand)) return operand.flatMap(wordsOf);
  if (name === '$or' && isList(operand)) {
    return [`one of: ${operand.map((part) => `(${wordsOf(part).join(' and ')})`).join(' or ')}`];
  }
  if (name === '$not') return [`not (${wordsOf(operand).join(' and ')})`];
  if (!hasOperators(operand)) return [`${name} is ${valueWords(operand)}`];
  return Object.entries(operand).map(([operator, value]) => comparisonWords(name, operator, value));
}

function wordsOf(condition: unknown): string[] {
  return isObject(condition) ? filterWords(condition) : [valueWords(condition)];
}

function comparisonWords(name: string, operator: string, value: unknown): string {
  if (operator === '$exists') return `${name} ${value === false ? 'does not exist' : 'exists'}`;
  if (operator === '$not') return `not (${partWords(name, value).join(' and ')})`;
  const words = operatorWords[operator] ?? operator;
  return `${name} ${words} ${isList(value) ? value.map(valueWords).join(', ') : valueWords(value)}`;
}

/** The words between a field and its value. */
const operatorWords: Readonly<Record<string, string>> = {
  $eq: 'is',
  $ne: 'is not',
  $gt: 'is greater than',
  $gte: 'is at least',
  $lt: 'is less than',
  $lte: 'is at most',
  $in: 'is one of',
  $nin: 'is none of',
  $startsWith: 'starts with',
  $endsWith: 'ends with',
  $contains: 'contains',
};

function valueWords(value: unknown): string {
  return typeof value === 'string' ? `“${value}”` : JSON.stringify(value);
}

/** Returns whether an operand has operators rather than being a value to be equal to. */
function hasOperators(operand: unknown): operand is Readonly<Record<string, unknown>> {
  return isObject(operand) && Object.keys(operand).some((name) => name.startsWith('$'));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value);
}
