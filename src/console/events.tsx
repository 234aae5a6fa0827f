import { useEffect, useMemo } from 'preact/hooks';
import type { EventLogShown } from '../schemas/event-log.ts';
import { now } from './clock.ts';
import { eventQueryOf, isSearch, requestOf } from './event-query.ts';
import { EventSearch } from './event-search.tsx';
import './events.css';
import { EventType } from './event-type.tsx';
import { links } from './links.ts';
import { LiveEvents } from './live-events.tsx';
import { type Parameters, useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Id } from './parts/copy.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Notice } from './parts/notice.tsx';
import { count } from './parts/numbers.ts';
import './parts/folds.css';
import { Page } from './parts/page.tsx';
import { preview } from './parts/plain-text.ts';
import { type Column, Table } from './parts/table.tsx';
import { PreciseTime, Time } from './parts/time.tsx';
import { once, type Read, useRead } from './queries.ts';
import { RequestFailed, withQuery } from './request.ts';
import { isAllowed } from './session.ts';

/** The log: a search in it, or new events as they are accepted. */
export function Events() {
  const parameters = useParameters();
  const isLive = parameters.get('live') !== undefined;
  if (!isAllowed('read:events')) {
    return (
      <Page title="Events">
        <NoEvents />
      </Page>
    );
  }
  return (
    <Page
      title="Events"
      actions={
        <a class="button" href={parameters.with({ live: isLive ? undefined : '1' })}>
          {isLive ? 'Back to the search' : 'Follow new events'}
        </a>
      }
    >
      <EventSearch isLive={isLive} />
      {isLive ? <LiveEvents /> : <FoundEvents parameters={parameters} />}
    </Page>
  );
}

/** What a role without payloads is told. */
export function NoEvents() {
  return (
    <Notice tone="info">
      <p class="strong">Your role does not see events.</p>
      <p>
        A viewer sees streams, their numbers and failures without payloads. Ask for the role
        support, which reads the event log.
      </p>
      <p>
        <a href={links.failures}>Failures</a> · <a href={links.streams}>Streams</a>
      </p>
    </Notice>
  );
}

type Logged = EventLogShown['events'][number];

function FoundEvents({ parameters }: { readonly parameters: Parameters }) {
  const query = eventQueryOf(parameters);
  const key = JSON.stringify(query);
  // Windows such as the last hour end when they were chosen, so that pages go on.
  const search = useMemo(() => requestOf(query, now()), [key]);
  const from = parameters.get('from');
  // A search stays as it was found, and costs the service too much to be repeated unasked.
  const read = useRead<EventLogShown>(withQuery('/event-log', { ...search, from }), once);
  if (read.data === undefined && isSearchUnderWay(read)) return <UnderWay read={read} />;
  return (
    <Loaded read={read} lines={12}>
      {({ events, next }) => (
        <div class="stack folds">
          <Table
            caption="Events"
            columns={columns}
            rows={events}
            keyOf={({ offset }) => offset}
            empty={<Empty parameters={parameters} next={next} isSearch={isSearch(query)} />}
          />
          {(events.length > 0 || next === undefined) && (
            <Pager shown={events.length} next={next} noun="event" />
          )}
        </div>
      )}
    </Loaded>
  );
}

const columns: readonly Column<Logged>[] = [
  { title: 'Accepted', cell: ({ accepted_at: at }) => <PreciseTime at={at} /> },
  { title: 'Type', cell: ({ event: { type } }) => <EventType type={type} /> },
  {
    title: 'Id',
    cell: ({ event: { id } }) => <Id value={id} what={`id ${id}`} href={links.event(id)} />,
  },
  {
    title: 'Data',
    narrow: 'line',
    cell: ({ event: { data } }) => <code class="preview">{preview(data)}</code>,
  },
];

interface EmptyProps {
  readonly parameters: Parameters;
  readonly next: string | undefined;
  readonly isSearch: boolean;
}

/** A page without events: the end of a search, or only as far as one request reads. */
function Empty({ parameters, next, isSearch: isFiltered }: EmptyProps) {
  if (next !== undefined) return <NothingSoFar parameters={parameters} next={next} />;
  if (isFiltered || parameters.get('from') !== undefined) {
    return (
      <>
        <p>
          {parameters.get('from') === undefined ? 'No event' : 'No further event'} in the log
          matches. Events leave the log after LEAT_EVENT_RETENTION_DAYS, 7 days unless set
          otherwise.
        </p>
        <a class="button" href={links.events}>
          Show all events
        </a>
      </>
    );
  }
  return (
    <>
      <p>The log has no events. An application publishes them, or you do.</p>
      <Allowed scope="create:events">
        <a class="button primary" href={links.publish}>
          Publish an event
        </a>
      </Allowed>
    </>
  );
}

interface NothingSoFarProps {
  readonly parameters: Parameters;
  readonly next: string;
}

/** Says how far a search without a result has come, and goes on if it is asked to. */
function NothingSoFar({ parameters, next }: NothingSoFarProps) {
  const isGoingOn = parameters.get('on') !== undefined;
  useEffect(() => {
    if (isGoingOn) parameters.go({ from: next }, true);
  }, [isGoingOn, next]);
  // The next event below tells the time.
  const read = useRead<EventLogShown>(withQuery('/event-log', { take: 1, from: next }), once);
  const at = read.data?.events[0]?.accepted_at;
  const readMax = parameters.get('filter') === undefined ? 20_000 : 10_000;
  return (
    <>
      <p>
        Nothing among the events that were read so far
        {at !== undefined && (
          <>
            , back to <Time at={at} />
          </>
        )}
        . One request reads up to {count(readMax)} events
        {isGoingOn ? ', and the next one is under way.' : '.'}
      </p>
      <span class="row">
        {isGoingOn ? (
          <a class="button" href={parameters.with({ from: parameters.get('from'), on: undefined })}>
            Stop
          </a>
        ) : (
          <>
            <a class="button primary" rel="next" href={parameters.with({ from: next })}>
              Go on
            </a>
            <a class="button" href={parameters.with({ from: next, on: '1' })}>
              Go on until something is found
            </a>
          </>
        )}
        <a class="button" href={parameters.with({ on: undefined })}>
          First page
        </a>
      </span>
    </>
  );
}

function isSearchUnderWay(read: Read<EventLogShown>): boolean {
  const { error } = read;
  return error instanceof RequestFailed && error.status === 429;
}

/** A node runs one search of payloads of a tenant at a time. */
function UnderWay({ read }: { readonly read: Read<EventLogShown> }) {
  return (
    <Notice tone="warn">
      <p class="strong">Another search of payloads is running.</p>
      <p>
        Leat runs one at a time for a tenant, so that searches hold up no deliveries. It takes a few
        seconds.
      </p>
      <div>
        <button type="button" class="button small" onClick={() => void read.refetch()}>
          Search again
        </button>
      </div>
    </Notice>
  );
}
