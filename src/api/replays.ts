import type { Clock, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeId } from '../core/ids.ts';
import { formatPosition } from '../core/offset.ts';
import type { Offset, Replay } from '../core/types.ts';
import {
  replay,
  replayCreate,
  type ReplayCreateSent,
  replayParams,
  type ReplayShown,
  replayText,
} from '../schemas/replays.ts';
import { streamParams } from '../schemas/schema.ts';
import { positionAt } from '../pull/start-position.ts';
import type { Store } from '../store/port/store.ts';
import { noReplay, noStream, orNotFound, streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { offsetOf, windowOf } from './formats.ts';
import { badBody, conflict } from './http/problem.ts';
import { waitForOwner } from './wait-for-owner.ts';

export interface ReplayDeps {
  readonly store: Pick<Store, 'streams' | 'log' | 'replays' | 'ownership' | 'recording'>;
  readonly clock: Pick<Clock, 'after'>;
  readonly random: RandomBytes;
}

const shared = { tag: 'Event streams', lifecycle: 'Early Access', extension: true } as const;

/** Creates the operations of replays (docs/http-api.md#replays). */
export function replayOperations(deps: ReplayDeps): Operation[] {
  return [startReplay(deps), readReplay(deps), cancelReplay(deps)];
}

function startReplay({ store, random }: ReplayDeps): Operation {
  return operation({
    ...shared,
    operationId: 'startReplay',
    method: 'POST',
    path: '/event-streams/:id/replay',
    summary: 'Send a past range of the event log to an event stream again',
    description:
      "Retained events of the range that match the subscriptions are sent again with their old ids, after new events and retries. The range begins at `date_from` or after the offset `from`, and ends at `date_to`, at the latest at the stream's position when the replay was accepted. Events with an open failure are skipped: redeliver them instead.",
    scopes: ['update:event_deliveries'],
    params: streamParams,
    body: { schema: replayCreate, required: true },
    success: 202,
    response: replay,
    errors: [404, 409],
    handle: async ({ tenant, params, body, now, entry }) => {
      const range = await rangeOf(store.log, tenant.id, body);
      const id = makeId('rpl_', now, random);
      const ids = { tenant: tenant.id, stream: params.id, id };
      const recording = store.recording(entry(params.id, id));
      const result = await recording.replays.create({ ...ids, ...range, types: body.event_types });
      if ('refused' in result) throw refusals[result.refused]();
      return { body: await showReplay(store.log, result.created) };
    },
  });
}

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
      return { body: await showReplay(store.log, orNotFound(found, noReplay)) };
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
      if (!found) throw noReplay();
      await waitForOwner(deps, { tenant: tenant.id, stream: params.id });
      return {};
    },
  });
}

/**
 * Returns the range as offsets. Reads the head first: later events have not been sent to the stream
 * yet.
 */
async function rangeOf(
  log: ReplayDeps['store']['log'],
  tenant: number,
  sent: ReplayCreateSent,
): Promise<{ from: Offset; to: Offset }> {
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
