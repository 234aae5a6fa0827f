import './failures.css';
import type { FailureGroupShown, FailureGroupsShown, FailuresShown } from '../schemas/failures.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import { CauseMeaning } from './cause.tsx';
import { causeName } from './cause-name.ts';
import { commandWord } from './command.ts';
import {
  type FailureFilter,
  failuresPath,
  filterNames,
  filterOf,
  groupsPath,
  isFiltered,
  isWithinGroups,
  selectionOf,
} from './failure-filter.ts';
import { FailureFilters, useFailingStreams } from './failure-filters.tsx';
import { EmptyGroups, FailureGroups } from './failure-groups.tsx';
import { FailureList, NewestFailure } from './failure-list.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Choices, Pager } from './parts/filters.tsx';
import { Freshness, Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { DismissalProgress, RedeliveryProgress } from './progress.tsx';
import { type Read, useRead } from './queries.ts';
import { RepairButtons } from './repair.tsx';

/** The failures of all streams by cause; with a filter those that match, and what ends them. */
export function Failures() {
  const parameters = useParameters();
  const filter = filterOf(parameters);
  const isList = isFiltered(filter) || parameters.get('view') === 'list';
  const stream = useRead<StreamHealthShown>(
    filter.stream === undefined ? undefined : `/event-streams/${filter.stream}/health`,
  );
  // Not that of the stream before, which is there until the other one is read.
  const health = stream.isPlaceholderData ? undefined : stream.data;
  const name = filter.stream === undefined ? undefined : (health?.name ?? filter.stream);
  const groups = useRead<FailureGroupsShown>(
    groupsPath(
      filter,
      isList ? {} : { from: parameters.get('from'), sort: parameters.get('sort') },
    ),
  );
  const title = titleOf(filter, name);
  const isSelected = isFiltered(filter);
  return (
    <Page
      title={title}
      {...(isSelected ? { crumb: { text: 'Failures', href: links.failures } } : {})}
      actions={
        <>
          <Freshness read={groups} />
          {filter.isRetrying !== true && groups.data?.groups.length !== 0 && (
            <RepairButtons
              selection={selectionOf(filter)}
              stream={health === undefined ? filter.stream : commandWord(health)}
              of={isSelected ? wordsOf(filter, name) : 'all open failures'}
              isPrimary={isSelected}
              {...(isSelected ? {} : { what: 'all' })}
            />
          )}
        </>
      }
    >
      <Progress filter={filter} groups={groups} />
      {!isSelected && <FailureTabs />}
      <FailureFilters filter={filter} name={name} isList={isList} />
      {isList ? (
        <Selected filter={filter} groups={groups} />
      ) : (
        <Loaded read={groups} lines={10}>
          {({ groups: rows, total, next }) => (
            <>
              <FailureGroups groups={rows} empty={<EmptyGroups />} />
              <Pager shown={rows.length} total={total} next={next} noun="group" />
            </>
          )}
        </Loaded>
      )}
    </Page>
  );
}

/** What can be seen of failures. */
export function FailureTabs() {
  return (
    <div class="row">
      <Choices
        name="view"
        label="View"
        choices={[
          { value: '', text: 'By cause' },
          { value: 'list', text: 'One by one' },
        ]}
      />
      <a href={links.redeliveries}>Past redeliveries</a>
    </div>
  );
}

function titleOf(filter: FailureFilter, name: string | undefined): string {
  if (filter.code === undefined && name !== undefined) return `Failures of ${name}`;
  if (filter.code !== undefined) return wordsOf(filter, name);
  return 'Failures';
}

/** Returns a selection in words: `HTTP 503 of crm`. */
function wordsOf({ code, ...filter }: FailureFilter, name: string | undefined): string {
  const what = code === undefined ? 'failures' : causeName(code);
  const words = `${what} of ${name ?? 'all streams'}`;
  return isWithinGroups(filter) ? `${words}, as filtered` : words;
}

/** The redelivery or dismissal that was begun on this page, until it is closed. */
function Progress({ filter, groups }: SelectedProps) {
  const parameters = useParameters();
  const redelivery = parameters.get('redelivery');
  const dismissal = parameters.get('dismissal');
  // Of several groups it is not known which one the failures that came back are of.
  const isGroup = filter.stream !== undefined && filter.code !== undefined;
  const group = isGroup && groups.data?.groups.length === 1 ? groups.data.groups[0] : undefined;
  const close = (name: 'redelivery' | 'dismissal', page: string) => (
    <span class="row">
      <a href={page}>Its page</a>
      <a
        class="button small"
        href={parameters.with({ [name]: undefined, from: parameters.get('from') })}
      >
        Hide<span class="visually-hidden"> this {name}</span>
      </a>
    </span>
  );
  return (
    <>
      {redelivery !== undefined && (
        <Panel title="Redelivery" beside={close('redelivery', links.redelivery(redelivery))}>
          <RedeliveryProgress
            key={redelivery}
            id={redelivery}
            cause={group && <Cause {...group} />}
          />
        </Panel>
      )}
      {dismissal !== undefined && (
        <Panel title="Dismissal" beside={close('dismissal', links.dismissal(dismissal))}>
          <DismissalProgress key={dismissal} id={dismissal} />
        </Panel>
      )}
    </>
  );
}

/** The code of a group, and the answer to its newest failure. */
function Cause({ error_code: code, sample }: FailureGroupShown) {
  return (
    <>
      {causeName(code)}
      {sample.error_message !== undefined && (
        <>
          , <code class="wrap-anywhere">{sample.error_message}</code>
        </>
      )}
    </>
  );
}

interface SelectedProps {
  readonly filter: FailureFilter;
  readonly groups: Read<FailureGroupsShown>;
}

/** The failures of a filter: what they are, the newest one, and all of them. */
function Selected({ filter, groups }: SelectedProps) {
  const parameters = useParameters();
  const from = parameters.get('from');
  const list = useRead<FailuresShown>(failuresPath(filter, from));
  const named = [...useFailingStreams(), ...(groups.data?.groups ?? [])];
  const names = new Map(named.map(({ event_stream_id: id, name }) => [id, name] as const));
  const newest = list.isPlaceholderData ? undefined : list.data?.deliveries[0];
  // Groups have no figures of a part of them: those of the dialog are counted.
  const counted = isWithinGroups(filter) ? undefined : groups.data;
  return (
    <>
      {counted !== undefined && <Summary {...counted} code={filter.code} />}
      {from === undefined && newest !== undefined && isFiltered(filter) && (
        <NewestFailure failure={newest} />
      )}
      {isFiltered(filter) && counted !== undefined && counted.groups.length > 1 && (
        <Panel title="By cause and stream" isFlush>
          <FailureGroups groups={counted.groups.slice(0, groupsMax)} isShort />
        </Panel>
      )}
      <Loaded read={list} lines={10}>
        {({ deliveries, next }) => (
          <>
            <FailureList
              failures={deliveries}
              filter={filter}
              names={names}
              next={next}
              reset={parameters.with(
                Object.fromEntries(filterNames.map((one) => [one, undefined])),
              )}
            />
            <Pager shown={deliveries.length} next={next} noun="failure" />
          </>
        )}
      </Loaded>
    </>
  );
}

const groupsMax = 10;

interface SummaryProps extends FailureGroupsShown {
  readonly code: string | undefined;
}

/** Says how many failures a stream and a code have, since when, and what their cause means. */
function Summary({ groups, next, code }: SummaryProps) {
  if (groups.length === 0) return null;
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const newest = groups
    .map((group) => group.last_failed_at)
    .toSorted()
    .at(-1);
  const oldest = groups.map((group) => group.first_failed_at).toSorted()[0];
  return (
    <section class="panel summary" aria-label="Open failures">
      <p class="bad value">
        {next === undefined ? '' : '≥ '}
        {count(total)}
      </p>
      <div>
        <p>
          {total === 1 ? 'open failure' : 'open failures'}, newest <Time at={newest} />, oldest{' '}
          <Time at={oldest} />
        </p>
        {code !== undefined && (
          <p>
            <CauseMeaning code={code} />
          </p>
        )}
      </div>
    </section>
  );
}
