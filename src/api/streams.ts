import { webhookKeys } from '../auth/key-use.ts';
import { createFirstKey } from '../auth/keys.ts';
import type { Clock, Millis, RandomBytes } from '../core/clock.ts';
import { formatTime, parseTime } from '../core/date.ts';
import { filtersMax } from '../core/filter.ts';
import { makeId } from '../core/ids.ts';
import { parseOffset } from '../core/offset.ts';
import { mapInSlices } from '../core/slices.ts';
import {
  applyPatch,
  type PatchDecision,
  headerTaken,
  needsWebhookKey,
  type StreamPatch,
  type PatchContext,
  withSecret,
} from '../core/streams.ts';
import { selectionNow, selectionsMax } from '../core/subscription.ts';
import type { DeliveryOptions, Destination, Offset, Stream } from '../core/types.ts';
import { compile, streamId, streamParams } from '../schemas/schema.ts';
import {
  type DestinationSent,
  startFromText,
  stream,
  streamCreate,
  type StreamPatchSent,
  streamPatch,
  streams,
  streamsQuery,
  type StreamShown,
} from '../schemas/streams.ts';
import type { Store } from '../store/port/store.ts';
import { deliveryOptionsOf, filterTextOf, showDelivery } from './delivery-options.ts';
import { destinationOf, keyMissing, secretField, showDestination } from './destination.ts';
import type { Log } from '../core/log.ts';
import { type OperationResponse, type Call, type Operation, operation } from './operation.ts';
import { offsetOf } from './formats.ts';
import { nextOf, pageOf } from './page.ts';
import { badBody, conflict, type Problem, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { changedName, type NameField, sentName } from './sent-name.ts';
import { removeStream, waitForOwner } from './wait-for-owner.ts';
import { newSecret } from './signing-secret.ts';
import { noStream, streamOf } from './not-found.ts';

export interface StreamDeps {
  readonly store: Pick<Store, 'streams' | 'ownership' | 'log' | 'recording' | 'webhookKeys'>;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  readonly random: RandomBytes;
  readonly log: Pick<Log, 'warn'>;
  readonly settings: Pick<
    ApiSettings,
    | 'allowHttpEndpoints'
    | 'blockedLiteral'
    | 'maxStreams'
    | 'disableTotal'
    | 'streamConcurrency'
    | 'limits'
  >;
}

const shared = { tag: 'Event streams', lifecycle: 'Generally Available' } as const;
const nameField: NameField = { property: 'name', description: 'Name of the event stream' };

/** Creates the operations of event streams (docs/http-api.md#event-streams). */
export function streamOperations(deps: StreamDeps): Operation[] {
  return [
    listStreams(deps),
    createStream(deps),
    readStream(deps),
    updateStream(deps),
    deleteStream(deps),
  ];
}

function listStreams({ store, settings }: StreamDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listEventStreams',
    method: 'GET',
    path: '/event-streams',
    summary: 'List event streams, oldest first',
    scopes: ['read:event_streams'],
    query: streamsQuery,
    isList: true,
    success: 200,
    response: streams,
    handle: async ({ tenant, query }) => {
      const page = pageOf(query, settings.limits, isStreamId);
      const { items, next } = await store.streams.list(tenant.id, page);
      const eventStreams = await mapInSlices(items, showStream, lengthOf);
      return { body: { eventStreams, ...nextOf(next) } };
    },
  });
}

/** Estimates the characters of a stream in a response. */
function lengthOf({ subscriptions }: Stream): number {
  return subscriptions.length * 100;
}

function createStream(deps: StreamDeps): Operation {
  return operation({
    ...shared,
    operationId: 'createEventStream',
    method: 'POST',
    path: '/event-streams',
    summary: 'Create an event stream',
    description:
      'It receives events accepted after its creation. With `start_from` it first receives the retained events from there.',
    scopes: ['create:event_streams'],
    body: { schema: streamCreate, required: true },
    success: 201,
    response: stream,
    errors: [409],
    handle: async ({ tenant, body, now, entry }) => {
      const cursor = await startOf(deps.store.log, tenant.id, body.start_from);
      const id = makeId('est_', now, deps.random);
      const destination = newDestination(body.destination, id, deps, now);
      const delivery = body.delivery && deliveryOptionsOf(body.delivery, deps.settings);
      const taken = headerTaken(delivery, destination.authorization);
      if (taken !== undefined) throw takenHeader(taken);
      await prepareKey(deps.store, tenant.id, delivery, now);
      const result = await deps.store.recording(entry(id)).streams.create(
        {
          tenant: tenant.id,
          id,
          name: body.name === undefined ? id : sentName(body.name, nameField),
          status: body.status ?? 'enabled',
          types: typesOf(body.subscriptions) ?? [],
          filter: filterTextOf(body.delivery) ?? undefined,
          cursor,
          destination,
          delivery,
          signingSecrets: [newSecret(deps.random, now)],
          createdAt: now,
          updatedAt: now,
        },
        { streamsMax: deps.settings.maxStreams },
      );
      if ('refused' in result) throw streamConflicts[result.refused]();
      return { body: showStream(result.created) };
    },
  });
}

/** Returns the offset after which a new stream begins; `undefined` for the head of the log. */
async function startOf(
  log: Pick<Store['log'], 'head' | 'firstSince' | 'page'>,
  tenant: number,
  text: string | undefined,
): Promise<Offset | undefined> {
  if (text === undefined || text === 'now') return undefined;
  const since = parseTime(text);
  if (since !== undefined) return (await log.firstSince(tenant, since)) - 1;
  if (parseOffset(text) === undefined) {
    const reason = `Neither now, an offset nor a date: ${quoted(text)}`;
    throw badBody(reason, 'start_from', startFromText);
  }
  const head = await log.head(tenant);
  const oldest = await log.firstSince(tenant, 0);
  const start = { text, property: 'start_from', description: startFromText };
  return Math.max(await offsetOf(log, tenant, head, start), oldest - 1);
}

function readStream({ store }: StreamDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readEventStream',
    method: 'GET',
    path: '/event-streams/:id',
    summary: 'Read an event stream',
    scopes: ['read:event_streams'],
    params: streamParams,
    success: 200,
    response: stream,
    errors: [404],
    handle: async ({ tenant, params }) => ({
      body: showStream(await streamOf(store, tenant.id, params.id)),
    }),
  });
}

function updateStream(deps: StreamDeps): Operation {
  return operation({
    ...shared,
    operationId: 'updateEventStream',
    method: 'PATCH',
    path: '/event-streams/:id',
    summary: 'Update an event stream',
    description:
      'Any subset of the fields. The response to a change that enables the stream has the header `Leat-Skipped-Events`: the number of retained matching events that are not sent.',
    scopes: ['update:event_streams'],
    params: streamParams,
    body: { schema: streamPatch, required: true },
    success: 200,
    response: stream,
    errors: [404, 409],
    handle: async (call) => patchStream(deps, call),
  });
}

async function patchStream(
  deps: StreamDeps,
  { tenant, params, body, now, entry }: Call<{ id: string }, unknown, StreamPatchSent>,
): Promise<OperationResponse> {
  const { store, log, settings } = deps;
  const patch = patchOf(body, params.id, settings, now);
  await prepareKey(store, tenant.id, patch.delivery, now);
  // Set by the callback, which the store calls once.
  const decided = { enables: false };
  const recording = store.recording(entry(params.id));
  const result = await recording.streams.update(tenant.id, params.id, (before, state) => {
    const name = changedName(before.name, patch.name, nameField);
    const decision = applyPatch(before, { ...patch, name }, patchContextOf(state, settings, now));
    decided.enables = before.status === 'disabled' && patch.status === 'enabled';
    if ('after' in decision) return decision;
    if (decision.refused === 'too_many_failures') return { refused: decision.refused };
    // Ends the transaction without an entry in the audit log.
    throw problemOf(decision, patch);
  });
  if ('refused' in result) {
    throw result.refused === 'too_many_failures'
      ? tooManyFailures(result.health?.total ?? 0, settings.disableTotal)
      : streamConflicts[result.refused](params.id);
  }
  if (result.held === 'pruned') {
    log.warn(
      { stream: params.id },
      'some events published while the stream was disabled were pruned and are not sent',
    );
  }
  await waitForOwner(deps, { tenant: tenant.id, stream: params.id });
  const skipped = { 'leat-skipped-events': String(result.skipped) };
  return { body: showStream(result.updated), headers: decided.enables ? skipped : undefined };
}

/** Creates the first webhook key of the tenant if the options need one: it is published from now on. */
async function prepareKey(
  { webhookKeys: keys }: Pick<Store, 'webhookKeys'>,
  tenant: number,
  delivery: DeliveryOptions | null | undefined,
  now: Millis,
): Promise<void> {
  if (!needsWebhookKey(delivery)) return;
  await createFirstKey(keys, tenant, now, webhookKeys);
}

function deleteStream(deps: StreamDeps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteEventStream',
    method: 'DELETE',
    path: '/event-streams/:id',
    summary: 'Delete an event stream',
    description: 'Also 204 if the stream does not exist.',
    scopes: ['delete:event_streams'],
    params: streamParams,
    success: 204,
    handle: async ({ tenant, params, entry }) => {
      const recording = deps.store.recording(entry(params.id));
      await removeStream(deps, { tenant: tenant.id, stream: params.id }, recording);
      return {};
    },
  });
}

function showStream(shown: Stream): StreamShown {
  const { types, filter } = selectionNow(shown.subscriptions);
  const delivery = showDelivery(shown.delivery, filter);
  return {
    id: shown.id,
    status: shown.status,
    name: shown.name,
    subscriptions: types.map((type) => ({ event_type: type })),
    created_at: formatTime(shown.createdAt),
    updated_at: formatTime(shown.updatedAt),
    destination: showDestination(shown.destination),
    ...(delivery === undefined ? {} : { delivery }),
  };
}

/** Returns the destination of a new stream; the schema requires its secret. */
function newDestination(
  sent: DestinationSent,
  id: string,
  { settings }: StreamDeps,
  now: Millis,
): Destination {
  const owner = { id, isNew: true };
  const { type, endpoint, ...secrets } = destinationOf(sent, owner, settings, now);
  const authorization = withSecret(secrets.authorization, undefined);
  const { clientCertificate } = secrets;
  if (authorization === undefined) throw new Error('The schema of a create requires the secret.');
  if (clientCertificate?.privateKey === undefined) return { type, endpoint, authorization };
  const { privateKey } = clientCertificate;
  return {
    type,
    endpoint,
    authorization,
    clientCertificate: { ...clientCertificate, privateKey },
  };
}

function patchOf(
  sent: StreamPatchSent,
  id: string,
  settings: StreamDeps['settings'],
  now: Millis,
): StreamPatch {
  if (sent.resume !== undefined && sent.status !== 'enabled') {
    const text = 'Only beside status enabled: whether events of the disabled time are sent';
    throw badBody('resume is allowed only beside status enabled', 'resume', text);
  }
  const { name, status, resume } = sent;
  const destination =
    sent.destination && destinationOf(sent.destination, { id, isNew: false }, settings, now);
  const delivery = sent.delivery && (deliveryOptionsOf(sent.delivery, settings) ?? null);
  const filter = filterTextOf(sent.delivery);
  const types = typesOf(sent.subscriptions);
  return { name, status, resume, destination, delivery, types, filter };
}

function typesOf(
  subscriptions: readonly { readonly event_type: string }[] | undefined,
): string[] | undefined {
  return subscriptions?.map((subscription) => subscription.event_type);
}

function patchContextOf(
  state: Pick<PatchContext, 'health' | 'head'>,
  { disableTotal }: StreamDeps['settings'],
  now: number,
): PatchContext {
  return { ...state, totalLimit: disableTotal, now };
}

/** Why the store refuses a change of a stream. */
export const streamConflicts = {
  unknown: noStream,
  too_many_filters: () =>
    conflict(
      `The tenant has ${filtersMax} event streams with a filter. Remove the filter of another one, or subscribe to fewer types instead.`,
      'too_many_filters',
    ),
  too_many_changes: () =>
    conflict(
      `The subscriptions and the filter of the event stream were changed ${selectionsMax - 1} times within the retention of the event log. Repeat the request when it has no events of the first of these.`,
      'too_many_changes',
    ),
  name_taken: () => conflict('Event stream name already in use.', 'stream_name_in_use'),
  too_many: () =>
    conflict('You have reached the maximum number of event streams.', 'too_many_streams'),
};

function tooManyFailures(total: number, limit: number): Problem {
  return conflict(
    `The event stream has ${total} failed deliveries. Redeliver failed events until fewer than ${limit} remain, then enable it again.`,
    'too_many_failures',
  );
}

function takenHeader(name: string): Problem {
  const reason = `Header not allowed: ${quoted(name)} (the authorization of the destination sends it)`;
  return badBody(reason, `delivery.headers.${name}`, 'Headers of every request, by name');
}

function problemOf(
  decision: Exclude<
    PatchDecision,
    { readonly after: Stream } | { readonly refused: 'too_many_failures' }
  >,
  patch: StreamPatch,
): Problem {
  if (decision.refused === 'header_taken') return takenHeader(decision.header);
  return decision.refused === 'key_missing' ? keyMissing() : secretMissing(patch);
}

function secretMissing({ destination }: StreamPatch): Problem {
  const field = secretField(destination?.authorization.method ?? 'bearer');
  const reason = `Missing required property: ${field} (required because the destination changes)`;
  const at = `destination.configuration.webhook_authorization.${field}`;
  return badBody(reason, at, 'Secret of the destination');
}

const isStreamId = compile(streamId);
