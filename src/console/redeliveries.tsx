import './failures.css';
import type { RedeliveriesShown, RedeliveryShown } from '../schemas/redeliveries.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { DismissalProgress, RedeliveryProgress } from './progress.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';

const failures = { text: 'Failures', href: links.failures };

/** The redeliveries of the last 30 days. */
export function Redeliveries() {
  const parameters = useParameters();
  const read = useRead<RedeliveriesShown>(
    withQuery('/redeliveries', { from: parameters.get('from'), take: 50 }),
  );
  return (
    <Page title="Redeliveries" crumb={failures}>
      <p class="muted">
        Of many failures at once; kept for 30 days. The <a href={links.logs}>audit log</a> also has
        those of single failures, and dismissals.
      </p>
      <Loaded read={read} lines={10}>
        {({ redeliveries, next }) => (
          <>
            <Table
              caption="Redeliveries"
              columns={columns}
              rows={redeliveries}
              keyOf={({ id }) => id}
              empty={<Empty />}
            />
            <Pager shown={redeliveries.length} next={next} noun="redelivery" many="redeliveries" />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Empty() {
  return (
    <>
      <p>No failures were redelivered together in the last 30 days.</p>
      <a class="button" href={links.failures}>
        See failures
      </a>
    </>
  );
}

const columns: readonly Column<RedeliveryShown>[] = [
  {
    title: 'Redelivery',
    narrow: 'first',
    cell: ({ id }) => <Id value={id} what={`id ${id}`} href={links.redelivery(id)} />,
  },
  { title: 'State', cell: ({ status }) => <Badge state={status} /> },
  { title: 'Total', isNumber: true, narrow: 'labelled', cell: ({ total }) => count(total) },
  {
    title: 'Delivered',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ delivered }) => count(delivered),
  },
  {
    title: 'Failed again',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ failed }) => <span class={failed > 0 ? 'bad' : ''}>{count(failed)}</span>,
  },
  { title: 'Skipped', isNumber: true, narrow: 'labelled', cell: ({ skipped }) => count(skipped) },
  {
    title: 'Remaining',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ remaining }) => count(remaining),
  },
  { title: 'Started', narrow: 'labelled', cell: ({ created_at: at }) => <Time at={at} /> },
  {
    title: 'By',
    narrow: 'labelled',
    cell: ({ created_by: by }) => <span class="wrap-anywhere">{by}</span>,
  },
];

interface IdProps {
  readonly id: string;
}

/** One redelivery and its progress. */
export function Redelivery({ id }: IdProps) {
  return (
    <Page title="Redelivery" crumb={{ text: 'Redeliveries', href: links.redeliveries }}>
      <p>
        <Id value={id} />
      </p>
      <Panel title="Progress" beside={<a href={links.failures}>Open failures by cause</a>}>
        <RedeliveryProgress id={id} />
      </Panel>
    </Page>
  );
}

/** One dismissal and its progress. */
export function Dismissal({ id }: IdProps) {
  return (
    <Page title="Dismissal" crumb={failures}>
      <p>
        <Id value={id} />
      </p>
      <Panel title="Progress" beside={<a href={links.failures}>Open failures by cause</a>}>
        <DismissalProgress id={id} />
      </Panel>
    </Page>
  );
}
