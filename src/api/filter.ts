import { parseFilter, type ParsedFilter } from '../core/filter.ts';
import { badBody } from './http/problem.ts';

/** Parses a filter that was sent as a field of the body. Throws 400. */
export function filterOf(
  condition: unknown,
  property: string,
): Extract<ParsedFilter, { readonly filter: unknown }> {
  const parsed = parseFilter(condition);
  if ('filter' in parsed) return parsed;
  const { path, reason } = parsed.violation;
  const at = path === '' ? property : `${property}.${path}`;
  throw badBody(reason, at, 'Condition over the envelope of an event');
}
