import type { TSchema } from '../../schemas/schema.ts';
import type { Schema } from './violation.ts';

/**
 * Parses the parameters of a query string that the schema has; others are ignored. Values of an
 * integer or boolean schema are converted where possible; the schema then rejects the rest. A repeated
 * parameter becomes an array.
 */
export function parseQuery(schema: TSchema, text: string): Record<string, unknown> {
  const { properties = {} }: Schema = schema;
  const query: Record<string, unknown> = {};
  if (text === '') return query;
  for (const [name, sent] of new URLSearchParams(text)) {
    const parameter = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (parameter === undefined) continue;
    const isList = parameter.type === 'array';
    const value = convert(isList ? (parameter.items ?? {}) : parameter, sent);
    const before = query[name];
    if (Array.isArray(before)) before.push(value);
    else if (before !== undefined) query[name] = [before, value];
    else query[name] = isList ? [value] : value;
  }
  return query;
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
