import type { StreamHealthShown, StreamHealthsShown } from '../schemas/stream-health.ts';
import { links } from './links.ts';
import { type Parameters, useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Choices, Pager, Search, Select, sortBy } from './parts/filters.tsx';
import { Freshness, Loaded } from './parts/loaded.tsx';
import { count, duration, percent } from './parts/numbers.ts';
import { Page } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';
import { StateReason } from './state-reason.tsx';
import { mayActOnStreams, StreamActions } from './stream-actions.tsx';

/** All streams with their health; the server filters, sorts and pages. */
export function Streams() {
  const parameters = useParameters();
  const path = withQuery('/stream-health', {
    statuses: parameters.get('statuses'),
    q: parameters.get('q'),
    sort: parameters.get('sort'),
    from: parameters.get('from'),
  });
  const read = useRead<StreamHealthsShown>(path);
  return (
    <Page title="Streams" actions={<Freshness read={read} />}>
      <div class="toolbar">
        <Search name="q" label="Search" placeholder="Name or endpoint host" />
        <Choices name="statuses" label="State" choices={states} />
        <span class="only-narrow">
          <Select name="sort" label="Order" choices={orders} />
        </span>
      </div>
      <Loaded read={read} lines={12}>
        {({ streams, total, next }) => (
          <>
            <Table
              caption="Streams"
              columns={columnsOf(parameters)}
              rows={streams}
              keyOf={(stream) => stream.event_stream_id}
              empty={<Empty isFiltered={path !== '/stream-health'} />}
            />
            <Pager shown={streams.length} total={total} next={next} noun="stream" />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const states = [
  { value: '', text: 'All' },
  { value: 'ok', text: 'ok' },
  { value: 'failing', text: 'failing' },
  { value: 'lagging', text: 'lagging' },
  { value: 'paused', text: 'paused' },
  { value: 'disabled', text: 'disabled' },
];

const orders = [
  { value: '', text: 'Name' },
  { value: '-open_failures', text: 'Most open failures' },
  { value: '-lag', text: 'Longest lag' },
  { value: '-last_failed_at', text: 'Latest failure' },
];

function Empty({ isFiltered }: { readonly isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <>
        <p>No stream matches.</p>
        <a class="button" href={links.streams}>
          Show all streams
        </a>
      </>
    );
  }
  return (
    <>
      <p>There is no stream yet. A stream sends the events of the types it subscribes to.</p>
      <Allowed scope="create:event_streams">
        <a class="button primary" href={links.first}>
          Make a first delivery
        </a>
      </Allowed>
    </>
  );
}

const actionsColumn: Column<StreamHealthShown> = {
  title: 'Actions',
  narrow: 'line',
  cell: (stream) => <StreamActions stream={stream} isSmall />,
};

function columnsOf(parameters: Parameters): readonly Column<StreamHealthShown>[] {
  return [
    {
      title: 'Name',
      narrow: 'first',
      sort: sortBy(parameters, 'name', { isDefault: true }),
      cell: ({ event_stream_id: id, name, endpoint_host: host }) => (
        <span class="stacked">
          <a href={links.stream(id)}>{name}</a>
          <span class="meta">{host}</span>
        </span>
      ),
    },
    {
      title: 'State',
      narrow: 'line',
      cell: (stream) => (
        <span class="stacked">
          <Badge state={stream.state} />
          <StateReason {...stream} />
        </span>
      ),
    },
    {
      title: 'Success, 24 h',
      isNumber: true,
      narrow: 'labelled',
      cell: ({ success_24h: share }) => (share === null ? '–' : percent(share)),
    },
    {
      title: 'p95, 24 h',
      isNumber: true,
      narrow: 'hidden',
      cell: ({ p95_24h_ms: ms }) => (ms === null ? '–' : duration(ms)),
    },
    {
      title: 'Open failures',
      isNumber: true,
      narrow: 'labelled',
      sort: sortBy(parameters, '-open_failures'),
      cell: ({ event_stream_id: id, failures: { open } }) =>
        open === 0 ? '0' : <a href={`${links.failures}?stream=${id}`}>{count(open)}</a>,
    },
    {
      title: 'Lag',
      isNumber: true,
      narrow: 'labelled',
      sort: sortBy(parameters, '-lag'),
      cell: ({ lag }) => (lag.seconds === 0 ? '0' : duration(lag.seconds * 1000)),
    },
    {
      title: 'Last delivery',
      narrow: 'hidden',
      cell: ({ last_delivered_at: at }) => <Time at={at} />,
    },
    ...(mayActOnStreams() ? [actionsColumn] : []),
  ];
}
