import type { EntryPageShown, EntryShown } from '../schemas/audit-log.ts';
import { ticks } from './clock.ts';
import { eventQueryOf } from './event-query.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { logCommand, logQuery } from './log-query.ts';
import { choicesWith, kindOf } from './log-words.ts';
import { Doer, Target } from './log-parts.tsx';
import { SameElsewhere } from './parts/action.tsx';
import { Pager, Search, Select } from './parts/filters.tsx';
import { Freshness, Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { PeriodChoices, PeriodFields } from './period.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';
import './logs.css';

/** The audit log; the server filters and pages. */
export function Logs() {
  const parameters = useParameters();
  const query = logQuery(parameters, ticks.value);
  const isFiltered = Object.values(query).some((value) => value !== undefined);
  const read = useRead<EntryPageShown>(
    withQuery('/logs', { ...query, take: 50, from: parameters.get('from') }),
  );
  return (
    <Page title="Audit log" actions={<Freshness read={read} />}>
      <Filters isFiltered={isFiltered} />
      <Loaded read={read} lines={12}>
        {({ logs, next }) => (
          <div class="stack logs">
            <Table
              caption="Entries of the audit log"
              columns={columns}
              rows={logs}
              keyOf={({ log_id: id }) => id}
              empty={<Empty isFiltered={isFiltered} />}
            />
            <Pager shown={logs.length} next={next} noun="entry" many="entries" />
            <SameElsewhere
              request={{ method: 'GET', path: withQuery('/logs', query) }}
              command={logCommand(query)}
            />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function Filters({ isFiltered }: { readonly isFiltered: boolean }) {
  const parameters = useParameters();
  const period = eventQueryOf(parameters);
  return (
    <div class="stack-tight">
      <div class="toolbar log-filters">
        <Select name="types" label="What" choices={choicesWith(parameters.get('types'))} />
        <PeriodChoices label="When" since={period.since} />
        <Search name="target" label="Target" placeholder="Id of a stream, user, client …" />
        <Search name="client" label="Client" placeholder="Id, or console" />
        {isFiltered && (
          <a class="button plain" href={links.logs}>
            Clear filters
          </a>
        )}
      </div>
      {period.since === 'between' && (
        <PeriodFields label="When" button="Show this time" period={period} />
      )}
    </div>
  );
}

function Empty({ isFiltered }: { readonly isFiltered: boolean }) {
  if (!isFiltered) {
    return <p>The audit log has no entry. Entries are kept for LEAT_LOG_RETENTION_DAYS.</p>;
  }
  return (
    <>
      <p>No entry matches. Entries are kept for LEAT_LOG_RETENTION_DAYS.</p>
      <a class="button" href={links.logs}>
        Show all entries
      </a>
    </>
  );
}

const columns: readonly Column<EntryShown>[] = [
  { title: 'When', narrow: 'line', cell: ({ date }) => <Time at={date} /> },
  {
    title: 'What',
    narrow: 'first',
    cell: ({ log_id: id, type, description, count: times = 1, details: { changed = [] } }) => (
      <span class="stacked">
        <a href={links.log(id)}>{description}</a>
        <span class="meta">
          {kindOf(type)}
          {changed.length > 0 && `: ${changed.join(', ')}`}
          {times > 1 && `, ${count(times)} times`}
        </span>
      </span>
    ),
  },
  { title: 'Who', narrow: 'line', cell: (entry) => <Doer entry={entry} /> },
  {
    title: 'Targets',
    narrow: 'line',
    cell: ({ details: { targets } }) =>
      targets.length === 0 ? (
        <span class="none">–</span>
      ) : (
        <span class="stacked">
          {targets.slice(0, targetsShown).map((id) => (
            <Target key={id} id={id} />
          ))}
          {targets.length > targetsShown && (
            <span class="meta">and {count(targets.length - targetsShown)} more</span>
          )}
        </span>
      ),
  },
  {
    title: 'Address',
    narrow: 'labelled',
    cell: ({ ip }) => (ip === undefined ? <span class="none">–</span> : <code>{ip}</code>),
  },
];

const targetsShown = 2;
