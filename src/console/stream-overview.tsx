import { useState } from 'preact/hooks';
import type { AttemptsShown } from '../schemas/event-log.ts';
import type { FailureGroupShown, FailureGroupsShown } from '../schemas/failures.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import { CauseMeaning } from './cause.tsx';
import { causeName } from './cause-name.ts';
import { commandWord } from './command.ts';
import { links } from './links.ts';
import { ActionDialog, Allowed } from './parts/action.tsx';
import { Count, FailureFigures, Figure } from './parts/figure.tsx';
import { Loaded } from './parts/loaded.tsx';
import { say } from './parts/notice.tsx';
import { count, duration, percent, plural } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { refresh, useRead } from './queries.ts';
import { LatencyChart, TrafficChart, WindowChoices } from './stats.tsx';
import type { StreamProps } from './stream-props.ts';
import { AttemptTable } from './stream-attempts.tsx';
import { DeliveryFacts } from './stream-facts.tsx';

/** How a stream is doing: its figures, what fails, and its newest attempts. */
export function StreamOverview({ health, stream }: StreamProps) {
  return (
    <>
      <Figures {...health} />
      <div class="columns">
        <Panel title="Now">
          <Now {...health} />
        </Panel>
        <Panel
          title="Delivery"
          beside={<a href={`${links.stream(stream.id)}?tab=settings`}>All settings</a>}
        >
          <DeliveryFacts {...stream} />
        </Panel>
      </div>
      <Causes {...health} />
      <Charts id={stream.id} />
      <NewestAttempts id={stream.id} />
    </>
  );
}

function Figures(health: StreamHealthShown) {
  const { event_stream_id: id, failures, lag } = health;
  const { success_24h: share, p95_24h_ms: p95 } = health;
  return (
    <section class="figures" aria-label="Figures">
      <Figure label="Success, 24 h">{share === null ? '–' : percent(share)}</Figure>
      <Figure label="p95 to success, 24 h">{p95 === null ? '–' : duration(p95)}</Figure>
      <FailureFigures
        open={failures.open}
        retrying={health.retrying}
        href={links.failuresOfStream(id)}
      />
      <Figure label="Events waiting">
        {lag.at_least && '≥ '}
        <Count value={lag.events} />
      </Figure>
      <Figure label="Oldest of them">
        {lag.seconds === 0 ? '–' : duration(lag.seconds * 1000)}
      </Figure>
    </section>
  );
}

function Now(health: StreamHealthShown) {
  const { failures, results_refused: refused } = health;
  return (
    <dl class="facts">
      <dt>Retrying</dt>
      <dd class="row">
        <span>{plural(health.retrying, 'delivery', 'deliveries')}</span>
        {health.retrying > 0 && <RetryNow {...health} />}
      </dd>
      <dt>Next attempt</dt>
      <dd>
        <Time at={health.next_attempt_at} none="none is due" />
      </dd>
      <dt>In flight</dt>
      <dd>
        {count(health.in_flight)} for more than a second
        {health.in_flight > 0 && `, the oldest for ${duration(health.in_flight_seconds * 1000)}`}
      </dd>
      {health.failing_since !== null && (
        <>
          <dt>Attempts fail since</dt>
          <dd>
            <Time at={health.failing_since} />
          </dd>
        </>
      )}
      <dt>Failed in a row</dt>
      <dd>
        {count(failures.consecutive)}, disabled at {count(failures.limit_consecutive)}
      </dd>
      <dt>Open failures</dt>
      <dd>
        {count(failures.open)}, disabled at {count(failures.limit_open)}
      </dd>
      {refused !== null && (
        <>
          <dt>Results not recorded</dt>
          <dd>
            <Time at={refused.since} none="" />, error {refused.code} of the store
          </dd>
        </>
      )}
      <dt>Last delivery</dt>
      <dd>
        <Time at={health.last_delivered_at} none="not known" />
      </dd>
      <dt>Last failed attempt</dt>
      <dd>
        <Time at={health.last_failed_at} none="not known" />
      </dd>
    </dl>
  );
}

function RetryNow(health: StreamHealthShown) {
  const [isOpen, setOpen] = useState(false);
  const { event_stream_id: id, name, retrying } = health;
  return (
    <Allowed scope="update:event_deliveries">
      <button type="button" class="button small" onClick={() => setOpen(true)}>
        Retry now
      </button>
      {isOpen && (
        <ActionDialog<{ readonly due: number }>
          title={`Retry now what waits at ${name}`}
          label={`Retry ${count(retrying)}`}
          action={{
            request: { method: 'POST', path: `/event-streams/${id}/retry-now` },
            command: `leat streams retry-now ${commandWord(health)}`,
          }}
          onClose={() => setOpen(false)}
          onDone={({ due }) => {
            refresh([`/event-streams/${id}`, '/stream-health', '/deliveries']);
            say(`${plural(due, 'delivery is', 'deliveries are')} due now.`);
          }}
        >
          <p>
            {plural(retrying, 'delivery', 'deliveries')} that wait for a retry become due at once,
            instead of at their times. Attempts that fail go on with the schedule.
          </p>
        </ActionDialog>
      )}
    </Allowed>
  );
}

const groupColumns: readonly Column<FailureGroupShown>[] = [
  {
    title: 'Cause',
    narrow: 'first',
    cell: ({ error_code: code, sample }) => (
      <>
        <span class="strong">{causeName(code)}</span> <CauseMeaning code={code} />
        {sample.error_message !== undefined && (
          <code class="sample" title={sample.error_message}>
            {sample.error_message}
          </code>
        )}
      </>
    ),
  },
  { title: 'Failures', isNumber: true, narrow: 'labelled', cell: (group) => count(group.count) },
  {
    title: 'Last attempt',
    narrow: 'line',
    cell: ({ last_attempt_at: tried, last_failed_at: newest }) => (
      <span class="stacked">
        <Time at={tried ?? newest} />
        <span class="meta nowrap">
          opened <Time at={newest} />
        </span>
      </span>
    ),
  },
  {
    title: 'Repair',
    narrow: 'line',
    cell: ({ event_stream_id: id, error_code: code }) => (
      <a class="button small" href={links.failuresOf(id, code)}>
        Look into it<span class="visually-hidden">: {causeName(code)}</span>
      </a>
    ),
  },
];

function Causes({ event_stream_id: id }: StreamHealthShown) {
  const read = useRead<FailureGroupsShown>(`/delivery-groups?event_stream_ids=${id}`);
  return (
    <Panel
      title="Failures by cause"
      beside={<a href={links.failuresOfStream(id)}>All failures of the stream</a>}
      isFlush
    >
      <Loaded read={read} lines={2}>
        {({ groups }) => (
          <Table
            caption="Failures by cause"
            columns={groupColumns}
            rows={groups}
            keyOf={({ error_code: code }) => code ?? ''}
            empty="Nothing has failed that is not repaired."
          />
        )}
      </Loaded>
    </Panel>
  );
}

function Charts({ id }: { readonly id: string }) {
  return (
    <>
      <div class="row row-spread">
        <h2>Over time</h2>
        <WindowChoices initial="day" />
      </div>
      <div class="columns">
        <Panel title="Deliveries">
          <TrafficChart initial="day" streamId={id} />
        </Panel>
        <Panel title="Latency">
          <LatencyChart initial="day" streamId={id} />
        </Panel>
      </div>
    </>
  );
}

function NewestAttempts({ id }: { readonly id: string }) {
  const read = useRead<AttemptsShown>(`/event-streams/${id}/attempts?take=10`);
  return (
    <Panel
      title="Newest attempts"
      beside={<a href={`${links.stream(id)}?tab=attempts`}>All attempts</a>}
      isFlush
    >
      <Loaded read={read} lines={10}>
        {({ attempts }) => <AttemptTable attempts={attempts} />}
      </Loaded>
    </Panel>
  );
}
