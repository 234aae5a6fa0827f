import { quoted } from './problem.ts';

/** The first error of a value (docs/http-api.md#validation-messages). */
export interface Violation {
  readonly reason: string;
  /** Names from the root, joined by dots; empty for the root itself. */
  readonly property: string;
  /** Description of the property in its schema. */
  readonly description: string;
}

/** A JSON Schema as plain data, with the keywords that the schemas of Leat use. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[] | undefined;
  readonly additionalProperties?: boolean | Schema;
  /** Of an object with any names: one pattern that every name fits. */
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  /** Only as a schema that no value fits. */
  readonly not?: object;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  /** Name of the pattern. */
  readonly format?: string;
  /** A secret: its value is never repeated. */
  readonly writeOnly?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;
}

/**
 * Explains why a value does not fit a schema; returns `undefined` when it finds nothing. The compiled
 * validator decides; this function is called for values that it has rejected.
 */
export function firstViolation(
  schema: Schema,
  value: unknown,
  property = '',
): Violation | undefined {
  if (schema.anyOf !== undefined) {
    return anyOfViolation(schema, schema.anyOf, value, property);
  }
  const reason = ownViolation(schema, value);
  if (reason !== undefined) return { reason, property, description: describe(schema) };
  if (Array.isArray(value)) return itemViolation(schema, value, property);
  return isObject(value) ? fieldViolation(schema, value, property) : undefined;
}

/** Returns what is wrong with the value itself, without its parts. */
function ownViolation(schema: Schema, value: unknown): string | undefined {
  const { not } = schema;
  if (not !== undefined && ownViolation(not, value) === undefined) return 'Not supported';
  if (schema.type !== undefined && !hasType(value, schema.type)) {
    return `Expected type ${schema.type} but found type ${typeOf(value)}`;
  }
  const values = schema.enum ?? ('const' in schema ? [schema.const] : undefined);
  if (values !== undefined && !values.includes(value)) return enumViolation(value, values);
  if (typeof value === 'string') return textViolation(schema, value);
  if (typeof value === 'number') return numberViolation(schema, value);
  if (Array.isArray(value)) return listViolation(schema, value);
  return undefined;
}

function textViolation(schema: Schema, value: string): string | undefined {
  const { minLength = 0, maxLength = Infinity, pattern } = schema;
  // Characters, not UTF-16 units; in a text that is far too long they are not counted.
  const length = value.length > 2 * maxLength ? value.length : Array.from(value).length;
  if (pattern !== undefined && schema.format !== undefined && !matches(value, schema)) {
    return formatViolation(schema.format, value);
  }
  if (length < minLength) return `String is too short (${length} chars), minimum ${minLength}`;
  if (length > maxLength) return `String is too long (${length} chars), maximum ${maxLength}`;
  if (matches(value, schema)) return undefined;
  const shown = schema.writeOnly === true ? '' : `: ${quoted(value)}`;
  return `String does not match pattern ${pattern ?? ''}${shown}`;
}

/** Returns the reason of a 400 for a text that does not have a format, and how to write one. */
export function formatViolation(format: string, text: string): string {
  const way = ways[format];
  const reason = `Object didn't pass validation for format ${format}: ${quoted(text)}`;
  return way === undefined ? reason : `${reason}; ${way}`;
}

/** Ids of Leat and e-mail addresses need no example. */
const ways: Readonly<Record<string, string>> = {
  'date-time': 'write it such as 2026-03-01T09:30:00Z',
  offset: 'send one of a response, such as MDAwMDAwMDAwMDQyLmNmZDhiMDRh',
  cursor: 'send the next of the page before',
  'event-type': 'write it such as order.paid',
  'error-code': 'write it such as timeout, http_503 or http_5xx',
  scope: 'write it such as read:orders',
  'api-identifier': 'write it such as https://api.example.com/orders',
  'https-url': 'write it such as https://hooks.example.com/events',
  'phone-number': 'write it such as +4930901820',
  picture: 'write it such as https://cdn.example.com/ada.png',
};

/** Returns the reason of a 400 for a value that is none of a few. */
export function enumViolation(value: unknown, values: readonly unknown[]): string {
  return `No enum match for: ${show(value)}; allowed: ${values.map((each) => show(each)).join(', ')}`;
}

function matches(value: string, { pattern }: Schema): boolean {
  return pattern === undefined || new RegExp(pattern, 'u').test(value);
}

function numberViolation(
  { minimum = -Infinity, maximum = Infinity }: Schema,
  value: number,
): string | undefined {
  if (value < minimum) return `Value ${value} is less than minimum ${minimum}`;
  if (value > maximum) return `Value ${value} is greater than maximum ${maximum}`;
  return undefined;
}

function listViolation(schema: Schema, value: readonly unknown[]): string | undefined {
  const { minItems = 0, maxItems = Infinity } = schema;
  const { length } = value;
  if (length < minItems) return `Array is too short (${length}), minimum ${minItems}`;
  if (length > maxItems) return `Array is too long (${length}), maximum ${maxItems}`;
  if (schema.uniqueItems === true && new Set(value.map((item) => show(item))).size < length) {
    return 'Array items are not unique';
  }
  return undefined;
}

function itemViolation(
  { items }: Schema,
  value: readonly unknown[],
  property: string,
): Violation | undefined {
  if (items === undefined) return undefined;
  for (const [index, item] of value.entries()) {
    const violation = firstViolation(items, item, join(property, String(index)));
    if (violation !== undefined) return violation;
  }
  return undefined;
}

function fieldViolation(
  schema: Schema,
  value: Readonly<Record<string, unknown>>,
  property: string,
): Violation | undefined {
  const { properties = {}, required = [], additionalProperties, patternProperties = {} } = schema;
  const [ofAnyName] = Object.values(patternProperties);
  const known = (name: string): Schema | undefined =>
    Object.hasOwn(properties, name) ? properties[name] : undefined;
  const missing = required.find((name) => !Object.hasOwn(value, name));
  if (missing !== undefined) {
    const reason = `Missing required property: ${missing}`;
    const description = describe(known(missing) ?? {});
    return { reason, property: join(property, missing), description };
  }
  for (const [name, field] of Object.entries(value)) {
    const of =
      known(name) ??
      ofAnyName ??
      (typeof additionalProperties === 'object' ? additionalProperties : undefined);
    if (of === undefined && additionalProperties === false) {
      const reason = `Additional properties not allowed: ${quoted(name)}`;
      return { reason, property: join(property, name), description: 'Unknown member' };
    }
    const violation = of && firstViolation(of, field, join(property, name));
    if (violation !== undefined) return violation;
  }
  return countViolation(schema, value, property);
}

function countViolation(schema: Schema, value: object, property: string): Violation | undefined {
  const { minProperties = 0, maxProperties = Infinity } = schema;
  const count = Object.keys(value).length;
  const description = describe(schema);
  if (count < minProperties) {
    return {
      reason: `Too few properties (${count}), minimum ${minProperties}`,
      property,
      description,
    };
  }
  if (count > maxProperties) {
    return {
      reason: `Too many properties (${count}), maximum ${maxProperties}`,
      property,
      description,
    };
  }
  return undefined;
}

/**
 * Explains a value by the one of several schemas that it was meant for: of its type, and with its
 * constant where the schemas differ by one (a `method`, a `type`).
 */
function anyOfViolation(
  schema: Schema,
  branches: readonly Schema[],
  value: unknown,
  property: string,
): Violation | undefined {
  const typed = branches.filter(
    (branch) => branch.type === undefined || hasType(value, branch.type),
  );
  if (typed.length === 0) {
    const types = [...new Set(branches.map((branch) => branch.type))].join(',');
    const reason = `Expected type ${types} but found type ${typeOf(value)}`;
    return { reason, property, description: describe(schema) };
  }
  const tag = isObject(value) ? tagOf(typed) : undefined;
  if (tag !== undefined && isObject(value)) {
    return tagViolation(typed, tag, value, property);
  }
  const violations = typed.map((branch) => firstViolation(branch, value, property));
  if (violations.includes(undefined)) return undefined;
  if (typed.every((branch) => 'const' in branch)) {
    const reason = enumViolation(
      value,
      typed.map((branch) => branch.const),
    );
    return { reason, property, description: describe(schema) };
  }
  return violations[0];
}

function tagViolation(
  branches: readonly Schema[],
  tag: string,
  value: Readonly<Record<string, unknown>>,
  property: string,
): Violation | undefined {
  const sent = Object.hasOwn(value, tag) ? value[tag] : undefined;
  const meant = branches.find((branch) => branch.properties?.[tag]?.const === sent);
  if (meant !== undefined) return firstViolation(meant, value, property);
  const description = describe(branches[0]?.properties?.[tag] ?? {});
  const at = join(property, tag);
  const reason = Object.hasOwn(value, tag)
    ? enumViolation(
        sent,
        branches.map((branch) => branch.properties?.[tag]?.const),
      )
    : `Missing required property: ${tag}`;
  return { reason, property: at, description };
}

/** Returns the name of the field that is a constant in every branch. */
function tagOf(branches: readonly Schema[]): string | undefined {
  const [first] = branches;
  return Object.keys(first?.properties ?? {}).find((name) =>
    branches.every((branch) => branch.properties?.[name]?.const !== undefined),
  );
}

function describe({ description }: Schema): string {
  return description ?? 'no description';
}

function join(property: string, name: string): string {
  return property === '' ? name : `${property}.${name}`;
}

function show(value: unknown): string {
  return quoted(typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined'));
}

function hasType(value: unknown, type: string): boolean {
  const found = typeOf(value);
  return found === type || (type === 'number' && found === 'integer');
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (Number.isInteger(value)) return 'integer';
  return typeof value;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
