import type { Millis } from '../core/clock.ts';
import { type BadProperty, timeOf } from './formats.ts';
import type { badQuery } from './http/problem.ts';

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
