import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, type TestContext, test } from 'node:test';
import { decodeProtectedHeader } from 'jose';
import { revokeKey } from '../../src/auth/keys.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { managementApiId } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { waitFor } from '../helpers/leat.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

const audience = 'https://leat.example.com/api/v2/';

/** A server, an administrator that will be revoked, and what it may act upon. */
interface Setup {
  readonly fixture: ApiFixture;
  readonly token: string;
  readonly client: string;
  readonly grant: string;
  readonly victim: string;
  readonly role: string;
}

async function openSetup(
  t: TestContext,
  options: Parameters<typeof openApiFixture>[1] = {},
): Promise<Setup> {
  const fixture = await openApiFixture({}, options);
  t.after(() => fixture.close());
  const { auth } = fixture;
  const credentials = await auth.client({}, managementScopes);
  const { clientId: victim } = await auth.client({}, ['read:users']);
  const role = await fixture.send('POST', '/roles', { name: 'admins' });
  const held = await auth.store.grants.of(auth.tenant.id, credentials.clientId, managementApiId);
  return {
    fixture,
    token: await auth.token(credentials),
    client: credentials.clientId,
    grant: held?.id ?? '',
    victim,
    role: role.body.id,
  };
}

/** Sends the head of a request and resolves once the server waits for its body. */
async function begin(
  { fixture, token }: Setup,
  [method, path, body]: Attack,
): Promise<{ finish(): Promise<number> }> {
  const sent = JSON.stringify(body);
  const socket: Socket = connect(fixture.port, '127.0.0.1');
  socket.write(
    [
      `${method} /api/v2${path} HTTP/1.1`,
      'Host: leat.example.com',
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(sent)}`,
      'Expect: 100-continue',
      'Connection: close',
      '\r\n',
    ].join('\r\n'),
  );
  const received = text(socket);
  await waitFor('the server to wait for the body', () => socket.bytesRead > 0);
  return {
    finish: async () => {
      socket.write(sent);
      const answer = await received;
      return Number(/HTTP\/1\.1 ([2-5]\d\d)/.exec(answer)?.[1]);
    },
  };
}

type Attack = readonly [method: string, path: string, body: object];

const attacks: Readonly<Record<string, (setup: Setup) => Attack>> = {
  'grant itself scopes': ({ client }) => [
    'POST',
    '/client-grants',
    { client_id: client, audience, scope: managementScopes },
  ],
  'grant another client scopes': ({ victim }) => [
    'POST',
    '/client-grants',
    { client_id: victim, audience: 'urn:other', scope: ['read:users'] },
  ],
  'create a client': () => ['POST', '/clients', { name: 'back door' }],
  'change another client': ({ victim }) => [
    'PATCH',
    `/clients/${victim}`,
    { name: 'renamed', global: false },
  ],
  'rotate a secret': ({ victim }) => ['POST', `/clients/${victim}/rotate-secret`, {}],
  'add a permission to a role': ({ role }) => [
    'POST',
    `/roles/${role}/permissions`,
    {
      permissions: [{ resource_server_identifier: audience, permission_name: 'read:users' }],
    },
  ],
  'remove a permission from a role': ({ role }) => [
    'DELETE',
    `/roles/${role}/permissions`,
    {
      permissions: [{ resource_server_identifier: audience, permission_name: 'read:users' }],
    },
  ],
  'give a role to a client': ({ role, victim }) => [
    'POST',
    `/roles/${role}/clients`,
    { clients: [victim] },
  ],
  'take a role from a client': ({ role, victim }) => [
    'DELETE',
    `/roles/${role}/clients`,
    { clients: [victim] },
  ],
  'create a user': () => ['POST', '/users', { email: 'a@example.com', password: 'Str0ng-enough!' }],
};

describe('a request that began before the revocation of its caller and sends its body after it', () => {
  for (const [name, attackOf] of Object.entries(attacks)) {
    test(`cannot ${name}`, async (t) => {
      const setup = await openSetup(t);
      const { fixture } = setup;
      const begun = await begin(setup, attackOf(setup));
      const revoked = await fixture.send('DELETE', `/client-grants/${setup.grant}`);
      assert.equal(revoked.status, 204);
      assert.equal(await begun.finish(), 403);
    });
  }

  test('is in the audit log where its body arrived after the revocation', async (t) => {
    const setup = await openSetup(t);
    const { fixture } = setup;
    const { auth } = fixture;
    const begun = await begin(setup, ['POST', '/event-streams', { name: 'late' }]);
    await fixture.send('DELETE', `/client-grants/${setup.grant}`);
    assert.equal(await begun.finish(), 403);
    const refused = await waitFor('the entry of the refusal', async () => {
      await auth.clock.advance(1000);
      const entries = await allEntries(auth.store, auth.tenant.id, { types: ['fapi'] });
      return entries.length > 0 ? entries : undefined;
    });
    assert.deepEqual(
      refused.map(({ clientId, details }) => [clientId, details['path']]),
      [[setup.client, '/api/v2/event-streams']],
    );
  });

  const revocations: Readonly<
    Record<string, (setup: Setup) => readonly [string, string, object?]>
  > = {
    'its client is deleted': ({ client }) => ['DELETE', `/clients/${client}`],
    'its client is no longer global': ({ client }) => [
      'PATCH',
      `/clients/${client}`,
      { global: false },
    ],
    'its secret is rotated': ({ client }) => ['POST', `/clients/${client}/rotate-secret`],
  };
  for (const [name, revocationOf] of Object.entries(revocations)) {
    test(`is 401 when ${name}`, async (t) => {
      const setup = await openSetup(t);
      const begun = await begin(setup, ['POST', '/clients', { name: 'back door' }]);
      const { status } = await setup.fixture.send(...revocationOf(setup));
      assert.ok([200, 204].includes(status));
      assert.equal(await begun.finish(), 401);
    });
  }
});

describe('a node that has not heard of a revocation', () => {
  /** A store whose changes reach no cache. */
  const withoutHints = (store: Store): Store => ({ ...store, watch: () => () => undefined });

  /** Asserts that a revoked caller is served except for changes of access, which have this status. */
  async function assertServed(
    setup: Setup,
    revoke: () => Promise<unknown>,
    status: number,
  ): Promise<void> {
    const { fixture, token, grant, client, victim, role } = setup;
    const { store, tenant } = fixture.auth;
    const headers = { authorization: `Bearer ${token}` };
    const send = async (...[method, path, body]: [string, string, object?]): Promise<number> =>
      (await fixture.send(method, path, body, headers)).status;
    assert.equal(await send('GET', '/clients'), 200);
    await revoke();
    assert.equal(await send('GET', '/clients'), 200, 'its access is cached');
    const changes = Object.entries(attacks).filter(([name]) => name !== 'create a user');
    for (const [name, attackOf] of changes) {
      const [method, path, body] = attackOf(setup);
      const sent = JSON.stringify(body).replace('urn:other', audience);
      assert.equal(await send(method, path, JSON.parse(sent) as object), status, name);
    }
    const others: [string, string][] = [
      ['DELETE', `/clients/${victim}`],
      ['DELETE', `/client-grants/${grant}`],
      ['DELETE', `/roles/${role}`],
    ];
    for (const other of others) assert.equal(await send(...other), status, other.join(' '));
    assert.equal((await store.clients.get(tenant.id, victim))?.version, 1);
    assert.equal(await send('GET', `/clients/${client}`), 200, 'its access is still cached');
  }

  test('serves the revoked caller for a second, except for changes of access', async (t) => {
    const setup = await openSetup(t, { around: withoutHints });
    const { store, tenant } = setup.fixture.auth;
    await assertServed(setup, () => store.grants.delete(tenant.id, setup.grant), 403);
  });

  test('accepts tokens of a revoked signing key for 5 s, except for changes of access', async (t) => {
    const setup = await openSetup(t, { around: withoutHints });
    const { store, tenant, clock } = setup.fixture.auth;
    const { kid = '' } = decodeProtectedHeader(setup.token);
    const revoke = () => revokeKey(store, tenant.id, kid, { now: clock.now() });
    await assertServed(setup, revoke, 401);
  });
});
