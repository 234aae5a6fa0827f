import { parseFilter, type ParsedFilter } from '../core/filter.ts';
import type { Filter } from '../core/filter-program.ts';
import { isTooDeep } from '../core/json-parts.ts';
import { lossOf, readVerbatim } from '../core/verbatim.ts';
import { bomReason, depthReason } from './http/body.ts';
import { badBody, badQuery, quoted } from './http/problem.ts';

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

/** Parses a filter that was sent as JSON text in the query. Throws 400. */
export function filterOfText(text: string, property: string, description: string): Filter {
  const parsed = parseFilter(conditionOf(text, property, description));
  if ('filter' in parsed) return parsed.filter;
  const { path, reason } = parsed.violation;
  throw badQuery(reason, path === '' ? property : `${property}.${path}`, description);
}

/** The rules of a body: see `parseInSteps`. */
function conditionOf(text: string, property: string, description: string): unknown {
  let condition: unknown;
  try {
    condition = JSON.parse(text);
  } catch {
    const expected = `Expected JSON such as {"data.object.plan":"pro"} but found ${quoted(text)}`;
    throw badQuery(text.startsWith('\uFEFF') ? bomReason : expected, property, description);
  }
  if (isTooDeep(Buffer.from(text))) throw badQuery(depthReason, property, description);
  const loss = lossOf(readVerbatim(text));
  if (loss === undefined) return condition;
  throw badQuery(loss.reason, [property, ...loss.path].join('.'), description);
}
