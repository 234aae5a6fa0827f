import { InvalidArgumentError } from 'commander';
import type { Millis } from '../core/clock.ts';
import { formatTime, parseTime } from '../core/date.ts';
import { dayMs, hourMs } from '../core/units.ts';

const unitsMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: hourMs,
  d: dayMs,
};

/**
 * Parses a date and time, a date (its beginning in UTC), or a time ago such as `90s`, `15m`, `2h` or
 * `3d`. Returns the instant as the API reads it (RFC 3339), `undefined` for any other text.
 */
export function instantOf(text: string, now: Millis): string | undefined {
  const ago = /^(?<count>[0-9]{1,6})(?<unit>[smhd])$/.exec(text)?.groups;
  if (ago !== undefined) {
    return formatTime(now - Number(ago['count']) * (unitsMs[ago['unit'] ?? ''] ?? 0));
  }
  const full = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
  const time = parseTime(full);
  return time === undefined ? undefined : formatTime(time);
}

/** Creates the parser of an option from {@link instantOf}. It throws a usage error. */
export function instantOption(now: () => Millis): (text: string) => string {
  return (text) => {
    const instant = instantOf(text, now());
    if (instant !== undefined) return instant;
    throw new InvalidArgumentError(
      'For example 2026-03-01T09:30:00Z, 2026-03-01, 90s, 15m, 2h, 3d.',
    );
  };
}
