import type { Clock, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeId } from '../core/ids.ts';
import { formatPosition } from '../core/offset.ts';
import type { Replay } from '../core/types.ts';
import {
  replay,
  replayCreate,
  type ReplayCreateSent,
  replayParams,
  replays,
  type ReplayShown,
  replaysQuery,
  replayText,
} from '../schemas/replays.ts';
import { compile, streamParams } from '../schemas/schema.ts';
import { positionAt } from '../pull/start-position.ts';
import type { NewReplay } from '../store/port/replays.ts';
import type { Store } from '../store/port/store.ts';
import { noReplay, noStream, orNotFound, streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { offsetOf, windowOf } from './formats.ts';
import { badBody, conflict } from './http/problem.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';
import { waitForOwner } from './wait-for-owner.ts';

export interface ReplayDeps {
  readonly store: Pick<
    Store,
    'streams' | 'log' | 'eventLog' | 'replays' | 'ownership' | 'recording'
  >;
  readonly settings: Pick<ApiSettings, 'limits'>;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  readonly random: RandomBytes;
}

const shared = { tag: 'Event streams', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of replays (docs/http-api.md#replays). */
export function replayOperations(deps: ReplayDeps): Operation[] {
  return [startReplay(deps), listReplays(deps), readReplay(deps), cancelReplay(deps)];
}

function startReplay({ store, random }: ReplayDeps): Operation {
  return operation({
    ...shared,
    operationId: 'startReplay',
    method: 'POST',
    path: '/event-streams/:id/replay',
    summary: 'Send a past range of the event log to an event stream again',
    description:
      "Retained events of the range that match the subscriptions are sent again with their old ids, after new events and retries. The range begins at `date_from` or after the offset `from`, and ends at `date_to`, at the latest at the stream's position when the replay was accepted. Events with an open failure are skipped: redeliver them instead. `event_ids` sends these events instead of a range.",
    scopes: ['update:event_deliveries'],
    params: streamParams,
    body: { schema: replayCreate, required: true },
    success: 202,
    response: replay,
    errors: [404, 409],
    handle: async ({ tenant, params, body, now, entry }) => {
      const range = await rangeOf(store, tenant.id, body);
      const id = makeId('rpl_', now, random);
      const ids = { tenant: tenant.id, stream: params.id, id };
      const recording = store.recording(entry(params.id, id));
      const result = await recording.replays.create({ ...ids, ...range, types: body.event_types });
      if ('refused' in result) throw refusals[result.refused](params.id);
      return { body: await showReplay(store.log, result.created) };
    },
  });
}

function listReplays({ store, settings }: ReplayDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listReplays',
    method: 'GET',
    path: '/event-streams/:id/replays',
    summary: 'List the replays of an event stream, newest first',
    scopes: ['read:event_deliveries'],
    params: streamParams,
    query: replaysQuery,
    isList: true,
    success: 200,
    response: replays,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      const page = pageOf(query, settings.limits, isReplayId);
      await streamOf(store, tenant.id, params.id);
      const { items, next } = await store.replays.list(tenant.id, params.id, page);
      const shown: ReplayShown[] = [];
      for (const one of items) shown.push(await showReplay(store.log, one));
      return { body: { replays: shown, ...nextOf(next) } };
    },
  });
}

const isReplayId = compile(replayParams.properties.replay_id);

function readReplay({ store }: ReplayDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readReplay',
    method: 'GET',
    path: '/event-streams/:id/replay/:replay_id',
    summary: 'Read a replay and its progress',
    scopes: ['read:event_deliveries'],
    params: replayParams,
    success: 200,
    response: replay,
    errors: [404],
    handle: async ({ tenant, params }) => {
      await streamOf(store, tenant.id, params.id);
      const found = await store.replays.get(tenant.id, params.id, params.replay_id);
      return { body: await showReplay(store.log, orNotFound(found, noReplay, params.replay_id)) };
    },
  });
}

function cancelReplay(deps: ReplayDeps): Operation {
  const { store } = deps;
  return operation({
    ...shared,
    operationId: 'cancelReplay',
    method: 'DELETE',
    path: '/event-streams/:id/replay/:replay_id',
    summary: 'Cancel a replay',
    description:
      'An attempt in progress finishes; no other follows. A finished replay does not change.',
    scopes: ['update:event_deliveries'],
    params: replayParams,
    success: 204,
    errors: [404],
    handle: async ({ tenant, params, entry }) => {
      const { id, replay_id: replayId } = params;
      await streamOf(store, tenant.id, id);
      const recording = store.recording(entry(id, replayId));
      const found = await recording.replays.cancel(tenant.id, id, replayId);
      if (!found) throw noReplay(replayId);
      await waitForOwner(deps, { tenant: tenant.id, stream: id }, 'The replay is cancelled.');
      return {};
    },
  });
}

/**
 * Returns the range as offsets. Reads the head first: later events have not been sent to the stream
 * yet.
 */
async function rangeOf(
  { log, eventLog }: Pick<ReplayDeps['store'], 'log' | 'eventLog'>,
  tenant: number,
  sent: ReplayCreateSent,
): Promise<Pick<NewReplay, 'from' | 'to' | 'offsets'>> {
  if (sent.event_ids !== undefined) {
    const others = ['from', 'date_from', 'date_to'] as const;
    const other = others.find((name) => sent[name] !== undefined);
    if (other !== undefined) {
      const reason = `event_ids does not go with ${other}, send one of them`;
      throw badBody(reason, 'event_ids', replayText.event_ids);
    }
    return chosenEvents(eventLog, tenant, sent.event_ids);
  }
  if (sent.from !== undefined && sent.date_from !== undefined) {
    throw badBody('from does not go with date_from, send one of them', 'from', replayText.from);
  }
  const window = windowOf(sent, badBody);
  const head = await log.head(tenant);
  const to =
    window.to === undefined ? head : Math.min(head, (await log.firstSince(tenant, window.to)) - 1);
  if (sent.from !== undefined) {
    const start = { text: sent.from, property: 'from', description: replayText.from };
    return { from: await offsetOf(log, tenant, head, start), to };
  }
  if (window.from === undefined) {
    const reason = 'Missing required property: date_from (or from, an offset)';
    throw badBody(reason, 'date_from', replayText.date_from);
  }
  return { from: (await log.firstSince(tenant, window.from)) - 1, to };
}

/** Returns chosen events as the range around them. Throws 400 for one that the log does not have. */
async function chosenEvents(
  eventLog: ReplayDeps['store']['eventLog'],
  tenant: number,
  ids: readonly string[],
): Promise<Pick<NewReplay, 'from' | 'to' | 'offsets'>> {
  const found = await eventLog.offsetsOf(tenant, ids);
  const unknown = ids.filter((id) => !found.has(id));
  if (unknown.length > 0) {
    const others = unknown.length > 1 ? ` and ${unknown.length - 1} more of these` : '';
    const reason = `The event log does not have ${unknown[0]}${others}`;
    throw badBody(reason, 'event_ids', replayText.event_ids);
  }
  const offsets = [...found.values()].toSorted((one, other) => one - other);
  return { from: (offsets[0] ?? 1) - 1, to: offsets.at(-1) ?? 0, offsets };
}

/** Returns a replay with its start as an offset. */
export async function showReplay(
  log: ReplayDeps['store']['log'],
  shown: Replay,
): Promise<ReplayShown> {
  const { tenant, id, status, matched, sent, failed, createdAt, finishedAt } = shown;
  return {
    id,
    status,
    from: formatPosition(await positionAt(log, tenant, shown.from)),
    matched,
    sent,
    failed,
    created_at: formatTime(createdAt),
    ...(finishedAt === undefined ? {} : { finished_at: formatTime(finishedAt) }),
  };
}

const refusals = {
  unknown: noStream,
  disabled: () => conflict('The event stream is disabled.', 'stream_disabled'),
  running: () => conflict('A replay of this event stream is already running.', 'replay_running'),
};
