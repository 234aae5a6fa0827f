import { now, ticks } from '../clock.ts';
import { relative, utc } from './when.ts';

interface TimeProps {
  /** ISO 8601, or null when not known. */
  readonly at: string | null | undefined;
  /** What to show without a time. */
  readonly none?: string;
}

/** Shows an instant: relative within 24 hours, absolute else; with UTC as its title. */
export function Time({ at, none = '–' }: TimeProps) {
  if (at === null || at === undefined) return <span class="muted">{none}</span>;
  return (
    <time dateTime={at} title={utc(at)} class="nowrap">
      {relative(Date.parse(at), Math.max(ticks.value, now()))}
    </time>
  );
}
