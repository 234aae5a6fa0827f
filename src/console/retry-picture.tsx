import { plural } from './parts/numbers.ts';
import { attemptTimes, placeOf, span } from './retry-times.ts';

const ticks = [1, 10, 60, 600, 3600, 8 * 3600, 72 * 3600];

/** Draws when the attempts of a delivery begin that fails each time, up to the end of its cycle. */
export function RetryPicture({ delaysSeconds }: { readonly delaysSeconds: readonly number[] }) {
  const { timesMs, beyond } = attemptTimes(delaysSeconds);
  const times = timesMs.map((ms) => (ms === 0 ? 'at once' : `after ${span(ms / 1000)}`));
  const all = `${plural(timesMs.length, 'attempt')}: ${times.join(', ')}.`;
  return (
    <figure class="stack-tight retry-picture">
      <div class="time-line">
        <svg width="100%" height="48" role="img" aria-label={`Time line to 72 hours. ${all}`}>
          <line x1="0" x2="100%" y1="16" y2="16" class="axis" />
          {ticks.map((seconds) => (
            <Tick key={seconds} seconds={seconds} />
          ))}
          {timesMs.map((ms) => (
            <circle key={ms} cx={percent(ms)} cy="16" r="5" class="attempt" />
          ))}
        </svg>
      </div>
      <figcaption class="meta">
        {all} Waits over 10 s are up to a tenth shorter or longer.
        {beyond > 0 &&
          ` ${plural(beyond, 'attempt')} of the schedule would begin after 72 h, when a cycle ends, and are not made.`}
      </figcaption>
    </figure>
  );
}

function Tick({ seconds }: { readonly seconds: number }) {
  const x = percent(seconds * 1000);
  return (
    <>
      <line x1={x} x2={x} y1="12" y2="20" class="axis" />
      <text x={x} y="40" text-anchor="middle">
        {span(seconds).replace('3 d', '72 h')}
      </text>
    </>
  );
}

function percent(ms: number): string {
  return `${(placeOf(ms) * 100).toFixed(2)}%`;
}
