import type { Millis } from '../core/clock.ts';
import { parseTime } from '../core/date.ts';
import { parseOffset, type Position } from '../core/offset.ts';
import { type Problem, quoted } from './http/problem.ts';

/** Makes the 400 of one property, for example with `badQuery`. */
export type BadProperty = (reason: string) => Problem;

/** Parses a time of a request. Throws the 400 of `bad` for any other text. */
export function timeOf(text: string, bad: BadProperty): Millis {
  const time = parseTime(text);
  if (time === undefined) throw bad(formatViolation('date-time', text));
  return time;
}

/** Parses an offset of a request. Throws the 400 of `bad` for any other text. */
export function positionOf(text: string, bad: BadProperty): Position {
  const position = parseOffset(text);
  if (position === undefined) throw bad(formatViolation('offset', text));
  return position;
}

/** Returns the reason of a 400 for a text that does not have a format. */
export function formatViolation(format: string, text: string): string {
  return `Object didn't pass validation for format ${format}: ${quoted(text)}`;
}
