import { describedOperations } from '../../src/api/operations.ts';
import type { Operation } from '../../src/api/operation.ts';
import type { Prng } from '../simulation/prng.ts';

/** A request as it is sent. */
export interface RandomRequest {
  readonly operationId: string;
  readonly method: string;
  /** The whole target. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
}

/** What the generator reads of a JSON schema. */
interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly format?: string;
  readonly examples?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly description?: string;
}

/** Values that were seen in responses, by the first segment of the path and by the name of the field. */
export type Seen = Map<string, string[]>;

const rawNumbers = [
  '1e400',
  '-0',
  '1.0',
  '12345678901234567890',
  '1E2',
  '9007199254740993',
  '0.1e1',
];
const oddTexts = [
  '',
  ' ',
  ' x',
  'x ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  'a\udc00b',
  'é',
  'e\u0301',
  'İ',
  'ß',
  '😀',
  '\u202e',
  "'; drop table users; --",
  '%',
  '_',
  '\\',
  '"',
  '{}',
  '[]',
  'null',
  '__proto__',
  'constructor',
  '*',
  '0',
  '-1',
  '1e3',
  'x'.repeat(255),
  'ü'.repeat(256),
  'x'.repeat(5000),
];
const oddValues: readonly unknown[] = [
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53,
  true,
  false,
  null,
  [],
  {},
  [[]],
  { a: null },
];
const times = [
  '2026-03-01T09:30:00Z',
  '2026-03-01T09:30:00.123456789+01:00',
  '2020-01-01T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
  '2026-02-30T00:00:00Z',
];
const words = [
  'a',
  'b',
  'crm',
  'Crm',
  'order.paid',
  'user.created',
  'read:orders',
  'https://a.example/hook',
];
const mediaTypes = [
  'application/json',
  'application/json; charset=utf-8',
  'application/json; charset=latin1',
  'APPLICATION/JSON',
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/cloudevents+json',
  'application/cloudevents-batch+json',
  'application/problem+json',
  '',
];

/** The requests besides the operations: documents, and what no operation has. */
const otherPaths = [
  '/.well-known/jwks.json',
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
  '/oauth/token',
  '/readyz',
  '/healthz',
  '/nothing',
  '/api/v2',
  '/api/v2/nothing',
  '/docs',
];

/** Creates the generator of requests to all operations; `seen` is what responses had. */
export function createRandomRequests(prng: Prng, token: string, seen: Seen): () => RandomRequest {
  const operations = describedOperations();
  // What creates things comes more often than what deletes them.
  const weights = { POST: 3, GET: 2, PATCH: 2, PUT: 2, DELETE: 1 };
  const weighted = operations.flatMap((each) => Array<Operation>(weights[each.method]).fill(each));
  return () => {
    if (prng.chance(0.02)) return otherRequest(prng);
    const operation = prng.pick(weighted as [Operation]);
    const oddness = prng.chance(0.6) ? 0 : 0.04;
    return requestOf({ prng, seen, oddness, group: groupOf(operation.path) }, operation, token);
  };
}

/** Returns the first segment of a path. */
export function groupOf(path: string): string {
  return path.split('/')[1] ?? '';
}

function otherRequest(prng: Prng): RandomRequest {
  const path = prng.pick(['/', ...otherPaths]);
  const method = prng.pick(['GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS']);
  const isForm = method === 'POST';
  const parameters = new URLSearchParams({ grant_type: 'client_credentials' });
  for (const name of prng.some(['client_id', 'client_secret', 'audience', 'scope', 'assertion']))
    parameters.set(name, prng.pick(['x', ...oddTexts]));
  return {
    operationId: path,
    method,
    path,
    headers: isForm ? { 'content-type': 'application/x-www-form-urlencoded' } : {},
    body: isForm ? Buffer.from(parameters.toString()) : undefined,
  };
}

interface Context {
  readonly prng: Prng;
  readonly seen: Seen;
  readonly group: string;
  /** The share of values that are odd; 0 in most requests, so that many of them succeed. */
  readonly oddness: number;
}

function requestOf(context: Context, operation: Operation, token: string): RandomRequest {
  const { prng } = context;
  const { operationId, method, path, query, body: rule } = operation;
  const target = path.replaceAll(/:[a-z_]+/g, () => segment(context));
  const headers: Record<string, string> = {};
  if (prng.chance(0.98)) headers['authorization'] = `Bearer ${prng.chance(0.99) ? token : 'x'}`;
  let body: Buffer | undefined;
  if (rule !== undefined ? prng.chance(0.97) : prng.chance(0.05)) {
    const types = ['application/json', ...Object.keys(rule?.mediaTypes ?? {})] as [string];
    const mediaType = prng.chance(0.95) ? prng.pick(types) : prng.pick(['', ...mediaTypes]);
    const schema = rule?.mediaTypes?.[mediaType] ?? rule?.schema ?? {};
    if (mediaType !== '') headers['content-type'] = mediaType;
    body = bodyOf(context, schema);
  }
  return { operationId, method, path: `/api/v2${target}${queryOf(context, query)}`, headers, body };
}

/** Where the values of a field are found that names something else. */
const groupsOfFields: readonly [name: RegExp, group: string][] = [
  [/^(?:audience|identifier|resource_server_identifier)$/, 'resource-servers'],
  [/^(?:client_id|clients)$/, 'clients'],
  [/^(?:user_id|users)$/, 'users'],
  [/^event_ids?$/, 'events'],
  [/^(?:event_stream_ids?|stream)$/, 'event-streams'],
];

function segment(context: Context): string {
  const { prng, oddness } = context;
  if (prng.chance(1 - 4 * oddness)) return encoded(seenText(context) ?? 'x');
  return prng.pick(
    ['%00', 'a%00', '%ff', '%2f', 'a b', '..', '%', encoded(prng.pick(['x', ...oddTexts]))].filter(
      (text) => !/[\s\0]/.test(text),
    ) as [string],
  );
}

/** Returns a value that the responses of these paths had, sometimes of others. */
function seenText({ prng, seen, group }: Context): string | undefined {
  const all = seen.get(group) ?? [];
  // The paths of event streams return ids of other things, too.
  const streams = group === 'event-streams' ? all.filter((id) => id.startsWith('est_')) : all;
  const own = prng.chance(0.9) ? streams : all;
  const values = own.length > 0 && prng.chance(0.95) ? own : [...seen.values()].flat();
  return values.length === 0 ? undefined : values[prng.between(0, values.length - 1)];
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function queryOf(context: Context, schema: Schema | undefined): string {
  const { prng, oddness } = context;
  const parts: string[] = [];
  for (const [name, each] of Object.entries(schema?.properties ?? {})) {
    if (isUnsupported(each) && prng.chance(1 - oddness)) continue;
    const isThere =
      schema?.required?.includes(name) === true ? prng.chance(0.95) : prng.chance(0.15);
    if (!isThere) continue;
    const value =
      each.type === 'array'
        ? valueOf(context, each.items ?? {}, name)
        : valueOf(context, each, name);
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    parts.push(`${name}=${encoded(text)}`);
    if (prng.chance(oddness)) parts.push(`${name}=${encoded(text)}`);
  }
  if (prng.chance(oddness * 2))
    parts.push(prng.pick(['unknown=1', 'x', '%00=1', '=', 'from=%00', '__proto__=1', 'take=%2B1']));
  return parts.length === 0 ? '' : `?${parts.join('&')}`;
}

function bodyOf(context: Context, schema: Schema): Buffer {
  const { prng, oddness } = context;
  let text = JSON.stringify(valueOf(context, schema, '')) ?? '';
  if (prng.chance(oddness)) text = text.replace('{', '{"name":"x","name":"y",');
  if (prng.chance(oddness))
    text = text.replace(/:(?:"[^"]*"|\d+)/, `:${prng.pick(['1', ...rawNumbers])}`);
  if (prng.chance(oddness / 2)) text = text.slice(0, -1);
  if (prng.chance(oddness / 2)) text = `\ufeff${text}`;
  if (prng.chance(oddness / 2)) text = `${'['.repeat(150)}${']'.repeat(150)}`;
  const bytes = Buffer.from(text);
  if (prng.chance(oddness / 2)) bytes[prng.between(0, Math.max(0, bytes.length - 1))] = 0xff;
  return bytes;
}

function valueOf(context: Context, schema: Schema, name: string): unknown {
  const { prng, oddness } = context;
  if (prng.chance(oddness)) return prng.pick(['x', ...oddTexts]);
  if (prng.chance(oddness / 2)) return prng.pick([null, ...oddValues]);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return prng.pick(schema.enum as [unknown]);
  if (schema.anyOf !== undefined)
    return valueOf(context, prng.pick(schema.anyOf as [Schema]), name);
  const { type = '' } = schema;
  switch (type) {
    case 'object':
      return objectOf(context, schema);
    case 'array':
      return Array.from({ length: prng.between(schema.minItems ?? 0, 2) }, () =>
        valueOf(context, schema.items ?? {}, name),
      );
    case 'integer':
    case 'number':
      return prng.between(schema.minimum ?? 0, Math.min(schema.maximum ?? 100, 1000));
    case 'boolean':
      return prng.chance(0.5);
    case 'null':
      return null;
    case 'string':
      return textOf(context, schema, name);
    default:
      return { object: { n: prng.between(0, 3) } };
  }
}

/** Returns whether every value of a field is refused. */
function isUnsupported({ description = '' }: Schema): boolean {
  return /^(?:Refused|Not supported|Leat |Certificate )/.test(description);
}

function objectOf(context: Context, { properties = {}, required = [] }: Schema): object {
  const { prng, oddness } = context;
  const value: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(properties)) {
    if (isUnsupported(each) && prng.chance(1 - oddness)) continue;
    const isThere = required.includes(name) ? prng.chance(1 - oddness) : prng.chance(0.3);
    if (isThere) value[name] = valueOf(context, each, name);
  }
  if (prng.chance(oddness)) value[prng.pick(['unknown', '__proto__', '', 'a.b', '\u0000'])] = 1;
  return value;
}

function textOf(context: Context, schema: Schema, name: string): string {
  const { prng } = context;
  const { examples = [], description = '' } = schema;
  if (description.includes('RFC 3339')) return prng.pick(['now', ...times]);
  const [, group] = groupsOfFields.find(([pattern]) => pattern.test(name)) ?? [];
  if (group !== undefined && prng.chance(0.8)) return seenText({ ...context, group }) ?? 'x';
  if (/(?:^|_)(?:id|from)$/.test(name) && prng.chance(0.7)) return seenText(context) ?? 'x';
  if (name === 'connection') return 'Username-Password-Authentication';
  if (name === 'name' || name === 'identifier')
    return `${prng.pick(['x', ...words])} ${prng.between(0, 50)}`;
  if (name === 'email')
    return prng.pick(['a@example.com', 'A@example.com', 'ü@exämple.com', 'b@example.com.']);
  if (name === 'password') return prng.pick(['short', 'a long word and 4711']);
  if (name.includes('endpoint')) return prng.pick(['https://a.example/hook', 'https://b.example/']);
  const [example] = examples;
  if (typeof example === 'string' && prng.chance(0.6)) return example;
  return prng.pick(['x', ...words]);
}
