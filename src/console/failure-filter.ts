import { quoted } from './command.ts';
import { withQuery } from './request.ts';

/** Which failures a view shows; absent fields do not restrict. */
export interface FailureFilter {
  readonly stream?: string | undefined;
  /** An error code, or one of the classes `http_4xx` and `http_5xx`. */
  readonly code?: string | undefined;
  readonly types?: readonly string[] | undefined;
  /** Deliveries that wait for a retry instead of open failures. */
  readonly isRetrying?: boolean;
  /** When they became failures, ISO 8601: from inclusive, to exclusive. */
  readonly failedFrom?: string | undefined;
  readonly failedTo?: string | undefined;
}

/** The parameters of an address; those of `location.ts` need types of a browser, which tests have not. */
interface Address {
  get(name: string): string | undefined;
}

/** Returns the filter that an address holds. */
export function filterOf({ get }: Address): FailureFilter {
  const types = (get('types') ?? '').split(/[\s,]+/).filter((type) => type !== '');
  return {
    stream: get('stream'),
    code: get('code'),
    types: types.length === 0 ? undefined : types,
    isRetrying: get('status') === 'retrying',
    failedFrom: get('failed_from'),
    failedTo: get('failed_to'),
  };
}

/** Parameters of the address that a filter is made of. */
export const filterNames = [
  'stream',
  'code',
  'types',
  'status',
  'failed_from',
  'failed_to',
] as const;

/** Returns whether a filter leaves out open failures. */
export function isFiltered(filter: FailureFilter): boolean {
  return filter.isRetrying === true || Object.keys(selectionOf(filter))[0] !== 'all';
}

/** Returns whether failures are chosen by more than their stream and code, which groups have. */
export function isWithinGroups({
  types,
  failedFrom,
  failedTo,
  isRetrying,
}: FailureFilter): boolean {
  return isRetrying === true || (types ?? failedFrom ?? failedTo) !== undefined;
}

/** Returns the path that lists the failures. */
export function failuresPath(filter: FailureFilter, from?: string): string {
  return withQuery('/deliveries', {
    event_stream_ids: filter.stream,
    error_codes: filter.code,
    event_types: filter.types?.join(','),
    statuses: filter.isRetrying === true ? 'retrying' : undefined,
    failed_from: filter.failedFrom,
    failed_to: filter.failedTo,
    from,
  });
}

/** Returns the path that lists the groups of open failures of a stream and a code. */
export function groupsPath(
  { stream, code }: FailureFilter,
  page: { readonly from?: string | undefined; readonly sort?: string | undefined } = {},
): string {
  return withQuery('/delivery-groups', { event_stream_ids: stream, error_codes: code, ...page });
}

/** The fields of a request that select open failures. */
export interface FailureSelection {
  readonly all?: true;
  readonly event_stream_ids?: readonly string[];
  readonly event_ids?: readonly string[];
  readonly error_codes?: readonly string[];
  readonly event_types?: readonly string[];
  readonly failed_from?: string;
  readonly failed_to?: string;
}

/** Returns the selection of a filter: all open failures without any. */
export function selectionOf({
  stream,
  code,
  types,
  failedFrom,
  failedTo,
}: FailureFilter): FailureSelection {
  const selection = {
    ...(stream === undefined ? {} : { event_stream_ids: [stream] }),
    ...(code === undefined ? {} : { error_codes: [code] }),
    ...(types === undefined ? {} : { event_types: types }),
    ...(failedFrom === undefined ? {} : { failed_from: failedFrom }),
    ...(failedTo === undefined ? {} : { failed_to: failedTo }),
  };
  return Object.keys(selection).length === 0 ? { all: true } : selection;
}

/** What is done with open failures. */
export type Repair = 'redeliver' | 'dismiss';

/**
 * Returns the command that selects the same failures; none where the command line cannot select by the
 * time of the failure.
 *
 * @param stream the word for the stream of the selection, where it has one
 */
export function commandOf(
  repair: Repair,
  selection: FailureSelection,
  stream: string | undefined,
): string | undefined {
  const { event_ids: events, error_codes: codes, event_types: types } = selection;
  if ((selection.failed_from ?? selection.failed_to) !== undefined) return undefined;
  const isWhole = (events ?? codes ?? types) === undefined;
  // A stream alone is enough to redeliver all of it, and too little to dismiss it.
  const needsAll = isWhole && (stream === undefined || repair === 'dismiss');
  return [
    `leat ${repair}`,
    ...(stream === undefined ? [] : [stream]),
    ...(events ?? []),
    ...(codes === undefined ? [] : ['--cause', quoted(codes.join(','))]),
    ...(types === undefined ? [] : ['--type', quoted(types.join(','))]),
    ...(needsAll ? ['--all'] : []),
  ].join(' ');
}

/** Returns an instant as a field for local dates and times takes it, to the minute. */
export function localMinute(at: string | undefined): string {
  const ms = Date.parse(at ?? '');
  if (Number.isNaN(ms)) return '';
  const offsetMs = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - offsetMs).toISOString().slice(0, 16);
}

/** Returns the instant that such a field holds. */
export function instantOf(localText: string): string | undefined {
  const ms = Date.parse(localText);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
