import type { AttemptsShown, StreamAttemptShown } from '../schemas/event-log.ts';
import { causeName } from './cause-name.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { duration } from './parts/numbers.ts';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';
import type { StreamProps } from './stream-props.ts';

/** The attempts of a stream, successes included, as far as they are kept. */
export function StreamAttempts({ stream }: StreamProps) {
  const path = withQuery(`/event-streams/${stream.id}/attempts`, {
    from: useParameters().get('from'),
  });
  const read = useRead<AttemptsShown>(path);
  return (
    <>
      <p class="muted">
        Those of the newest events first, as far as they are kept. Test events are not listed.
      </p>
      <Loaded read={read} lines={12}>
        {({ attempts, next }) => (
          <>
            <AttemptTable attempts={attempts} />
            <Pager shown={attempts.length} next={next} noun="attempt" />
          </>
        )}
      </Loaded>
    </>
  );
}

/** Shows attempts; each leads to its event. */
export function AttemptTable({ attempts }: Pick<AttemptsShown, 'attempts'>) {
  return (
    <Table
      caption="Attempts"
      columns={columns}
      rows={attempts}
      keyOf={({ offset, timestamp, status }) => `${offset} ${timestamp} ${status}`}
      empty="No attempt is kept. A stream makes the first one when an event of its types is published."
    />
  );
}

const columns: readonly Column<StreamAttemptShown>[] = [
  { title: 'Time', cell: ({ timestamp }) => <Time at={timestamp} /> },
  { title: 'Result', cell: (attempt) => <Result {...attempt} /> },
  {
    title: 'Event',
    narrow: 'line',
    cell: ({ event_id: id, event_type: type }) =>
      id === undefined ? (
        <span class="muted">not in the log any more</span>
      ) : (
        <span class="row">
          <span class="wrap-anywhere">{type}</span>
          <Id value={id} href={links.event(id)} what="id of the event" />
        </span>
      ),
  },
  { title: 'Response', cell: (attempt) => <Response {...attempt} /> },
];

function Result({ status, duration: ms }: StreamAttemptShown) {
  return (
    <span class="stacked">
      {status === 'retrying' ? (
        <Badge state="retrying" text="redelivery asked for" />
      ) : (
        <Badge state={status} />
      )}
      {ms !== undefined && <span class="meta">after {duration(ms)}</span>}
    </span>
  );
}

function Response({ status, http_status: http, ...failed }: StreamAttemptShown) {
  const { error_code: code, error_message: message } = failed;
  if (status === 'delivered') return <span class="muted">HTTP {http}</span>;
  if (code === undefined) return null;
  return (
    <span class="stacked">
      <span>{causeName(code)}</span>
      {message !== undefined && message !== '' && message !== String(http) && (
        <code class="sample" title={message}>
          {message}
        </code>
      )}
    </span>
  );
}
