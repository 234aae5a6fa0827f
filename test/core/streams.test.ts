import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyPatch, rotateSecret, type StreamPatch } from '../../src/core/streams.ts';
import type { Authorization, Stream } from '../../src/core/types.ts';

const created = 1_772_357_400_000;
const now = created + 60_000;
const state = { health: { consecutive: 3, total: 10 }, head: 50, totalLimit: 5000, now };
const before: Stream = {
  tenant: 1,
  id: 'est_MASi45ub7Qe4ZE36UT5G6c',
  name: 'crm',
  status: 'enabled',
  subscriptions: [{ after: 7, types: ['user.created', 'user.deleted'] }],
  destination: {
    type: 'webhook',
    endpoint: 'https://hooks.example.net/leat',
    authorization: { method: 'bearer', token: 'secret' },
  },
  delivery: undefined,
  signingSecrets: [{ secret: 'whsec_1', createdAt: created, expiresAt: undefined }],
  version: 4,
  createdAt: created,
  updatedAt: created,
};
const disabled: Stream = { ...before, status: 'disabled' };

function patched(patch: StreamPatch, stream = before): Stream {
  const decision = applyPatch(stream, patch, state);
  assert.ok('after' in decision);
  return decision.after;
}

function destination(authorization: object, endpoint = before.destination.endpoint): StreamPatch {
  return { destination: { type: 'webhook', endpoint, authorization } } as StreamPatch;
}

describe('applyPatch', () => {
  test('applyPatch changes only the fields sent and updatedAt', () => {
    const present = { ...before, delivery: undefined };
    assert.deepEqual(patched({ name: 'sales' }), { ...present, name: 'sales', updatedAt: now });
    assert.deepEqual(patched({ status: 'disabled' }), {
      ...present,
      status: 'disabled',
      updatedAt: now,
    });
  });

  test('applyPatch returns the same object when nothing changes', () => {
    const same: StreamPatch[] = [
      {},
      { name: 'crm', status: 'enabled', types: ['user.created', 'user.deleted'] },
      destination({ method: 'bearer' }),
      destination({ method: 'bearer', token: 'secret' }),
      { status: 'enabled', resume: 'held' },
    ];
    for (const patch of same) assert.equal(patched(patch), before, JSON.stringify(patch));
  });

  test('applies new subscriptions from the head of the log, with order and repeats', () => {
    const types = ['user.deleted', 'user.created', 'user.created'];
    assert.deepEqual(patched({ types }).subscriptions, [
      ...before.subscriptions,
      { after: 50, types },
    ]);
    assert.deepEqual(patched({ types: [] }).subscriptions.at(-1), { after: 50, types: [] });
  });

  test('enables with latest unless held is requested', () => {
    const enable = applyPatch(disabled, { status: 'enabled' }, state);
    assert.equal('resume' in enable && enable.resume, 'latest');
    const held = applyPatch(disabled, { status: 'enabled', resume: 'held' }, state);
    assert.equal('resume' in held && held.resume, 'held');
  });

  test('applyPatch rejects enabling at the limit of open failures, and applies nothing then', () => {
    const full = { ...state, health: { consecutive: 0, total: 5000 } };
    const patch = { status: 'enabled', name: 'sales' } as const;
    assert.deepEqual(applyPatch(disabled, patch, full), { refused: 'too_many_failures' });
    const nearly = { ...state, health: { consecutive: 0, total: 4999 } };
    assert.ok('after' in applyPatch(disabled, patch, nearly));
    assert.ok('after' in applyPatch(before, { status: 'enabled' }, full), 'already enabled');
    assert.ok('after' in applyPatch(before, { status: 'disabled' }, full));
    assert.ok('after' in applyPatch(disabled, { name: 'sales' }, full));
  });

  test('applyPatch replaces the whole destination', () => {
    const authorization = { method: 'basic', username: 'ada', password: 'p' };
    const after = patched(destination(authorization, 'https://other.example.net/'));
    assert.deepEqual(after.destination, {
      type: 'webhook',
      endpoint: 'https://other.example.net/',
      authorization,
    });
  });

  test('applyPatch accepts a new secret alone', () => {
    const after = patched(destination({ method: 'bearer', token: 'new' }));
    assert.deepEqual(after.destination.authorization, { method: 'bearer', token: 'new' });
    assert.equal(after.updatedAt, now);
  });

  const bare = {
    method: 'oauth2_client_credentials',
    tokenEndpoint: 'https://login.example.net/token',
    clientId: 'leat',
  } as const;
  const client = { ...bare, scope: 'a', audience: 'b' };
  const kinds: [present: Authorization, same: object, changed: object][] = [
    [
      { method: 'basic', username: 'ada', password: 'p' },
      { method: 'basic', username: 'ada' },
      { method: 'basic', username: 'bob' },
    ],
    [{ method: 'bearer', token: 't' }, { method: 'bearer' }, { method: 'basic', username: 'ada' }],
    [
      { method: 'custom_header', headerKey: 'x-key', headerValue: 'v' },
      { method: 'custom_header', headerKey: 'x-key' },
      { method: 'custom_header', headerKey: 'X-Key' },
    ],
    ...(['tokenEndpoint', 'clientId', 'scope', 'audience'] as const).map(
      (field): [Authorization, object, object] => [
        { ...client, clientSecret: 's' },
        client,
        { ...client, [field]: 'other' },
      ],
    ),
    [{ ...bare, clientSecret: 's' }, bare, { ...bare, scope: 'a' }],
    [{ ...client, clientSecret: 's' }, client, bare],
  ];
  for (const [index, [authorization, same, changed]] of kinds.entries()) {
    const name = `${authorization.method} secret (${index})`;
    const stream = { ...before, destination: { ...before.destination, authorization } };

    test(`applyPatch keeps the ${name} when nothing else of the destination changes`, () => {
      assert.equal(patched(destination(same), stream), stream);
    });

    test(`requires the ${name} when another field of the destination changes`, () => {
      const refused = { refused: 'secret_missing' };
      assert.deepEqual(
        applyPatch(stream, destination(same, 'https://other.example.net/'), state),
        refused,
      );
      assert.deepEqual(applyPatch(stream, destination(changed), state), refused);
    });
  }
});

describe('a client certificate', () => {
  const clientCertificate = { certificate: 'c', privateKey: 'k', expiresAt: 9 };
  const stream = { ...before, destination: { ...before.destination, clientCertificate } };
  const { type, endpoint, authorization } = before.destination;
  const withCertificate = (sent: object | null | undefined, to = endpoint) =>
    applyPatch(
      stream,
      { destination: { type, endpoint: to, authorization, clientCertificate: sent as never } },
      state,
    );
  const refused = { refused: 'key_missing' };

  test('a client certificate stays with its key when it is absent or equal', () => {
    assert.deepEqual(withCertificate(undefined), { after: stream });
    assert.deepEqual(withCertificate({ certificate: 'c', expiresAt: 9 }), { after: stream });
    assert.deepEqual(withCertificate(clientCertificate), { after: stream });
  });

  test('a client certificate needs its key again when it or the endpoint changes', () => {
    assert.deepEqual(withCertificate({ certificate: 'd', expiresAt: 9 }), refused);
    const other = 'https://other.example.net/';
    assert.deepEqual(withCertificate(undefined, other), refused);
    assert.deepEqual(withCertificate({ certificate: 'c', expiresAt: 9 }, other), refused);
    const decision = withCertificate(clientCertificate, other);
    // The authorization has its secret again, so that only the key can be missing.
    assert.ok('after' in decision);
    assert.deepEqual(decision.after.destination.clientCertificate, clientCertificate);
  });

  test('a client certificate is replaced by another pair, and removed by null', () => {
    const renewed = { certificate: 'c', privateKey: 'l', expiresAt: 9 };
    const decision = withCertificate(renewed);
    assert.ok('after' in decision);
    assert.deepEqual(decision.after.destination.clientCertificate, renewed);
    const removed = withCertificate(null);
    assert.ok('after' in removed && removed.after !== stream);
    assert.equal('clientCertificate' in removed.after.destination, false);
  });
});

describe('rotateSecret', () => {
  const dayMs = 86_400_000;
  const second = { secret: 'whsec_2', now, force: false };
  const third = { secret: 'whsec_3', now: now + 1, force: false };

  function rotated(stream: Stream, rotation: Parameters<typeof rotateSecret>[1]): Stream {
    const decision = rotateSecret(stream, rotation);
    assert.ok('after' in decision);
    return decision.after;
  }

  function secretsOf(stream: Stream): string[] {
    return stream.signingSecrets.map(({ secret }) => secret);
  }

  test('rotateSecret puts the new secret first and keeps the former one for 24 hours', () => {
    assert.deepEqual(rotated(before, second).signingSecrets, [
      { secret: 'whsec_2', createdAt: now, expiresAt: undefined },
      { secret: 'whsec_1', createdAt: created, expiresAt: now + dayMs },
    ]);
  });

  test('rotateSecret keeps the former secret for the overlap', () => {
    const [, former] = rotated(before, { ...second, overlapMs: 1000 }).signingSecrets;
    assert.equal(former?.expiresAt, now + 1000);
  });

  test('rotateSecret without an overlap drops the former secret', () => {
    assert.deepEqual(secretsOf(rotated(before, { ...second, overlapMs: 0 })), ['whsec_2']);
  });

  test('rotateSecret refuses a rotation while a previous secret is valid, and not later', () => {
    const once = rotated(before, second);
    const refused = { refused: 'rotation_pending', until: now + dayMs };
    assert.deepEqual(rotateSecret(once, third), refused);
    assert.deepEqual(rotateSecret(once, { ...third, now: now + dayMs - 1 }), refused);
    const later = rotated(once, { ...third, now: now + dayMs });
    assert.deepEqual(secretsOf(later), ['whsec_3', 'whsec_2']);
  });

  test('rotateSecret with force drops the oldest of three secrets', () => {
    const twice = rotated(rotated(before, second), { ...third, force: true });
    assert.deepEqual(secretsOf(twice), ['whsec_3', 'whsec_2']);
  });
});
