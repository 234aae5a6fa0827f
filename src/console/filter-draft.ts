import { parseFilter } from '../core/filter.ts';
import { type FilterRow, rowsOf, textOfRows } from './filter-rows.ts';
import type { Condition } from './filter-words.ts';
import { parseKeepingNumbers } from './request.ts';

/** A filter while it is edited, as rows and as JSON, which say the same. */
export interface FilterDraft {
  /** JSON; empty without a filter. */
  readonly text: string;
  /** `undefined` where the JSON has what rows cannot say, or is not valid. */
  readonly rows: readonly FilterRow[] | undefined;
}

/** Begins to edit a filter. */
export function draftOfFilter(filter: Condition | undefined): FilterDraft {
  return withText(filter === undefined ? '' : JSON.stringify(filter, undefined, 2));
}

/** Returns the draft after its JSON was edited. */
export function withText(text: string): FilterDraft {
  return { text, rows: rowsOf(text) };
}

/** Returns the draft after its rows were edited; rows without a field do not count yet. */
export function withRows(rows: readonly FilterRow[]): FilterDraft {
  const compact = textOfRows(rows);
  return {
    text: compact === '' ? '' : JSON.stringify(parseKeepingNumbers(compact), undefined, 2),
    rows,
  };
}

/**
 * Returns the filter of a draft, by the rules of the server; `undefined` without one. Numbers keep the digits
 * that were typed: the server refuses those that would be rounded.
 */
export function filterOfDraft({
  text,
}: FilterDraft): { readonly filter: Condition | undefined } | { readonly problem: string } {
  if (text.trim() === '') return { filter: undefined };
  const condition = parsedJson(text);
  if (condition === undefined) return { problem: 'This is not JSON' };
  const parsed = parseFilter(condition);
  if ('filter' in parsed) return { filter: parseKeepingNumbers(text) as Condition };
  const { path, reason } = parsed.violation;
  return { problem: path === '' ? reason : `${reason}, at ${path}` };
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
