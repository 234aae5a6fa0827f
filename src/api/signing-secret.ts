import type { Millis, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeSecret } from '../core/sign.ts';
import { rotateSecret } from '../core/streams.ts';
import type { SigningSecret, Stream } from '../core/types.ts';
import { emptyBody, streamParams } from '../schemas/schema.ts';
import { signingSecret } from '../schemas/streams.ts';
import type { Store } from '../store/port/store.ts';
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
    description: 'For 24 hours requests are signed with both the former and the new secret.',
    scopes: ['update:event_streams'],
    body: { schema: emptyBody, required: false },
    success: 200,
    response: signingSecret,
    errors: [404],
    handle: async ({ tenant, params, now, entry }) => {
      const { secret } = newSecret(deps.random, now);
      const recording = deps.store.recording(entry(params.id));
      const result = await recording.streams.update(tenant.id, params.id, (before) => ({
        after: rotateSecret(before, secret, now),
      }));
      if ('refused' in result) throw noStream();
      return { body: showSecret(result.updated, now) };
    },
  });
}

function showSecret({ signingSecrets: [newest, former] }: Stream, now: Millis): object {
  const expiresAt = former?.expiresAt;
  const isValid = expiresAt !== undefined && expiresAt > now;
  return {
    secret: newest?.secret,
    created_at: newest && formatTime(newest.createdAt),
    ...(isValid ? { previous_expires_at: formatTime(expiresAt) } : {}),
  };
}
