import { drawnAtMs, now } from '../clock.ts';
import { duration } from './numbers.ts';
import { precise, relative, utc } from './when.ts';

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
      {relative(Date.parse(at), drawnAtMs())}
    </time>
  );
}

/** Shows how long ago an instant was. */
export function Age({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={utc(at)} class="nowrap">
      {duration(Math.max(0, drawnAtMs() - Date.parse(at)))}
    </time>
  );
}

/** Shows an instant to the millisecond, for lists of what happens within moments. */
export function PreciseTime({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={utc(at)} class="nowrap tabular">
      {precise(Date.parse(at), now())}
    </time>
  );
}
