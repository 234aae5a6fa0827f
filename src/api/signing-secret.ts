import type { Millis, RandomBytes } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { makeSecret } from '../core/sign.ts';
import { rotateSecret } from '../core/streams.ts';
import type { SigningSecret, Stream } from '../core/types.ts';
import { emptyBody, streamParams } from '../schemas/schema.ts';
import { signingSecret } from '../schemas/streams.ts';
import type { Store } from '../store/port/store.ts';
import { type Operation, operation } from './operation.ts';
import { noStream, streamOf } from './stream-of.ts';

export interface SecretDeps {
  readonly store: Pick<Store, 'streams'>;
  readonly random: RandomBytes;
}

const tag = 'Event streams';

/** The operations of a stream's signing secret (docs/http-api.md#signing-secrets). */
export function signingSecretOperations(deps: SecretDeps): Operation[] {
  return [readSigningSecret(deps), rotateSigningSecret(deps)];
}

/** A secret made now, without an end. */
export function newSecret(random: RandomBytes, now: Millis): SigningSecret {
  return { secret: makeSecret(random), createdAt: now, expiresAt: undefined };
}

function readSigningSecret({ store }: SecretDeps): Operation {
  return operation({
    operationId: 'readSigningSecret',
    method: 'GET',
    path: '/event-streams/:id/signing-secret',
    summary: 'Read the signing secret of an event stream',
    tag,
    scopes: ['update:event_streams'],
    lifecycle: 'Early Access',
    extension: true,
    params: streamParams,
    success: 200,
    response: signingSecret,
    errors: [400, 404],
    handle: async ({ tenant, params, now }) => ({
      body: showSecret(await streamOf(store, tenant.id, params.id), now),
    }),
  });
}

function rotateSigningSecret(deps: SecretDeps): Operation {
  return operation({
    operationId: 'rotateSigningSecret',
    method: 'POST',
    path: '/event-streams/:id/signing-secret/rotate',
    summary: 'Rotate the signing secret of an event stream',
    description: 'The former secret signs beside the new one for 24 hours.',
    tag,
    scopes: ['update:event_streams'],
    lifecycle: 'Early Access',
    extension: true,
    params: streamParams,
    body: { schema: emptyBody, required: false },
    success: 200,
    response: signingSecret,
    errors: [400, 404, 413, 415],
    handle: async ({ tenant, params, now }) => {
      const { secret } = newSecret(deps.random, now);
      const answer = await deps.store.streams.update(tenant.id, params.id, (before) => ({
        after: rotateSecret(before, secret, now),
      }));
      if ('refused' in answer) throw noStream();
      return { body: showSecret(answer.updated, now) };
    },
  });
}

function showSecret({ signingSecrets: [newest, former] }: Stream, now: Millis): object {
  const expiresAt = former?.expiresAt;
  const lives = expiresAt !== undefined && expiresAt > now;
  return {
    secret: newest?.secret,
    created_at: newest && formatTime(newest.createdAt),
    ...(lives ? { previous_expires_at: formatTime(expiresAt) } : {}),
  };
}
