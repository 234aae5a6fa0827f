import type { StreamHealthsShown } from '../schemas/stream-health.ts';
import { causeName } from './cause-name.ts';
import { type FailureFilter, instantOf, isFiltered, localMinute } from './failure-filter.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { type Choice, Search, Select } from './parts/filters.tsx';
import { useRead } from './queries.ts';

interface FailureFiltersProps {
  readonly filter: FailureFilter;
  /** The name of the stream of the filter. */
  readonly name: string | undefined;
  /** Whether single failures are shown, which more can be asked of than of groups. */
  readonly isList: boolean;
}

/** The fields of the filter; the address has them all. */
export function FailureFilters({ filter, name, isList }: FailureFiltersProps) {
  const hasMore = (filter.types ?? filter.failedFrom ?? filter.failedTo) !== undefined;
  return (
    <div class="toolbar">
      <StreamSelect stream={filter.stream} name={name} />
      <Select name="code" label="Cause" choices={causeChoices(filter.code)} />
      {isList && <Select name="status" label="Status" choices={statuses} />}
      {isFiltered(filter) && (
        <a class="button plain" href={links.failures}>
          Clear filters
        </a>
      )}
      {isList && (
        <details class="more-filters" open={hasMore}>
          <summary>Event types and times</summary>
          <div class="toolbar">
            <Search name="types" label="Event types" placeholder="user.created, user.updated" />
            <TimeField name="failed_from" label="Failed from" at={filter.failedFrom} />
            <TimeField name="failed_to" label="Failed before" at={filter.failedTo} />
          </div>
        </details>
      )}
    </div>
  );
}

const statuses = [
  { value: '', text: 'Open failures' },
  { value: 'retrying', text: 'Waiting for a retry' },
];

const causes = [
  'http_4xx',
  'http_5xx',
  'timeout',
  'dns',
  'refused',
  'reset',
  'tls',
  'protocol',
  'blocked_address',
  'authorization',
  'stream_disabled',
] as const;

function causeChoices(present: string | undefined): Choice[] {
  const isOther = present !== undefined && !causes.some((cause) => cause === present);
  const choices = [...(isOther ? [present] : []), ...causes];
  return [
    { value: '', text: 'All causes' },
    ...choices.map((value) => ({ value, text: causeName(value) })),
  ];
}

/** Returns the streams, those with the most open failures first, as far as one request has them. */
export function useFailingStreams(): StreamHealthsShown['streams'] {
  const { data } = useRead<StreamHealthsShown>('/stream-health?sort=-open_failures&take=100');
  return data?.streams ?? [];
}

/** Streams with the most open failures; others are reached from their own page. */
function StreamSelect({
  stream,
  name = '',
}: {
  readonly stream: string | undefined;
  readonly name: string | undefined;
}) {
  const failing = useFailingStreams()
    .filter(({ failures, event_stream_id: id }) => failures.open > 0 && id !== stream)
    .map((one) => ({ value: one.event_stream_id, text: one.name }));
  const choices = [
    { value: '', text: 'All streams' },
    ...(stream === undefined ? [] : [{ value: stream, text: name }]),
    ...failing,
  ];
  return <Select name="stream" label="Stream" choices={choices} />;
}

interface TimeFieldProps {
  readonly name: string;
  readonly label: string;
  readonly at: string | undefined;
}

/** A local time; the address has the instant. */
function TimeField({ name, label, at }: TimeFieldProps) {
  const parameters = useParameters();
  return (
    <label class="field">
      <span class="label">{label}</span>
      <input
        type="datetime-local"
        value={localMinute(at)}
        onChange={({ currentTarget }) => parameters.go({ [name]: instantOf(currentTarget.value) })}
      />
    </label>
  );
}
