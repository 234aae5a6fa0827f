import { formatTime } from '../core/date.ts';
import { parseGroupKey, parseListedKey } from '../core/page.ts';
import { mapInSlices } from '../core/slices.ts';
import type { Stream } from '../core/types.ts';
import {
  allDeliveries,
  allDeliveriesQuery,
  errorCode,
  type FailureGroupShown,
  failureGroups,
  failureText,
  groupsQuery,
} from '../schemas/failures.ts';
import { compile, eventType, streamId } from '../schemas/schema.ts';
import type { FailureGroup, ListedDelivery, ListQuery } from '../store/port/failures.ts';
import type { Store } from '../store/port/store.ts';
import { showRecord } from './deliveries.ts';
import { failedWindowOf, windowOf } from './formats.ts';
import { enumViolation, formatViolation } from './http/violation.ts';
import { badQuery } from './http/problem.ts';
import { JsonText } from './http/sliced-json.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';

export interface FailureDeps {
  readonly store: Pick<Store, 'streams' | 'failures'>;
  readonly settings: Pick<ApiSettings, 'attributePrefix' | 'limits'>;
}

const shared = { tag: 'Deliveries', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of the failures of all streams (docs/http-api.md#failures-of-all-streams). */
export function failureOperations(deps: FailureDeps): Operation[] {
  return [listAll(deps), listGroups(deps)];
}

function listAll({ store, settings }: FailureDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listAllEventDeliveries',
    method: 'GET',
    path: '/deliveries',
    summary: 'List the failures of all event streams, newest first',
    description:
      'Combined with AND. Deliveries that wait for a retry are in the order of the beginning of their cycles. A request reads at most 5,000 failures between `failed_from` and `failed_to`, and may return fewer than `take`, or none, with `next`.',
    scopes: ['read:event_deliveries'],
    query: allDeliveriesQuery,
    isList: true,
    success: 200,
    response: allDeliveries,
    handle: async ({ tenant, query }) => {
      const page = pageOf(query, settings.limits, (key) => parseListedKey(key) !== undefined);
      const selection = {
        ...windowOf(query, badQuery),
        streams: listOf(query, 'event_stream_ids', isStreamId),
        statuses: statusesOf(query.statuses),
        codes: listOf(query, 'error_codes', isErrorCode),
        types: listOf(query, 'event_types', isEventType),
        ...failedWindowOf(query, badQuery, failureText),
      };
      const { items, next } = await store.failures.list(tenant.id, { ...page, ...selection });
      const deliveries = await mapInSlices(
        items,
        (one) => new JsonText(showListed(one, settings.attributePrefix)),
        ({ event }) => event.body.length,
      );
      return { body: { deliveries, ...nextOf(next) } };
    },
  });
}

function listGroups({ store, settings }: FailureDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listDeliveryGroups',
    method: 'GET',
    path: '/delivery-groups',
    summary: 'List open failures by event stream and error code',
    scopes: ['read:event_deliveries'],
    query: groupsQuery,
    isList: true,
    success: 200,
    response: failureGroups,
    handle: async ({ tenant, query }) => {
      const { sort = '-count' } = query;
      const { after, take } = pageOf(
        query,
        settings.limits,
        (key) => parseGroupKey(key)?.sort === sort,
      );
      const streams = listOf(query, 'event_stream_ids', isStreamId);
      const codes = listOf(query, 'error_codes', isErrorCode);
      const { items, total, next, now } = await store.failures.groups(tenant.id, {
        after,
        take,
        streams,
        codes,
        sort,
      });
      const groups = await showGroups(store, tenant.id, items);
      return { body: { groups, total, ...nextOf(next), as_of: formatTime(now) } };
    },
  });
}

const isStreamId = { format: 'event-stream-id', test: compile(streamId) };
const isErrorCode = { format: 'error-code', test: compile(errorCode) };
const isEventType = { format: 'event-type', test: compile(eventType) };

type ListName = 'event_stream_ids' | 'error_codes' | 'event_types';

/** Returns the values of a comma separated parameter. Throws 400 for one without the format. */
function listOf<N extends ListName>(
  query: Readonly<Partial<Record<N, string | undefined>>>,
  name: N,
  { format, test }: { readonly format: string; test(value: unknown): boolean },
): string[] | undefined {
  const values = query[name]?.split(',');
  const invalid = values?.find((value) => !test(value));
  if (invalid === undefined) return values;
  throw badQuery(formatViolation(format, invalid), name, failureText[name]);
}

function statusesOf(text = 'failed'): ListQuery['statuses'] {
  return text.split(',').map((status) => {
    if (status === 'failed' || status === 'retrying') return status;
    const reason = enumViolation(status, ['failed', 'retrying']);
    throw badQuery(reason, 'statuses', failureText.statuses);
  });
}

function showListed(
  { stream, event, attempts, code, failedAt, nextAttemptAt }: ListedDelivery,
  prefix: string,
): string {
  const facts = {
    status: failedAt === undefined ? 'retrying' : 'failed',
    error_code: code ?? null,
    failed_at: failedAt === undefined ? null : formatTime(failedAt),
    next_attempt_at: nextAttemptAt === undefined ? null : formatTime(nextAttemptAt),
  };
  return showRecord({ event, attempts }, { streamId: stream, prefix, facts });
}

/** Returns groups with the names of their streams; the name of a stream that was deleted is empty. */
export async function showGroups(
  { streams }: Pick<Store, 'streams'>,
  tenant: number,
  groups: readonly FailureGroup[],
): Promise<FailureGroupShown[]> {
  const ids = [...new Set(groups.map(({ stream }) => stream))];
  const names = await streams.names(tenant, ids);
  return groups.map((group) => showGroup(group, names.get(group.stream) ?? ''));
}

function showGroup(
  { stream, code, count, firstFailedAt, lastFailedAt, lastAttemptAt, sample }: FailureGroup,
  name: Stream['name'],
): FailureGroupShown {
  const { eventId, eventType: type, error } = sample;
  return {
    event_stream_id: stream,
    name,
    error_code: code ?? null,
    count,
    first_failed_at: formatTime(firstFailedAt),
    last_failed_at: formatTime(lastFailedAt),
    ...(lastAttemptAt === undefined ? {} : { last_attempt_at: formatTime(lastAttemptAt) }),
    sample: {
      event_id: eventId,
      event_type: type,
      ...(error === undefined ? {} : { error_message: error }),
    },
  };
}
