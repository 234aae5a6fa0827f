import { carry } from '../core/carried.ts';
import { badBody } from './http/problem.ts';

/** Returns the carried fields after a request as JSON text. Throws 400 for any that cannot be stored. */
export function carryOrThrow(
  before: string | undefined,
  sent: object,
  names: readonly string[],
): string | undefined {
  const result = carry(before, sent, names);
  if ('json' in result) return result.json;
  throw badBody(result.fault.reason, result.fault.field, 'Carried: without effect');
}

/** Returns carried fields as a part of a response. */
export function carriedPart(json: string | undefined): string[] {
  return json === undefined ? [] : [json];
}
