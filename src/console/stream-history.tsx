import type { EntryPageShown, EntryShown } from '../schemas/audit-log.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';
import type { StreamProps } from './stream-props.ts';

/** What was done with a stream, from the audit log. */
export function StreamHistory({ stream }: StreamProps) {
  return (
    <Allowed scope="read:logs">
      <Entries id={stream.id} />
    </Allowed>
  );
}

function Entries({ id }: { readonly id: string }) {
  const path = withQuery('/logs', { target: id, take: 50, from: useParameters().get('from') });
  const read = useRead<EntryPageShown>(path);
  return (
    <>
      <p class="muted">
        What the audit log has about this stream: changes, and who read its secret. Newest first.
      </p>
      <Loaded read={read} lines={12}>
        {({ logs, next }) => (
          <>
            <Table
              caption="Entries of the audit log"
              columns={columns}
              rows={logs}
              keyOf={({ log_id: key }) => key}
              empty="The audit log has no entry about this stream; entries are kept for a limited time."
            />
            <Pager shown={logs.length} next={next} noun="entry" many="entries" />
          </>
        )}
      </Loaded>
    </>
  );
}

const columns: readonly Column<EntryShown>[] = [
  { title: 'Time', narrow: 'labelled', cell: ({ date }) => <Time at={date} /> },
  {
    title: 'What',
    narrow: 'first',
    cell: ({ log_id: id, description, details: { changed = [] }, count = 1 }) => (
      <span class="stacked">
        <a href={links.log(id)}>
          {description}
          {count > 1 && ` (${count} times)`}
        </a>
        {changed.length > 0 && <span class="meta">{changed.join(', ')}</span>}
      </span>
    ),
  },
  {
    title: 'Who',
    narrow: 'line',
    cell: ({ client_name: name, client_id: id, ip, details }) => (
      <span class="stacked">
        <span class="wrap-anywhere">{userOf(details) ?? name ?? id ?? 'Leat itself'}</span>
        {ip !== undefined && <span class="meta">{ip}</span>}
      </span>
    ),
  },
];

/** Returns the person of a session of the console. */
function userOf(details: object): string | undefined {
  const { user } = details as { readonly user?: unknown };
  return typeof user === 'string' ? user : undefined;
}
