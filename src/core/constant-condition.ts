import { fieldNames } from './field-path.ts';
import { isArray, isObject, type Json } from './filter-values.ts';

/** Whether a condition holds for every event or for none, else a text that equal conditions share. */
type Folded = boolean | string;

/**
 * Returns whether every event matches a condition, as far as its form and the attributes that every event has
 * show it: `{}`, empty lists, `{"specversion": "1.0"}`, `{"type": {"$exists": true}}`, a condition or its
 * opposite, and combinations of these. Anything that is no condition matches nothing.
 */
export function matchesEveryEvent(condition: Json): boolean {
  return folded(condition) === true;
}

function folded(condition: Json): Folded {
  if (!isObject(condition)) return false;
  return all(
    Object.entries(condition).map(([name, operand]) => {
      if (name === '$not') return not(folded(operand));
      if (!name.startsWith('$')) return onField(name, operand);
      const parts = isArray(operand) ? operand.map(folded) : [false];
      return name === '$or' ? not(all(parts.map(not))) : name === '$and' && all(parts);
    }),
  );
}

function onField(path: string, operand: Json): Folded {
  const names = fieldNames(path) ?? [path];
  const isOperators =
    isObject(operand) && Object.keys(operand).some((name) => name.startsWith('$'));
  return isOperators ? byOperators(names, operand) : isOneOf(names, [operand]);
}

type Names = readonly string[];

function byOperators(names: Names, operators: { readonly [name: string]: Json }): Folded {
  return all(
    Object.entries(operators).map(([name, operand]) => {
      switch (name) {
        case '$eq':
          return isOneOf(names, [operand]);
        case '$ne':
          return not(isOneOf(names, [operand]));
        case '$in':
          return isArray(operand) && isOneOf(names, operand);
        case '$nin':
          return isArray(operand) && not(isOneOf(names, operand));
        case '$exists':
          return operand === true ? exists(names) : not(exists(names));
        case '$not':
          return isObject(operand) && not(byOperators(names, operand));
        default:
          return exists(names) && JSON.stringify([names, name, operand]);
      }
    }),
  );
}

/** Attributes that every event has, all of them strings but `data`. */
const texts: ReadonlySet<unknown> = new Set(['id', 'source', 'specversion', 'type', 'time']);

function exists(names: Names): Folded {
  if (texts.has(names[0])) return names.length === 1;
  return (names.length === 1 && names[0] === 'data') || JSON.stringify([names, '$exists']);
}

function isOneOf(names: Names, values: readonly Json[]): Folded {
  const [name] = names;
  const possible = values.filter((value) => canEqual(names, value));
  if (possible.length === 0) return false;
  if (name === 'specversion') return true;
  return JSON.stringify([names, '$in', possible]);
}

function canEqual(names: Names, value: Json): boolean {
  const [name] = names;
  if (names.length > 1) return !texts.has(name);
  if (name === 'specversion') return value === '1.0';
  if (name === 'data') return isObject(value);
  return typeof value === 'string' || !texts.has(name);
}

function not(part: Folded): Folded {
  return typeof part === 'boolean' ? !part : opposite(part);
}

function opposite(part: string): string {
  return part.startsWith('!') ? part.slice(1) : `!${part}`;
}

function all(parts: readonly Folded[]): Folded {
  const open = new Set(parts.filter((part) => typeof part === 'string'));
  if (parts.includes(false) || [...open].some((part) => open.has(opposite(part)))) return false;
  const [only = true, ...others] = open;
  return others.length === 0 ? only : `(${[...open].toSorted().join('&')})`;
}
