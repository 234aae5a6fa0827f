import type { FailureShown } from '../schemas/failures.ts';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { causeName } from './cause-name.ts';
import { now } from './clock.ts';
import { type FailureFilter, failuresPath } from './failure-filter.ts';
import { links } from './links.ts';
import { Allowed } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Code, Id } from './parts/copy.tsx';
import { duration, plural } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { mayRepair, RepairButtons } from './repair.tsx';

/** At most so many of one stream can be named in a request. */
const chosenMax = 1000;

interface FailureListProps {
  readonly failures: readonly FailureShown[];
  readonly filter: FailureFilter;
  /** Names of streams by their ids, as far as they are known. */
  readonly names: ReadonlyMap<string, string>;
  readonly next: string | undefined;
  /** Where no filter is set. */
  readonly reset: string;
}

interface Choice {
  /** The path of the list that it is of. */
  readonly selection: string;
  readonly chosen: ReadonlyMap<string, FailureShown>;
}

/** The failures of a page of the list; some can be chosen, also over several pages. */
export function FailureList({ failures, filter, names, next, reset }: FailureListProps) {
  const selection = failuresPath(filter);
  const [choice, setChoice] = useState<Choice>({ selection, chosen: new Map() });
  // Another selection begins with nothing chosen.
  const chosen = choice.selection === selection ? choice.chosen : new Map<string, FailureShown>();
  const setChosen = (after: Choice['chosen']): void => setChoice({ selection, chosen: after });
  const choose = (some: readonly FailureShown[], isChosen: boolean): void => {
    const after = new Map(chosen);
    for (const failure of some) {
      if (isChosen) after.set(keyOf(failure), failure);
      else after.delete(keyOf(failure));
    }
    setChosen(after);
  };
  const nameOf = (id: string): string => names.get(id) ?? id;
  const canChoose = filter.isRetrying !== true && failures.length > 0 && mayRepair();
  return (
    <section class="stack-tight" aria-labelledby="failures-heading">
      <h2 id="failures-heading">
        {filter.isRetrying === true ? 'Deliveries that wait for a retry' : 'Newest first'}
      </h2>
      {canChoose && (
        <Chosen
          chosen={chosen}
          isPageChosen={failures.every((one) => chosen.has(keyOf(one)))}
          choosePage={(isChosen) => choose(failures, isChosen)}
          clear={() => setChosen(new Map())}
          nameOf={nameOf}
        />
      )}
      <Table
        caption={filter.isRetrying === true ? 'Deliveries that wait for a retry' : 'Failures'}
        columns={[
          ...(canChoose ? [choiceColumn(chosen, choose)] : []),
          ...columnsOf(filter, nameOf),
        ]}
        rows={failures}
        keyOf={keyOf}
        empty={<Empty next={next} reset={reset} isRetrying={filter.isRetrying === true} />}
      />
    </section>
  );
}

function keyOf({ event_stream_id: stream, id }: FailureShown): string {
  return `${stream} ${id}`;
}

interface EmptyProps {
  readonly next: string | undefined;
  readonly reset: string;
  readonly isRetrying: boolean;
}

function Empty({ next, reset, isRetrying }: EmptyProps) {
  if (next !== undefined) return <p>None among those read so far: see the next page.</p>;
  return (
    <>
      <p>{isRetrying ? 'No delivery waits for a retry.' : 'No open failure matches.'}</p>
      <a class="button" href={reset}>
        Show all failures
      </a>
    </>
  );
}

interface ChosenProps {
  readonly chosen: ReadonlyMap<string, FailureShown>;
  readonly isPageChosen: boolean;
  readonly choosePage: (isChosen: boolean) => void;
  readonly clear: () => void;
  readonly nameOf: (id: string) => string;
}

/** What is chosen, and what can be done with it. */
function Chosen({ chosen, isPageChosen, choosePage, clear, nameOf }: ChosenProps) {
  const streams = [...new Set([...chosen.values()].map((one) => one.event_stream_id))];
  const [stream] = streams;
  const events = [...chosen.values()].map(({ id }) => id);
  const isTooMuch = streams.length > 1 || events.length > chosenMax;
  return (
    <Allowed scope="update:event_deliveries">
      <div class="chosen">
        <label class="check">
          <input
            type="checkbox"
            checked={isPageChosen}
            onChange={({ currentTarget }) => choosePage(currentTarget.checked)}
          />
          <span>Select this page</span>
        </label>
        {stream !== undefined && (
          <>
            <span class="muted">
              {plural(events.length, 'failure')} selected
              {streams.length > 1 && ` of ${streams.length} streams: select those of one only`}
              {streams.length === 1 && events.length > chosenMax && ', at most 1000 at once'}
            </span>
            <RepairButtons
              selection={{ event_stream_ids: [stream], event_ids: events }}
              stream={stream}
              of={`${plural(events.length, 'selected failure')} of ${nameOf(stream)}`}
              what="selected"
              isSmall
              isDisabled={isTooMuch}
              onStarted={clear}
            />
            <button type="button" class="button plain small" onClick={clear}>
              Clear selection
            </button>
          </>
        )}
      </div>
    </Allowed>
  );
}

function choiceColumn(
  chosen: ReadonlyMap<string, FailureShown>,
  choose: (some: readonly FailureShown[], isChosen: boolean) => void,
): Column<FailureShown> {
  return {
    title: 'Select',
    cell: (failure) => (
      <label class="choice">
        <span class="visually-hidden">Select {failure.id}</span>
        <input
          type="checkbox"
          checked={chosen.has(keyOf(failure))}
          onChange={({ currentTarget }) => choose([failure], currentTarget.checked)}
        />
      </label>
    ),
  };
}

function columnsOf(
  filter: FailureFilter,
  nameOf: (id: string) => string,
): readonly Column<FailureShown>[] {
  const isOneCause = filter.code !== undefined && !/^http_[45]xx$/.test(filter.code);
  return [
    {
      title: 'Event',
      narrow: 'first',
      cell: ({ id, event_type: type }) => (
        <span class="stacked">
          <Id value={id} what={`id ${id}`} href={links.event(id)} />
          <span class="meta wrap-anywhere">{type}</span>
        </span>
      ),
    },
    ...(filter.stream === undefined ? [streamColumn(nameOf)] : []),
    ...(isOneCause ? [] : [causeColumn]),
    {
      title: 'Answer',
      narrow: 'line',
      cell: ({ attempts }) => (
        <code class="clamped meta">{lastFailed(attempts)?.error_message ?? '–'}</code>
      ),
    },
    { title: 'Attempts', isNumber: true, narrow: 'labelled', cell: attemptsOf },
    {
      title: 'Failed',
      narrow: 'labelled',
      cell: ({ failed_at: at, attempts }) => <Time at={at ?? attempts.at(-1)?.timestamp} />,
    },
    {
      title: 'State',
      cell: ({ status, next_attempt_at: next }) => (
        <span class="row">
          <Badge
            state={next === null ? status : 'retrying'}
            {...(next === null || status === 'retrying' ? {} : { text: 'redelivering' })}
          />
          {next !== null && (
            <span class="meta">
              {Date.parse(next) > now() ? (
                <>
                  next <Time at={next} />
                </>
              ) : (
                'due'
              )}
            </span>
          )}
        </span>
      ),
    },
  ];
}

function streamColumn(nameOf: (id: string) => string): Column<FailureShown> {
  return {
    title: 'Stream',
    narrow: 'line',
    cell: ({ event_stream_id: id }) => (
      <a class="stream-name" href={links.stream(id)}>
        {nameOf(id)}
      </a>
    ),
  };
}

const causeColumn: Column<FailureShown> = {
  title: 'Cause',
  cell: ({ error_code: code, event_stream_id: id }): ComponentChildren => (
    <a class="nowrap" href={links.failuresOf(id, code)}>
      {causeName(code)}
    </a>
  ),
};

type Attempt = FailureShown['attempts'][number];

function attemptsOf({ attempts }: FailureShown): number {
  return attempts.filter(({ status }) => status === 'failed').length;
}

function lastFailed(attempts: readonly Attempt[]): Attempt | undefined {
  return attempts.findLast(({ status }) => status === 'failed');
}

const attemptsMax = 5;

const attemptColumns: readonly Column<Attempt>[] = [
  { title: 'When', narrow: 'first', cell: ({ timestamp }) => <Time at={timestamp} /> },
  {
    title: 'Took',
    isNumber: true,
    cell: ({ duration: ms }) => (ms === undefined ? '–' : duration(ms)),
  },
  {
    title: 'Answer',
    narrow: 'line',
    cell: ({ status, error_message: message }) =>
      status === 'retrying' ? (
        <span class="muted">redelivery accepted</span>
      ) : (
        <code class="clamped meta">{message ?? '–'}</code>
      ),
  },
];

/** The newest failure, as a sample of all: what the receiver answered, and at which attempts. */
export function NewestFailure({ failure }: { readonly failure: FailureShown }) {
  const { id, event_type: type, attempts } = failure;
  const message = lastFailed(attempts)?.error_message;
  const newest = attempts.slice(-attemptsMax).toReversed();
  return (
    <Panel
      title="Newest failure"
      beside={
        <a href={links.event(id)}>
          What became of this event<span class="visually-hidden"> {id}</span>
        </a>
      }
    >
      <div class="stack-tight">
        <p class="row">
          <Id value={id} what={`id ${id} of the newest failure`} />
          <span>{type}</span>
          <span class="muted">
            {plural(attemptsOf(failure), 'attempt')}
            {attempts.length > attemptsMax && `, the newest ${attemptsMax} here`}
          </span>
        </p>
        {message !== undefined && <Code text={message} what="answer of the last attempt" />}
        {attempts.length > 1 && (
          <details>
            <summary>Attempts of this failure</summary>
            <Table
              caption="Attempts of the newest failure"
              columns={attemptColumns}
              rows={newest}
              keyOf={({ timestamp, status }) => `${timestamp} ${status}`}
              isCompact
            />
          </details>
        )}
      </div>
    </Panel>
  );
}
