import type { TSchema } from '../../schemas/schema.ts';
import type { Schema } from './violation.ts';

/**
 * The listed parameters of a query string. Those of an integer or boolean schema are converted when
 * they can be, so that the schema judges what is left; one that is repeated becomes an array.
 * Parameters that are not listed are ignored.
 */
export function parseQuery(schema: TSchema, text: string): Record<string, unknown> {
  const { properties = {} }: Schema = schema;
  const query: Record<string, unknown> = {};
  if (text === '') return query;
  for (const [name, sent] of new URLSearchParams(text)) {
    const member = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (member === undefined) continue;
    const value = convert(member.type === 'array' ? (member.items ?? {}) : member, sent);
    const before = query[name];
    if (Array.isArray(before)) before.push(value);
    else if (before !== undefined) query[name] = [before, value];
    else query[name] = member.type === 'array' ? [value] : value;
  }
  return query;
}

/** A query string as sent. */
export interface QueryText {
  readonly text: string;
}

function convert({ type }: Schema, text: string): string | number | boolean {
  if (type === 'integer' && /^-?(?:0|[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}
