import type { StreamHealthShown } from '../schemas/stream-health.ts';
import { causeName } from './cause-name.ts';
import { count, duration, plural } from './parts/numbers.ts';
import { Time } from './parts/time.tsx';

/** Says in one line why a stream is in its state; nothing where the state says it all. */
export function StateReason(stream: StreamHealthShown) {
  const { state, disabled, paused, lag } = stream;
  switch (state) {
    case 'ok':
      return <InFlight {...stream} />;
    case 'failing':
      return (
        <>
          <FailingReason {...stream} />
          <InFlight {...stream} />
        </>
      );
    case 'lagging':
      return (
        <>
          <span class="meta">oldest event is {duration(lag.seconds * 1000)} old</span>
          <InFlight {...stream} />
        </>
      );
    case 'paused':
      return (
        <span class="meta">
          <Time at={paused?.at} />
          {(paused?.reason ?? null) !== null && `: ${paused?.reason ?? ''}`}
        </span>
      );
    case 'disabled':
      return (
        <span class="meta">
          {disabled === null ? '' : reasons[disabled.reason]}
          {(disabled?.last_error_code ?? null) !== null &&
            `, last ${causeName(disabled?.last_error_code ?? null)}`}
          {disabled !== null && disabled.waiting_events > 0 && (
            <>
              ; {disabled.at_least ? 'at least ' : ''}
              {plural(disabled.waiting_events, 'event')} waiting
            </>
          )}
        </span>
      );
  }
}

function FailingReason({
  failures,
  failing_since: since,
  results_refused: refused,
}: StreamHealthShown) {
  if (failures.consecutive > 0) {
    return (
      <span class="meta">
        {count(failures.consecutive)} of {count(failures.limit_consecutive)} in a row
      </span>
    );
  }
  if (refused !== null) return <span class="meta">results are not recorded</span>;
  if (since === null) return <span class="meta">an attempt is overdue</span>;
  return (
    <span class="meta">
      attempts fail since <Time at={since} />
    </span>
  );
}

function InFlight({ in_flight: attempts, in_flight_seconds: seconds }: StreamHealthShown) {
  if (attempts === 0) return null;
  return (
    <span class="meta">
      {count(attempts)} in flight for up to {duration(seconds * 1000)}
    </span>
  );
}

const reasons = {
  consecutive_failures: 'too many failures in a row',
  open_failures: 'too many open failures',
  gone: 'its receiver says that it is gone (410)',
  lag: 'too far behind',
  by_hand: 'by hand',
} as const;
