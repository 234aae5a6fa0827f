import { useEffect, useMemo } from 'preact/hooks';
import { eventQueryOf } from './event-query.ts';
import { EventTail } from './event-tail.ts';
import { EventType } from './event-type.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import './parts/folds.css';
import { Problem } from './parts/loaded.tsx';
import { Notice } from './parts/notice.tsx';
import { count, plural } from './parts/numbers.ts';
import { type Column, Table } from './parts/table.tsx';
import { PreciseTime, Time } from './parts/time.tsx';
import { rowsMax, type TailRow } from './tail-rows.ts';

/** New events as they are accepted. */
export function LiveEvents() {
  const { types, filter } = eventQueryOf(useParameters());
  const key = JSON.stringify([types, filter]);
  return <Followed key={key} types={types} filter={filter} />;
}

interface FollowedProps {
  readonly types: readonly string[];
  readonly filter: string | undefined;
}

function Followed({ types, filter }: FollowedProps) {
  const tail = useMemo(() => new EventTail({ types, filter }), []);
  useEffect(() => () => tail.close(), [tail]);
  const { value: state } = tail.state;
  if (state.kind === 'failed') return <Problem error={state.error} />;
  return (
    <div class="stack-tight folds">
      <LiveBar tail={tail} isFiltered={filter !== undefined} />
      <Breaks tail={tail} />
      <Table
        caption="New events"
        columns={columns}
        rows={tail.rows.value.shown}
        keyOf={({ offset }) => offset}
        empty={
          <>
            <p>No new event so far. This page shows events from the moment it was opened.</p>
            <Allowed scope="create:events">
              <a class="button" href={links.publish}>
                Publish an event
              </a>
            </Allowed>
          </>
        }
      />
      {tail.rows.value.shown.length === rowsMax && (
        <p class="meta">The newest {rowsMax} are kept here. The search has the others.</p>
      )}
    </div>
  );
}

function LiveBar({ tail, isFiltered }: { readonly tail: EventTail; readonly isFiltered: boolean }) {
  const { queuedCount } = tail.rows.value;
  const isPaused = tail.isPaused.value;
  const received = tail.received.value;
  return (
    <div class="live-bar">
      <span class="row">
        <Connection tail={tail} />
        <span class="meta number" role="status">
          {isFiltered
            ? `${count(tail.matched.value)} of ${plural(received, 'event')} match`
            : plural(received, 'event')}
        </span>
        {isFiltered && (
          <span class="meta">The condition on payloads is applied in this browser.</span>
        )}
      </span>
      <span class="row">
        {queuedCount > 0 && (
          <button type="button" class="button primary" onClick={() => tail.release()}>
            {count(queuedCount)} new
          </button>
        )}
        <button type="button" class="button" onClick={() => tail.pause(!isPaused)}>
          {isPaused ? 'Continue' : 'Pause'}
        </button>
      </span>
    </div>
  );
}

function Connection({ tail }: { readonly tail: EventTail }) {
  const isPaused = tail.isPaused.value;
  switch (tail.state.value.kind) {
    case 'live':
      return isPaused ? <Badge state="paused" /> : <Badge state="ok" text="live" />;
    case 'cut off':
      return <Badge state="failing" text="cut off" />;
    case 'connecting':
    case 'hidden':
    case 'failed':
      return <Badge state="waiting" text="connecting" />;
  }
}

/** Says when events did not arrive, and whether some are left out. */
function Breaks({ tail }: { readonly tail: EventTail }) {
  const { value: state } = tail.state;
  if (state.kind === 'cut off') {
    return (
      <Notice tone="warn">
        <p>
          Cut off <Time at={new Date(state.at).toISOString()} />: {state.reason} It is tried again,
          and goes on after the last event that has arrived.
        </p>
      </Notice>
    );
  }
  const { value: last } = tail.lastBreak;
  if (last === undefined) return null;
  const at = <Time at={new Date(last.at).toISOString()} />;
  if (!last.hasGap) {
    return (
      <p class="meta">Was cut off {at}, and went on after the last event. None is left out.</p>
    );
  }
  return (
    <Notice tone="warn">
      <p>
        Was cut off {at} for so long that the log has removed events meanwhile. Some are left out
        here.
      </p>
    </Notice>
  );
}

const columns: readonly Column<TailRow>[] = [
  { title: 'Happened', cell: ({ time }) => <PreciseTime at={time} /> },
  { title: 'Type', cell: ({ type }) => <EventType type={type} /> },
  {
    title: 'Id',
    cell: ({ id }) => <Id value={id} what={`id ${id}`} href={links.event(id)} />,
  },
  {
    title: 'Data',
    narrow: 'line',
    cell: ({ preview }) => <code class="preview">{preview}</code>,
  },
];
