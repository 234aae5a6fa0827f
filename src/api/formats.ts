import type { Millis } from '../core/clock.ts';
import { parseTime } from '../core/date.ts';
import { parseOffset, type Position, checkOf } from '../core/offset.ts';
import { type Problem, type badQuery, badBody } from './http/problem.ts';
import { formatViolation } from './http/violation.ts';
import type { Offset } from '../core/types.ts';
import { idAt } from '../pull/start-position.ts';
import type { LogStore } from '../store/port/log.ts';

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

/** The fields of a request that select a period. */
export interface SentWindow {
  readonly date_from?: string | undefined;
  readonly date_to?: string | undefined;
}

/** A period: `from` inclusive, `to` exclusive. */
export interface Window {
  readonly from: Millis | undefined;
  readonly to: Millis | undefined;
}

/** Parses a period. Throws the 400 of `bad` for an invalid date, or if `date_from` is later. */
export function windowOf(sent: SentWindow, bad: typeof badQuery): Window {
  const badFrom: BadProperty = (reason) => bad(reason, 'date_from', 'Earliest time, inclusive');
  const badTo: BadProperty = (reason) => bad(reason, 'date_to', 'Latest time, exclusive');
  const from = sent.date_from === undefined ? undefined : timeOf(sent.date_from, badFrom);
  const to = sent.date_to === undefined ? undefined : timeOf(sent.date_to, badTo);
  if (from !== undefined && to !== undefined && from > to) {
    throw badFrom('date_from is later than date_to');
  }
  return { from, to };
}

interface FailedWindow {
  readonly failedFrom: Millis | undefined;
  readonly failedTo: Millis | undefined;
}

type SentFailedWindow = Readonly<Partial<Record<'failed_from' | 'failed_to', string | undefined>>>;

/**
 * Returns the window of failures of a query or a body. Throws 400 unless each is an RFC 3339 time and they
 * are in order.
 */
export function failedWindowOf(
  sent: SentFailedWindow,
  bad: typeof badQuery,
  texts: Readonly<Record<keyof SentFailedWindow, string>>,
): FailedWindow {
  const time = (name: keyof SentFailedWindow): Millis | undefined => {
    const text = sent[name];
    return text === undefined
      ? undefined
      : timeOf(text, (reason) => bad(reason, name, texts[name]));
  };
  const [failedFrom, failedTo] = [time('failed_from'), time('failed_to')];
  if (failedFrom !== undefined && failedTo !== undefined && failedFrom > failedTo) {
    throw bad('failed_from is later than failed_to', 'failed_from', texts.failed_from);
  }
  return { failedFrom, failedTo };
}

/** A property of a body that contains an offset. */
export interface OffsetProperty {
  readonly text: string;
  readonly property: string;
  readonly description: string;
}

/**
 * Returns the offset of a property of a body. Throws 400 if it is malformed, is beyond `head`, or
 * belongs to another event than the log has at that offset.
 */
export async function offsetOf(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  head: Offset,
  { text, property, description }: OffsetProperty,
): Promise<Offset> {
  const bad = (reason: string): Problem => badBody(reason, property, description);
  const { offset, check } = positionOf(text, bad);
  if (offset > head) throw bad('No event has this offset yet, send an offset of this tenant');
  if (check === undefined || offset === 0) return offset;
  const id = await idAt(log, tenant, offset);
  if (id === undefined || checkOf(id) === check) return offset;
  throw bad('Another event has this offset since the store was restored, send a date instead');
}
