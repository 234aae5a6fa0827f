import type { Clock, Millis } from '../core/clock.ts';
import type { Stream } from '../core/types.ts';
import { emptyBody, streamParams } from '../schemas/schema.ts';
import { pauseSent, streamHealth, type StreamHealthShown } from '../schemas/stream-health.ts';
import type { Store } from '../store/port/store.ts';
import { noStream, orNotFound, streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { type HealthDeps, healthsOf } from './stream-health.ts';
import { streamConflicts } from './streams.ts';
import { waitForOwner } from './wait-for-owner.ts';

export interface PauseDeps extends HealthDeps {
  readonly store: HealthDeps['store'] & Pick<Store, 'ownership' | 'recording'>;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
}

const shared = {
  tag: 'Event streams',
  lifecycle: 'Early Access',
  extension: true,
  params: streamParams,
  success: 200,
  response: streamHealth,
} as const;

/**
 * Creates the operations that pause and resume a stream (docs/http-api.md#pausing), and the one that
 * reads its health.
 */
export function pauseOperations(deps: PauseDeps): Operation[] {
  return [pauseStream(deps), resumeStream(deps), readHealth(deps)];
}

function pauseStream(deps: PauseDeps): Operation {
  return operation({
    ...shared,
    operationId: 'pauseEventStream',
    method: 'POST',
    path: '/event-streams/:id/pause',
    summary: 'Pause an event stream',
    description:
      'First attempts, retries and replays wait; none is skipped. Redeliveries and test events are sent. A paused event stream stays as it is.',
    scopes: ['update:event_streams'],
    body: { schema: pauseSent, required: false },
    errors: [404, 409],
    handle: async ({ tenant, params, body, now, entry }) => {
      const reason = body?.reason;
      const recording = deps.store.recording(entry(params.id));
      const result = await recording.streams.update(tenant.id, params.id, (before) => ({
        after: before.paused ? before : { ...before, paused: { at: now, reason } },
      }));
      return { body: await healthAfter(deps, tenant.id, params.id, result, now) };
    },
  });
}

function resumeStream(deps: PauseDeps): Operation {
  return operation({
    ...shared,
    operationId: 'resumeEventStream',
    method: 'POST',
    path: '/event-streams/:id/resume',
    summary: 'Resume a paused event stream',
    description: 'It sends what waited. An event stream that is not paused stays as it is.',
    scopes: ['update:event_streams'],
    body: { schema: emptyBody, required: false },
    errors: [404],
    handle: async ({ tenant, params, now, entry }) => {
      const recording = deps.store.recording(entry(params.id));
      const result = await recording.streams.update(tenant.id, params.id, (before) => ({
        after: before.paused ? { ...before, paused: undefined } : before,
      }));
      return { body: await healthAfter(deps, tenant.id, params.id, result, now) };
    },
  });
}

function readHealth(deps: PauseDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readEventStreamHealth',
    method: 'GET',
    path: '/event-streams/:id/health',
    summary: 'Read the health of an event stream',
    scopes: ['read:event_streams'],
    errors: [404],
    handle: async ({ tenant, params, now }) => {
      const stream = await streamOf(deps.store, tenant.id, params.id);
      return { body: await healthOf(deps, stream, now) };
    },
  });
}

/** Returns the health after a change, once the owner has seen it. */
async function healthAfter(
  deps: PauseDeps,
  tenant: number,
  id: string,
  result: { readonly updated: Stream } | { readonly refused: keyof typeof streamConflicts },
  now: Millis,
): Promise<StreamHealthShown> {
  if ('refused' in result) throw streamConflicts[result.refused](id);
  await waitForOwner(deps, { tenant, stream: id });
  return healthOf(deps, result.updated, now);
}

async function healthOf(deps: PauseDeps, stream: Stream, now: Millis): Promise<StreamHealthShown> {
  const { tenant, id } = stream;
  const [health] = await healthsOf(
    deps,
    { tenant, ids: [id], opened: new Map([[id, stream]]) },
    now,
  );
  return orNotFound(health, noStream, id);
}
