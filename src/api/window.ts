import { parseTime } from '../core/date.ts';
import type { Millis } from '../core/clock.ts';
import { type badQuery, quoted } from './http/problem.ts';

/** The members by which a request names a stretch of time. */
export interface SentWindow {
  readonly date_from?: string | undefined;
  readonly date_to?: string | undefined;
}

/** A stretch of time: `from` inclusive, `to` exclusive. */
export interface Window {
  readonly from: Millis | undefined;
  readonly to: Millis | undefined;
}

/** Reads the two dates. `bad` words the 400 for one that is none, or when they are reversed. */
export function windowOf(sent: SentWindow, bad: typeof badQuery): Window {
  const from = dateOf(sent.date_from, 'date_from', 'Earliest time, inclusive', bad);
  const to = dateOf(sent.date_to, 'date_to', 'Latest time, exclusive', bad);
  if (from !== undefined && to !== undefined && from > to) {
    throw bad('date_from is later than date_to', 'date_from', 'Earliest time, inclusive');
  }
  return { from, to };
}

function dateOf(
  text: string | undefined,
  property: string,
  description: string,
  bad: typeof badQuery,
): Millis | undefined {
  if (text === undefined) return undefined;
  const time = parseTime(text);
  if (time !== undefined) return time;
  const reason = `Object didn't pass validation for format date-time: ${quoted(text)}`;
  throw bad(reason, property, description);
}
