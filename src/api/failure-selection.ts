import { formatTime } from '../core/date.ts';
import {
  type FailurePreviewShown,
  type SelectionSent,
  selectionText,
} from '../schemas/failures.ts';
import type { FailureGroup, FailureSelection } from '../store/port/failures.ts';
import type { Store } from '../store/port/store.ts';
import { showGroups } from './failures.ts';
import { timeOf, windowOf } from './formats.ts';
import { badBody } from './http/problem.ts';
import { streamOf } from './not-found.ts';
import type { Call } from './operation.ts';

/** Returns the filter of a request. Throws 400 unless it selects something. */
export function selectionOf(sent: SelectionSent): FailureSelection {
  const selects = Object.keys(sent).some((field) => field !== 'dry_run');
  if (!selects) {
    const reason = 'Select failures by at least one field, or send all: true';
    throw badBody(reason, 'all', selectionText.all);
  }
  if (sent.event_ids !== undefined && sent.event_stream_ids?.length !== 1) {
    const reason = 'event_ids needs event_stream_ids with one event stream';
    throw badBody(reason, 'event_ids', selectionText.event_ids);
  }
  const failedTime = (field: 'failed_from' | 'failed_to') => {
    const text = sent[field];
    if (text === undefined) return undefined;
    return timeOf(text, (reason) => badBody(reason, field, selectionText[field]));
  };
  return {
    ...windowOf(sent, badBody),
    types: sent.event_types,
    eventIds: sent.event_ids,
    failedFrom: failedTime('failed_from'),
    failedTo: failedTime('failed_to'),
    codes: sent.error_codes,
  };
}

/** Counts what a request matches, in groups. */
export async function previewOf(
  store: Pick<Store, 'streams' | 'dismissals'>,
  { tenant, now, body }: Pick<Call<unknown, unknown, SelectionSent>, 'tenant' | 'now' | 'body'>,
  streams: readonly string[],
  filter: FailureSelection,
): Promise<FailurePreviewShown> {
  const groups: FailureGroup[] = [];
  for (const id of streams) groups.push(...(await store.dismissals.groups(tenant.id, id, filter)));
  const largest = groups.toSorted((one, other) => other.count - one.count).slice(0, groupsMax);
  const newest = groups.map(({ lastFailedAt }) => lastFailedAt + 1);
  return {
    count: groups.reduce((sum, { count }) => sum + count, 0),
    groups: await showGroups(store, tenant.id, largest),
    failed_to: body.failed_to ?? formatTime(newest.length > 0 ? Math.max(...newest) : now),
  };
}

const groupsMax = 20;

/** Throws 404 unless the streams of a request exist. */
export async function requireStreams(
  store: Pick<Store, 'streams'>,
  tenant: number,
  { event_stream_ids: ids = [] }: SelectionSent,
): Promise<void> {
  for (const id of ids) await streamOf(store, tenant, id);
}
