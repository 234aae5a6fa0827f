import type { FailureGroupShown } from '../schemas/failures.ts';
import type { ComponentChildren } from 'preact';
import { CauseMeaning } from './cause.tsx';
import { causeName } from './cause-name.ts';
import { commandWord } from './command.ts';
import { selectionOf } from './failure-filter.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { sortBy } from './parts/filters.tsx';
import { count } from './parts/numbers.ts';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { mayRepair, RepairButtons } from './repair.tsx';

interface FailureGroupsProps {
  readonly groups: readonly FailureGroupShown[];
  /** Whether they are shown beside their failures: without samples and actions. */
  readonly isShort?: boolean;
  readonly empty?: ComponentChildren;
}

/** Open failures by stream and cause. */
export function FailureGroups({ groups, isShort = false, empty }: FailureGroupsProps) {
  const parameters = useParameters();
  const [counted, tried] = numberColumns;
  const sorted = [
    { ...counted, sort: sortBy(parameters, '-count', { isDefault: true }) },
    { ...tried, sort: sortBy(parameters, '-last_attempt_at') },
  ];
  return (
    <Table
      caption="Open failures by cause and stream"
      columns={
        isShort
          ? [causeColumn, ...numberColumns]
          : [sampledColumn, ...sorted, ...(mayRepair() ? [actionsColumn] : [])]
      }
      rows={groups}
      keyOf={({ event_stream_id: id, error_code: code }) => `${id} ${code}`}
      {...(empty === undefined ? {} : { empty })}
    />
  );
}

const causeColumn: Column<FailureGroupShown> = {
  title: 'Cause',
  narrow: 'first',
  cell: (group) => (
    <div class="cause">
      <p>
        <a class="strong" href={links.failuresOf(group.event_stream_id, group.error_code)}>
          {causeName(group.error_code)}
          <span class="visually-hidden"> of {nameOf(group)}</span>
        </a>{' '}
        <span class="muted">of</span>{' '}
        <a class="wrap-anywhere" href={links.stream(group.event_stream_id)}>
          {nameOf(group)}
        </a>
      </p>
      <CauseMeaning code={group.error_code} />
    </div>
  ),
};

const sampledColumn: Column<FailureGroupShown> = {
  ...causeColumn,
  cell: (group) => (
    <div class="stack-tight">
      {causeColumn.cell(group)}
      <Sample {...group.sample} />
    </div>
  ),
};

/** The newest failure: its event, and what the receiver answered. */
function Sample({ event_id: id, event_type: type, error_message: message }: SampleProps) {
  return (
    <p class="sample">
      <a href={links.event(id)} title={id}>
        {type}
        <span class="visually-hidden"> {id}</span>
      </a>
      {message !== undefined && <code class="clamped">{message}</code>}
    </p>
  );
}

type SampleProps = FailureGroupShown['sample'];

const numberColumns: readonly [Column<FailureGroupShown>, Column<FailureGroupShown>] = [
  { title: 'Failures', isNumber: true, cell: (group) => count(group.count) },
  {
    title: 'Last attempt',
    narrow: 'labelled',
    cell: ({ last_attempt_at: tried, last_failed_at: newest, first_failed_at: oldest }) => (
      <>
        <Time at={tried ?? newest} />
        <span class="meta nowrap">
          opened <Time at={newest} />, first <Time at={oldest} />
        </span>
      </>
    ),
  },
];

const actionsColumn: Column<FailureGroupShown> = {
  title: 'Actions',
  narrow: 'line',
  cell: (group) => (
    <RepairButtons
      selection={selectionOf({
        stream: group.event_stream_id,
        code: group.error_code ?? undefined,
      })}
      stream={commandWord(group)}
      of={wordsOf(group)}
      name={wordsOf(group)}
      isSmall
      // Failures of an unknown cause cannot be selected by it: only the whole stream can.
      isDisabled={group.error_code === null}
    />
  ),
};

function wordsOf(group: FailureGroupShown): string {
  return `${causeName(group.error_code)} of ${nameOf(group)}`;
}

/** The name of a stream that was deleted meanwhile is empty. */
function nameOf({ name, event_stream_id: id }: FailureGroupShown): string {
  return name === '' ? id : name;
}

export function EmptyGroups() {
  return (
    <>
      <p>Nothing has failed that is not repaired.</p>
      <a class="button" href={links.streams}>
        See all streams
      </a>
    </>
  );
}
