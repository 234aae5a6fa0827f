import type { OverviewShown } from '../schemas/overview.ts';
import { CauseMeaning } from './cause.tsx';
import { causeName } from './cause-name.ts';
import { links } from './links.ts';
import { Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Count, FailureFigures, Figure } from './parts/figure.tsx';
import { Freshness, Loaded } from './parts/loaded.tsx';
import { count, plural } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Age, Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { LatencyChart, TrafficChart, WindowChoices } from './stats.tsx';

/** The first page: how all streams are doing, what fails most, and how much passed through. */
export function Overview() {
  const read = useRead<OverviewShown>('/overview');
  return (
    <Page title="Overview" actions={<Freshness read={read} />}>
      <Loaded read={read}>
        {(overview) =>
          overview.streams.total === 0 ? (
            <Empty />
          ) : (
            <>
              <Figures {...overview} />
              <States {...overview} />
              <Groups {...overview} />
              <OverTime />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

function OverTime() {
  return (
    <>
      <div class="row row-spread">
        <h2>Over time</h2>
        <WindowChoices initial="hour" />
      </div>
      <div class="columns even">
        <Panel title="Events">
          <TrafficChart initial="hour" />
        </Panel>
        <Panel title="Latency">
          <LatencyChart initial="hour" />
        </Panel>
      </div>
    </>
  );
}

/** What an installation without streams shows. */
function Empty() {
  return (
    <Panel title="Nothing is sent yet">
      <div class="stack">
        <p>
          An event stream sends the events of your product to a webhook. The first one can go to a
          receiver inside Leat, which shows the signed request as it arrives.
        </p>
        <div>
          <Allowed scope="create:event_streams">
            <a class="button primary" href={links.first}>
              Make a first delivery
            </a>
          </Allowed>
        </div>
      </div>
    </Panel>
  );
}

function Figures({ last_hour: minutes, failures, oldest_undelivered_at: oldest }: OverviewShown) {
  const sum = (name: 'published' | 'delivered' | 'failed'): number =>
    minutes.reduce((total, minute) => total + minute[name], 0);
  return (
    <section class="figures" aria-label="Figures">
      <Figure label="Published, last hour">
        <Count value={sum('published')} />
      </Figure>
      <Figure label="Delivered, last hour">
        <Count value={sum('delivered')} />
      </Figure>
      <Figure label="Failed, last hour">
        <Count value={sum('failed')} />
      </Figure>
      <FailureFigures {...failures} href={links.failures} />
      <Figure label="Oldest undelivered event">
        {oldest === null ? 'none' : <Age at={oldest} />}
      </Figure>
    </section>
  );
}

const states = ['ok', 'failing', 'lagging', 'paused', 'disabled'] as const;

function States({ streams }: OverviewShown) {
  return (
    <Panel title={plural(streams.total, 'stream')} beside={<a href={links.streams}>All streams</a>}>
      <ul class="row">
        {states.map((state) => (
          <li key={state}>
            <a class="state-link" href={`${links.streams}?statuses=${state}`}>
              <Badge state={state} />
              <span class="number">{count(streams[state])}</span>
            </a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

type Group = OverviewShown['groups'][number];

const groupColumns: readonly Column<Group>[] = [
  {
    title: 'Stream',
    narrow: 'first',
    cell: ({ event_stream_id: id, name }) => <a href={links.stream(id)}>{name}</a>,
  },
  { title: 'Failures', isNumber: true, cell: (group) => count(group.count) },
  {
    title: 'Cause',
    narrow: 'line',
    cell: ({ error_code: code }) => (
      <>
        <span class="strong">{causeName(code)}</span> <CauseMeaning code={code} />
      </>
    ),
  },
  {
    title: 'Last attempt',
    narrow: 'labelled',
    cell: ({ last_attempt_at: tried, last_failed_at: newest }) => (
      <>
        <Time at={tried ?? newest} />
        <span class="meta nowrap">
          opened <Time at={newest} />
        </span>
      </>
    ),
  },
  {
    title: 'Repair',
    cell: ({ event_stream_id: id, error_code: code, name }) => (
      <a class="button small" href={links.failuresOf(id, code)}>
        Look into it
        <span class="visually-hidden">
          : {causeName(code)} of {name}
        </span>
      </a>
    ),
  },
];

function Groups({ groups }: OverviewShown) {
  return (
    <Panel
      title="Largest groups of failures"
      beside={<a href={links.failures}>All failures</a>}
      isFlush
    >
      <Table
        caption="Largest groups of failures"
        columns={groupColumns}
        rows={groups}
        keyOf={({ event_stream_id: id, error_code: code }) => `${id} ${code}`}
        empty="Nothing has failed that is not repaired."
      />
    </Panel>
  );
}
