import type { Millis, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeSecret } from '../core/sign.ts';
import { previousExpiresAt, rotateSecret } from '../core/streams.ts';
import type { SigningSecret, Stream } from '../core/types.ts';
import { type Static, streamParams } from '../schemas/schema.ts';
import { rotation, signingSecret } from '../schemas/streams.ts';
import type { Store } from '../store/port/store.ts';
import { conflict, type Problem } from './http/problem.ts';
import { noStream, streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';

export interface SecretDeps {
  readonly store: Pick<Store, 'streams' | 'auditLog' | 'recording'>;
  readonly random: RandomBytes;
}

const shared = {
  tag: 'Event streams',
  lifecycle: 'Early Access',
  extension: true,
  params: streamParams,
} as const;

/** Creates the operations of a stream's signing secret (docs/http-api.md#signing-secrets). */
export function signingSecretOperations(deps: SecretDeps): Operation[] {
  return [readSigningSecret(deps), rotateSigningSecret(deps)];
}

/** Returns a new secret that does not expire. */
export function newSecret(random: RandomBytes, now: Millis): SigningSecret {
  return { secret: makeSecret(random), createdAt: now, expiresAt: undefined };
}

function readSigningSecret({ store }: SecretDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readSigningSecret',
    method: 'GET',
    path: '/event-streams/:id/signing-secret',
    summary: 'Read the signing secret of an event stream',
    scopes: ['update:event_streams'],
    audited: true,
    success: 200,
    response: signingSecret,
    errors: [404],
    handle: async ({ tenant, params, now, entry }) => {
      const found = await streamOf(store, tenant.id, params.id);
      // First: a secret that cannot be recorded is not shown.
      await store.auditLog.add([{ entry: entry(params.id), count: 1, ageMs: 0 }]);
      return { body: showSecret(found, now) };
    },
  });
}

function rotateSigningSecret(deps: SecretDeps): Operation {
  return operation({
    ...shared,
    operationId: 'rotateSigningSecret',
    method: 'POST',
    path: '/event-streams/:id/signing-secret/rotate',
    summary: 'Rotate the signing secret of an event stream',
    description:
      'For 24 hours, or `overlap_seconds`, requests are signed with both the former and the new secret. 409 while a previous secret is valid, unless `force` is true.',
    scopes: ['update:event_streams'],
    body: { schema: rotation, required: false },
    success: 200,
    response: signingSecret,
    errors: [404, 409],
    handle: async ({ tenant, params, body, now, entry }) => {
      const { secret } = newSecret(deps.random, now);
      const wanted = { secret, now, overlapMs: overlapOf(body), force: body?.force === true };
      // Set by the callback, which the store calls once.
      const pending: { until: Millis | undefined } = { until: undefined };
      const recording = deps.store.recording(entry(params.id));
      const result = await recording.streams.update(tenant.id, params.id, (before) => {
        const decision = rotateSecret(before, wanted);
        if ('refused' in decision) pending.until = decision.until;
        return decision;
      });
      if (pending.until !== undefined) throw rotationPending(pending.until);
      if ('refused' in result) throw noStream(params.id);
      return { body: showSecret(result.updated, now) };
    },
  });
}

function overlapOf(sent: Static<typeof rotation> | undefined): number | undefined {
  const seconds = sent?.overlap_seconds;
  return seconds === undefined ? undefined : seconds * 1000;
}

function rotationPending(until: Millis): Problem {
  return conflict(
    `The previous signing secret is valid until ${formatTime(until)}. Rotate later, or end it now with {"force": true}.`,
    'rotation_pending',
  );
}

function showSecret(stream: Stream, now: Millis): object {
  const [newest] = stream.signingSecrets;
  const until = previousExpiresAt(stream, now);
  return {
    secret: newest?.secret,
    created_at: newest && formatTime(newest.createdAt),
    ...(until === undefined ? {} : { previous_expires_at: formatTime(until) }),
  };
}
