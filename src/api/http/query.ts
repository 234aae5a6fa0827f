import type { TSchema } from '../../schemas/schema.ts';
import { badQuery, nulReason, type Problem, quoted } from './problem.ts';
import type { Schema } from './violation.ts';

/**
 * Parses the parameters of a query string. Values of an integer or boolean schema are converted where
 * possible; the schema then rejects the rest. A repeated parameter becomes an array. Throws 400 for a
 * parameter that the schema does not have.
 */
export function parseQuery(schema: TSchema, text: string): Record<string, unknown> {
  const { properties = {} }: Schema = schema;
  const query = new Map<string, unknown>();
  for (const [name, sent] of new URLSearchParams(text)) {
    const parameter = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (parameter === undefined) throw unknownParameter(name, properties);
    if (sent.includes('\0')) throw badQuery(nulReason, name, parameter.description ?? '');
    const isList = parameter.type === 'array';
    const value = convert(isList ? (parameter.items ?? {}) : parameter, sent);
    const before = query.get(name);
    if (Array.isArray(before)) before.push(value);
    else if (before !== undefined) query.set(name, [before, value]);
    else query.set(name, isList ? [value] : value);
  }
  return Object.fromEntries(query);
}

/** The value is left out: it may be a secret that was sent to the wrong place. */
function unknownParameter(name: string, properties: Readonly<Record<string, Schema>>): Problem {
  const known = Object.keys(properties).filter((each) => properties[each]?.not === undefined);
  const way =
    known.length === 0
      ? 'the operation has no query parameters'
      : `the operation has ${known.join(', ')}`;
  return badQuery(`Unknown query parameter: ${quoted(name)}`, name, way);
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
