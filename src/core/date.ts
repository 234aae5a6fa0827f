import type { Millis } from './clock.ts';

/** Returns an instant in ISO 8601, UTC, with milliseconds. */
export function formatTime(time: Millis): string {
  return new Date(time).toISOString();
}

/**
 * Creates a {@link formatTime} that caches its last result: events published together have the same
 * time, and formatting it takes as long as inserting a row.
 */
export function createTimeWriter(): (time: Millis) => string {
  let last: Millis | undefined;
  let text = '';
  return (time) => {
    if (time !== last) {
      text = formatTime(time);
      last = time;
    }
    return text;
  };
}

const rfc3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/**
 * Parses an RFC 3339 date and time, truncated to milliseconds; `undefined` for any other text. Rejects
 * a leap second, which no system clock distinguishes from the second after it.
 */
export function parseTime(text: string): Millis | undefined {
  const parts = rfc3339.exec(text);
  if (parts === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts
    .slice(1, 7)
    .map(Number);
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const midnight = new Date(0);
  midnight.setUTCFullYear(year, month - 1, day);
  // A month 13 or a 30th of February has become another date.
  if (midnight.getUTCMonth() !== month - 1 || midnight.getUTCDate() !== day) return undefined;
  const offsetMinutes = offsetOf(parts[8], Number(parts[9] ?? 0), Number(parts[10] ?? 0));
  if (offsetMinutes === undefined) return undefined;
  const fractionMs = Number((parts[7] ?? '').slice(0, 3).padEnd(3, '0'));
  const minutes = hour * 60 + minute - offsetMinutes;
  const time = midnight.getTime() + (minutes * 60 + second) * 1000 + fractionMs;
  return withinYears(time) ? time : undefined;
}

function offsetOf(sign: string | undefined, hours: number, minutes: number): number | undefined {
  if (hours > 23 || minutes > 59) return undefined;
  return (sign === '-' ? -1 : 1) * (hours * 60 + minutes);
}

/** Returns whether the year has four digits: a time zone offset can move a date out of that range. */
export function withinYears(time: Millis): boolean {
  const year = new Date(time).getUTCFullYear();
  return year >= 0 && year <= 9999;
}
