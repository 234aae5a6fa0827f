import { useState } from 'preact/hooks';
import { type EventQuery, instantOf, localOf, type Since } from './event-query.ts';
import { focusField } from './focus.ts';
import { useParameters } from './location.ts';

const windows: readonly (readonly [Since, string])[] = [
  ['any', 'Any time'],
  ['hour', 'Last hour'],
  ['day', 'Last day'],
  ['week', 'Last week'],
  ['between', 'Between …'],
];

interface PeriodChoicesProps {
  /** What the times are of: `Accepted`. */
  readonly label: string;
  readonly since: Since;
}

/** Lets one choose a window of time, or to give two times; the address has it. */
export function PeriodChoices({ label, since }: PeriodChoicesProps) {
  const parameters = useParameters();
  return (
    <div class="field">
      <span class="label" aria-hidden="true">
        {label}
      </span>
      <nav class="segments" aria-label={label}>
        {windows.map(([value, text]) => (
          <a
            key={value}
            href={parameters.with({
              since: value === 'any' ? undefined : value,
              date_from: undefined,
              date_to: undefined,
            })}
            {...(value === since ? { 'aria-current': 'true' as const } : {})}
          >
            {text}
          </a>
        ))}
      </nav>
    </div>
  );
}

interface PeriodFieldsProps {
  readonly label: string;
  readonly button: string;
  readonly period: Pick<EventQuery, 'dateFrom' | 'dateTo'>;
}

/** Two times in the zone of the browser; the address has them in UTC. */
export function PeriodFields(props: PeriodFieldsProps) {
  const { dateFrom, dateTo } = props.period;
  // Fields that begin again when the address changes.
  return <Fields key={`${dateFrom} ${dateTo}`} {...props} />;
}

function Fields({ label, button, period }: PeriodFieldsProps) {
  const parameters = useParameters();
  const [from, setFrom] = useState(localOf(period.dateFrom));
  const [to, setTo] = useState(localOf(period.dateTo));
  const isReversed = from !== '' && to !== '' && from >= to;
  return (
    <form
      class="toolbar"
      aria-label={`${label} between`}
      onSubmit={(event) => {
        event.preventDefault();
        if (isReversed) return;
        const changes = { date_from: instantOf(from), date_to: instantOf(to) };
        if (!parameters.go({ since: 'between', ...changes })) focusField(event.currentTarget);
      }}
    >
      <label class="field">
        <span class="label">From</span>
        <input
          type="datetime-local"
          step="1"
          value={from}
          onInput={({ currentTarget }) => setFrom(currentTarget.value)}
        />
      </label>
      <label class="field">
        <span class="label">Before</span>
        <input
          type="datetime-local"
          step="1"
          value={to}
          aria-invalid={isReversed}
          onInput={({ currentTarget }) => setTo(currentTarget.value)}
        />
      </label>
      <button type="submit" class="button" disabled={isReversed}>
        {button}
      </button>
      <span class={isReversed ? 'meta bad' : 'meta'}>
        {isReversed ? 'It ends before it begins.' : `Times of this browser: ${zone}`}
      </span>
    </form>
  );
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
