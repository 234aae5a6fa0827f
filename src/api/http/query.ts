import type { TSchema } from '../../schemas/schema.ts';
import type { Schema } from './violation.ts';

/**
 * Parses the parameters of a query string. Those that the schema does not have are ignored, unless
 * `keepsUnknown`. Values of an integer or boolean schema are converted where possible; the schema then
 * rejects the rest. A repeated parameter becomes an array.
 */
export function parseQuery(
  schema: TSchema,
  text: string,
  { keepsUnknown = false }: { readonly keepsUnknown?: boolean } = {},
): Record<string, unknown> {
  const { properties = {} }: Schema = schema;
  const query = new Map<string, unknown>();
  for (const [name, sent] of new URLSearchParams(text)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (known === undefined && !keepsUnknown) continue;
    const parameter = known ?? {};
    const isList = parameter.type === 'array';
    const value = convert(isList ? (parameter.items ?? {}) : parameter, sent);
    const before = query.get(name);
    if (Array.isArray(before)) before.push(value);
    else if (before !== undefined) query.set(name, [before, value]);
    else query.set(name, isList ? [value] : value);
  }
  return Object.fromEntries(query);
}

/** A query string as sent. */
export interface QueryText {
  readonly text: string;
}

/** Returns what follows the first `?`. For the router, what follows a `#` is a query, too. */
export function queryOf(url: string): QueryText {
  const at = url.indexOf('?');
  return { text: at === -1 ? '' : url.slice(at + 1) };
}

function convert({ type }: Schema, text: string): string | number | boolean {
  if (type === 'integer' && /^-?(?:0|[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}
