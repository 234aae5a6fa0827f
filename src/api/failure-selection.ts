import type { RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeId } from '../core/ids.ts';
import { dayMs } from '../core/units.ts';
import {
  type FailurePreviewShown,
  type SelectionSent,
  selectionText,
} from '../schemas/failures.ts';
import type { FailureGroup, FailureSelection } from '../store/port/failures.ts';
import type { Store } from '../store/port/store.ts';
import type { FailureSteps } from './failure-steps.ts';
import { showGroups } from './failures.ts';
import { failedWindowOf, windowOf } from './formats.ts';
import { badBody, conflict } from './http/problem.ts';
import { streamOf } from './not-found.ts';
import { type Call, nameOfCaller } from './operation.ts';
import type { ApiSettings } from './settings.ts';

export interface FailureWorkDeps {
  readonly store: Pick<Store, 'streams' | 'dismissals' | 'redeliveries' | 'recording'>;
  readonly random: RandomBytes;
  readonly failureSteps: Pick<FailureSteps, 'begin'>;
  readonly settings: Pick<ApiSettings, 'attemptRetentionDays'>;
}

/** Returns how long the history stays, in milliseconds. */
export function historyMsOf({ attemptRetentionDays }: FailureWorkDeps['settings']): number {
  return attemptRetentionDays * dayMs;
}

type SelectionCall = Call<unknown, unknown, SelectionSent>;

/**
 * Counts what a request with `dry_run` matches; accepts another one. Its work begins after the response was
 * read, so that this shows what was accepted.
 */
export async function previewOrBegin<Shown>(
  { store, random, failureSteps, settings }: FailureWorkDeps,
  call: SelectionCall,
  kind: 'dismissals' | 'redeliveries',
  read: (id: string) => Promise<Shown>,
): Promise<{ status: 200; body: FailurePreviewShown } | { body: Shown }> {
  const { tenant, body, now, caller, entry } = call;
  const selection = selectionOf(body);
  await requireStreams(store, tenant.id, body);
  const streams = body.event_stream_ids;
  if (body.dry_run === true) {
    const failing = await store.dismissals.streams(tenant.id, streams);
    return { status: 200, body: await previewOf(store, call, failing, selection) };
  }
  const id = makeId(kind === 'dismissals' ? 'dsm_' : 'rdl_', now, random);
  const request = { tenant: tenant.id, id, streams, selection, createdBy: nameOfCaller(caller) };
  const result = await store.recording(entry(id, ...(streams ?? [])))[kind].create(request);
  if (result !== 'accepted') throw refusals[result.refused](kind);
  const shown = await read(id);
  failureSteps.begin(id, () => store[kind].step(tenant.id, id, historyMsOf(settings)));
  return { body: shown };
}

const refusals = {
  too_many: (kind: string) =>
    conflict(
      `Too many ${kind} of this tenant are at work. Repeat the request when they have taken their failures.`,
      `too_many_${kind}`,
    ),
};

/** Returns the filter of a request. Throws 400 unless it selects something. */
function selectionOf(sent: SelectionSent): FailureSelection {
  const selects = Object.keys(sent).some((field) => field !== 'dry_run');
  if (!selects) {
    const reason = 'Select failures by at least one field, or send all: true';
    throw badBody(reason, 'all', selectionText.all);
  }
  if (sent.event_ids !== undefined && sent.event_stream_ids?.length !== 1) {
    const reason = 'event_ids needs event_stream_ids with one event stream';
    throw badBody(reason, 'event_ids', selectionText.event_ids);
  }
  return {
    ...windowOf(sent, badBody),
    types: sent.event_types,
    eventIds: sent.event_ids,
    ...failedWindowOf(sent, badBody, selectionText),
    codes: sent.error_codes,
  };
}

/** Counts what a request matches, in groups. */
async function previewOf(
  store: Pick<Store, 'streams' | 'dismissals'>,
  { tenant, now }: SelectionCall,
  streams: readonly string[],
  filter: FailureSelection,
): Promise<FailurePreviewShown> {
  const groups: FailureGroup[] = [];
  for (const id of streams) groups.push(...(await store.dismissals.groups(tenant.id, id, filter)));
  const largest = groups.toSorted((one, other) => other.count - one.count).slice(0, groupsMax);
  // Also with a time that is yet to come, so that sending it back leaves out later failures.
  const end = groups.reduce((latest, { lastFailedAt }) => Math.max(latest, lastFailedAt + 1), 0);
  return {
    count: groups.reduce((sum, { count }) => sum + count, 0),
    groups: await showGroups(store, tenant.id, largest),
    failed_to: formatTime(Math.min(filter.failedTo ?? Infinity, end || now)),
  };
}

const groupsMax = 20;

/** Throws 404 unless the streams of a request exist. */
async function requireStreams(
  store: Pick<Store, 'streams'>,
  tenant: number,
  { event_stream_ids: ids = [] }: SelectionSent,
): Promise<void> {
  for (const id of ids) await streamOf(store, tenant, id);
}
