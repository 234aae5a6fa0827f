import { useEffect, useRef, useState } from 'preact/hooks';
import { theme } from '../theme.ts';
import { count } from './numbers.ts';

/** One line of a chart. */
export interface Series {
  readonly name: string;
  readonly tone: 'accent' | 'ok' | 'bad' | 'info' | 'muted';
  /** Besides its colour, so that it can be told apart without. */
  readonly isDashed?: boolean;
  /** A value for each point in time; null where there is none. */
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  /** What it shows, with its unit. */
  readonly title: string;
  /** Points in time, ISO 8601, oldest first. */
  readonly times: readonly string[];
  /** At most four. */
  readonly series: readonly Series[];
  readonly format?: (value: number) => string;
  readonly height?: number;
}

/** Shows lines over time; the same numbers as a table behind a switch. */
export function Chart(props: ChartProps) {
  const { title, times, series, format = count } = props;
  const [isTable, setTable] = useState(false);
  return (
    <figure class="stack-tight" aria-label={title}>
      <div class="row row-spread">
        <ul class="legend">
          {series.map((line) => (
            <li key={line.name}>
              <Swatch {...line} />
              {line.name}
            </li>
          ))}
        </ul>
        <button
          type="button"
          class="button small"
          aria-pressed={isTable}
          onClick={() => setTable(!isTable)}
        >
          {isTable ? 'Chart' : 'Table'}
        </button>
      </div>
      {isTable ? (
        <NumberTable times={times} series={series} format={format} title={title} />
      ) : (
        <Lines {...props} format={format} />
      )}
    </figure>
  );
}

function Swatch({ tone, isDashed }: Pick<Series, 'tone' | 'isDashed'>) {
  return (
    <svg width="20" height="8" viewBox="0 0 20 8" aria-hidden="true">
      <path
        d="M0 4h20"
        stroke={`var(--${tone})`}
        stroke-width="2"
        {...(isDashed === true ? { 'stroke-dasharray': '5 3' } : {})}
      />
    </svg>
  );
}

function Lines({
  title,
  times,
  series,
  format,
  height = 200,
}: ChartProps & { readonly format: (value: number) => string }) {
  const frame = useRef<HTMLDivElement>(null);
  const [readout, setReadout] = useState('');
  const key = JSON.stringify([times, series]);
  useEffect(() => {
    let isOver = false;
    let remove = (): void => undefined;
    const draw = async (): Promise<void> => {
      const { plot } = await import('./plot.ts');
      if (isOver || frame.current === null) return;
      remove = plot(frame.current, { times, series, format, height, onPoint: setReadout });
    };
    // Offline, or the files of another version: the numbers are there as a table.
    draw().catch(() =>
      setReadout('The chart could not be loaded. The table has the same numbers.'),
    );
    return () => {
      isOver = true;
      remove();
    };
    // The colours are those of the theme.
  }, [key, height, theme.value]);
  return (
    <>
      <p class="meta readout" aria-hidden="true">
        {readout}
      </p>
      <div class="chart" ref={frame} role="img" aria-label={`${title}, as lines over time`} />
    </>
  );
}

function NumberTable({
  times,
  series,
  format,
  title,
}: ChartProps & { readonly format: (value: number) => string }) {
  return (
    <div class="table-frame chart-table" tabIndex={0} role="region" aria-label={title}>
      <table class="compact">
        <caption class="visually-hidden">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ name }) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time, index) => (
            <tr key={time}>
              <td class="nowrap">{whenOf(time)}</td>
              {series.map(({ name, values }) => (
                <td key={name} class="number">
                  {values[index] === null || values[index] === undefined
                    ? '–'
                    : format(values[index])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Returns a time of a chart in words. */
export function whenOf(time: string): string {
  return when.format(Date.parse(time));
}

const when = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
