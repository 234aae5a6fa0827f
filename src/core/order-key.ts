import { hash } from 'node:crypto';
import { isArray, isObject, type Json } from './filter-values.ts';

/**
 * Returns a hash of the value at the tokens of `order_by`, by type and value; `undefined` for an
 * event that is unordered: without the value, or with null, an array or an object there. Without
 * tokens all events have the same key.
 */
export function orderKeyOf(envelope: Json, tokens: readonly string[]): string | undefined {
  if (tokens.length === 0) return wholeStream;
  const value = tokens.reduce<Json | undefined>(memberOf, envelope);
  if (value === undefined || value === null || typeof value === 'object') return undefined;
  return hashOf(JSON.stringify(value));
}

const wholeStream = hashOf('');

/** 128 bits: keys of a stream never meet, and the value cannot be read from a row. */
function hashOf(text: string): string {
  return hash('sha256', text, 'buffer').toString('base64url', 0, 16);
}

/** Own members only; an index is a number without leading zeros (RFC 6901 section 4). */
function memberOf(value: Json | undefined, token: string): Json | undefined {
  if (isArray(value)) return /^(?:0|[1-9]\d*)$/.test(token) ? value[Number(token)] : undefined;
  return isObject(value) && Object.hasOwn(value, token) ? value[token] : undefined;
}
