import { readFileSync } from 'node:fs';

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly requestBody?: Body;
  readonly responses: Readonly<Record<string, Body>>;
}

interface Body {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly additionalProperties?: Schema | boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** Returns entries for the operations, parameters, responses, fields and fixed values of `docs/openapi.json`. */
export function apiEntries(): string[] {
  const { paths, components } = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as Document;
  return [
    ...Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).flatMap(([method, operation]) =>
        operationEntries(`${method.toUpperCase()} ${path}`, operation),
      ),
    ),
    ...Object.entries(components.schemas).flatMap(([name, schema]) => fieldEntries(name, schema)),
  ];
}

function operationEntries(name: string, operation: Operation): string[] {
  const { operationId, parameters = [], requestBody, responses } = operation;
  const bodies = Object.entries({ ...responses, body: requestBody ?? {} });
  return [
    `operation: ${name} (${operationId})`,
    ...parameters.map((parameter) => `parameter: ${name} ${parameter.in} ${parameter.name}`),
    ...Object.keys(responses).map((status) => `response: ${name} ${status}`),
    ...bodies.flatMap(([part, { content = {} }]) =>
      Object.entries(content).flatMap(([type, { schema }]) => [
        `content: ${name} ${part} ${type}`,
        ...fieldEntries(`${name} ${part}`, schema),
      ]),
    ),
  ];
}

/** Returns an entry for each field and each fixed value in a schema; the alternatives of one are united. */
function fieldEntries(name: string, schema: Schema): string[] {
  const entries = new Set([`schema: ${name}`]);
  const collect = (path: string, part: Schema): void => {
    for (const [field, each] of Object.entries(part.properties ?? {})) {
      entries.add(`schema: ${path}.${field}`);
      collect(`${path}.${field}`, each);
    }
    const values = part.const === undefined ? (part.enum ?? []) : [part.const];
    for (const value of values) entries.add(`schema: ${path} = ${JSON.stringify(value)}`);
    if (part.items !== undefined) collect(`${path}[]`, part.items);
    if (typeof part.additionalProperties === 'object')
      collect(`${path}.*`, part.additionalProperties);
    for (const each of [part.anyOf, part.oneOf, part.allOf]) {
      for (const alternative of each ?? []) collect(path, alternative);
    }
  };
  collect(name, schema);
  return [...entries];
}
