import { duration } from './numbers.ts';

/** Returns an instant in words, as {@link Time} shows it. */
export function relative(at: number, presentMs: number): string {
  const ageMs = presentMs - at;
  if (Math.abs(ageMs) >= 86_400_000) return absolute.format(at);
  if (ageMs < 0) return ageMs > -1000 ? 'now' : `in ${duration(-ageMs)}`;
  return ageMs < 5000 ? 'just now' : `${duration(ageMs)} ago`;
}

/** Returns an instant in UTC, to the second. */
export function utc(at: string): string {
  return `${at.slice(0, 10)} ${at.slice(11, 19)} UTC`;
}

/** Returns an instant to the millisecond, for rows that are moments apart; its day unless it is today. */
export function precise(at: number, presentMs: number): string {
  const isToday = day.format(at) === day.format(presentMs);
  return isToday ? timeOfDay.format(at) : `${day.format(at)}, ${timeOfDay.format(at)}`;
}

const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

const timeOfDay = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});

const absolute = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});
