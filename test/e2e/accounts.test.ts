import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor, type Running } from '../helpers/leat.ts';
import {
  expectBody,
  bearer,
  createStream,
  freshName,
  narrowToken,
  postJson,
  waitForStats,
  type ProblemBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

let leat: Running;

runServer({}, (running) => {
  leat = running;
});

const connection = 'Username-Password-Authentication';
const password = 'correct-horse-battery';

interface UserBody {
  readonly user_id: string;
  readonly email: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly [member: string]: unknown;
}

interface ClientBody {
  readonly client_id: string;
  readonly client_secret?: string;
  readonly name: string;
  readonly global: boolean;
}

interface GrantBody {
  readonly id: string;
  readonly client_id: string;
  readonly audience: string;
  readonly scope: readonly string[];
}

describe('a user', () => {
  test('a user is created with defaults, and the password is stored nowhere', async () => {
    const email = `${freshName()}@Example.COM`;
    const user = await createUser({ email });
    const lower = email.toLowerCase();
    const localId = user.user_id.replace(/^leat\|/, '');
    assert.match(localId, /^[0-9a-f]{24}$/);
    assert.deepEqual(user, {
      user_id: `leat|${localId}`,
      email: lower,
      email_verified: false,
      name: lower,
      nickname: lower.split('@')[0],
      picture: `http://localhost:${leat.port}/avatar.svg`,
      created_at: user.created_at,
      updated_at: user.created_at,
      identities: [{ connection, user_id: localId, provider: 'leat', isSocial: false }],
    });
    assert.deepEqual(await readUser(user), user);
  });

  test('creating, changing and deleting a user publishes events', async (t) => {
    const endpoint = await endpointOf(t);
    const types = ['user.created', 'user.updated', 'user.deleted'];
    const stream = await createStream(leat, endpoint.url, { types });
    const user = await createUser({ user_metadata: { plan: 'free' } });
    const changed = await patchUser(user, { nickname: 'ada', password: 'another-good-password' });
    const path = userPath(user);
    await expectBody(204, leat.send('DELETE', path));
    await expectBody(204, leat.send('DELETE', path));
    await expectBody<ProblemBody>(404, leat.send('PATCH', path, { nickname: 'late' }));
    const marker = await createUser({});
    await waitForStats(leat, stream.id, { delivered: 4 });
    const events = endpoint.arrivals.map(({ event }) => event);
    const of = (type: string): unknown[] =>
      events
        .filter((event) => event.type === type)
        .map(({ data }) => data['object'])
        .filter((object) => (object as UserBody).user_id === user.user_id);
    assert.deepEqual(of('user.created'), [user]);
    assert.deepEqual(of('user.updated'), [changed]);
    const [deleted] = of('user.deleted') as [UserBody & { deleted_at: string }];
    const { deleted_at, ...last } = deleted;
    assert.deepEqual(last, changed);
    assert.equal(new Date(deleted_at).toISOString(), deleted_at);
    const text = endpoint.arrivals.map(({ body }) => body).join();
    assert.ok(!text.includes('password') && !text.includes('argon2') && !text.includes(password));
    assert.ok(text.includes(marker.user_id));
  });

  test('a refused user publishes no event', async (t) => {
    const endpoint = await endpointOf(t);
    const first = await createUser({});
    const stream = await createStream(leat, endpoint.url, { types: ['user.created'] });
    const again = { email: first.email, password, connection };
    assert.deepEqual(await expectBody(409, leat.send('POST', '/api/v2/users', again)), {
      statusCode: 409,
      error: 'Conflict',
      message: 'The user already exists.',
      errorCode: 'leat_idp_error',
    });
    const marker = await createUser({});
    await waitForStats(leat, stream.id, { delivered: 1 });
    const got = endpoint.arrivals.map(({ event }) => (event.data['object'] as UserBody).user_id);
    assert.deepEqual(got, [marker.user_id]);
  });

  test('a user that is created many times at once is created once, with one event', async (t) => {
    const endpoint = await endpointOf(t);
    const stream = await createStream(leat, endpoint.url, { types: ['user.created'] });
    const email = `${freshName()}@example.com`;
    const spellings = [email, email.toUpperCase()];
    const responses = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        leat.send('POST', '/api/v2/users', {
          email: spellings[index % 2],
          password,
          connection,
        }),
      ),
    );
    const statuses = responses.map(({ status }) => status).toSorted((a, b) => a - b);
    assert.deepEqual(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    await createUser({});
    await waitForStats(leat, stream.id, { delivered: 2 });
    assert.equal(endpoint.arrivals.length, 2);
  });
});

describe('a client', () => {
  test('a client has its secret shown on creation and rotation only', async () => {
    const created = await createClient({});
    const { client_secret: secret, ...rest } = created;
    assert.ok(secret !== undefined && secret.length >= 32);
    assert.equal(created.global, false);
    const path = `/api/v2/clients/${created.client_id}`;
    assert.deepEqual(await expectBody(200, leat.send('GET', path)), rest);
    const listed = await expectBody<ClientBody[]>(
      200,
      leat.send('GET', '/api/v2/clients?per_page=100'),
    );
    assert.ok(!JSON.stringify(listed).includes('client_secret'));
    assert.ok(listed.some(({ client_id }) => client_id === created.client_id));
    const patched = await expectBody(200, leat.send('PATCH', path, { name: 'renamed' }));
    assert.deepEqual(patched, { ...rest, name: 'renamed' });
    await expectBody(204, leat.send('DELETE', path));
    await expectBody(204, leat.send('DELETE', path));
    const gone = await expectBody<ProblemBody>(404, leat.send('GET', path));
    assert.equal(gone.message, `The client does not exist: ${created.client_id}`);
  });

  test('a client that is deleted gets no token, and its grants go with it', async () => {
    const client = await createClient({});
    const grant = await createGrant(client, ['read:users']);
    assert.equal((await ask(client)).status, 200);
    await expectBody(204, leat.send('DELETE', `/api/v2/clients/${client.client_id}`));
    assert.equal((await ask(client)).status, 401);
    const grants = await expectBody<{ client_grants: GrantBody[] }>(
      200,
      leat.send('GET', `/api/v2/client-grants?client_id=${client.client_id}`),
    );
    assert.ok(!grants.client_grants.some(({ id }) => id === grant.id));
  });
});

describe('an API and its grants', () => {
  test('an API and its grants give tokens with the registered identifier and the granted scopes', async () => {
    const identifier = `https://${freshName()}.example.com`;
    const scopes = ['read:b', 'read:a'].map((value) => ({ value, description: value }));
    const api = await expectBody<{ id: string }>(
      201,
      leat.send('POST', '/api/v2/resource-servers', {
        identifier,
        name: 'Things',
        scopes,
        enforce_policies: true,
        token_dialect: 'access_token_authz',
        token_lifetime: 60,
      }),
    );
    const client = await createClient({});
    assert.deepEqual(await expectBody(403, ask(client, identifier)), {
      error: 'access_denied',
      error_description: `Client is not authorized to access "${identifier}".`,
    });
    const grant = await createGrant(client, ['read:b', 'read:a'], identifier);
    const again = { client_id: client.client_id, audience: identifier, scope: [] };
    const twice = await expectBody<ProblemBody>(
      409,
      leat.send('POST', '/api/v2/client-grants', again),
    );
    assert.equal(twice.errorCode, 'already_exists');
    const created = await expectBody<{ access_token: string; expires_in: number; scope: string }>(
      200,
      ask(client, identifier),
    );
    assert.equal(created.expires_in, 60);
    const claims = claimsOf(created.access_token);
    assert.equal(claims['aud'], identifier);
    assert.deepEqual(claims['permissions'], ['read:a', 'read:b']);
    assert.deepEqual(String(claims['scope']).split(' ').toSorted(), ['read:a', 'read:b']);

    await expectBody(
      200,
      leat.send('PATCH', `/api/v2/client-grants/${grant.id}`, { scope: ['read:a'] }),
    );
    const narrowed = await expectBody<{ access_token: string }>(200, ask(client, identifier));
    assert.deepEqual(claimsOf(narrowed.access_token)['permissions'], ['read:a']);
    await expectBody(204, leat.send('DELETE', `/api/v2/client-grants/${grant.id}`));
    assert.equal((await ask(client, identifier)).status, 403);
    const byIdentifier = `/api/v2/resource-servers/${encodeURIComponent(identifier)}`;
    const read = await expectBody<{ id: string }>(200, leat.send('GET', byIdentifier));
    assert.equal(read.id, api.id);
    await expectBody(204, leat.send('DELETE', byIdentifier));
    assert.equal((await ask(client, identifier)).status, 403);
    const none = await expectBody<ProblemBody>(404, leat.send('GET', byIdentifier));
    assert.equal(none.message, `The resource server does not exist: ${identifier}`);
  });
});

describe('scopes of a client', () => {
  const admin =
    'create:clients read:clients update:clients delete:clients ' +
    'create:client_grants read:client_grants update:client_grants delete:client_grants';

  test('a client can grant its own scopes only, to another client or to itself', async () => {
    const caller = bearer(await narrowToken(leat, `${admin} read:users`));
    const client = await createClient({});
    const grant = (scope: string[]): Promise<Response> =>
      leat.send(
        'POST',
        '/api/v2/client-grants',
        { client_id: client.client_id, audience: managementAudience(), scope },
        caller,
      );
    for (const scope of [['delete:users'], ['read:users', 'create:event_streams']]) {
      const refused = await expectBody<ProblemBody>(403, grant(scope));
      assert.equal(refused.errorCode, 'insufficient_scope');
    }
    const created = await expectBody<GrantBody>(201, grant(['read:users']));
    const path = `/api/v2/client-grants/${created.id}`;
    const wider = { scope: ['read:users', 'delete:users'] };
    await expectBody(403, leat.send('PATCH', path, wider, caller));
    const listed = await expectBody<{ client_grants: GrantBody[] }>(
      200,
      leat.send('GET', `/api/v2/client-grants?client_id=${client.client_id}`),
    );
    assert.deepEqual(
      listed.client_grants.map(({ scope }) => scope),
      [['read:users']],
    );
  });

  test('a token of a narrow scope stays narrow, although its client has more scopes', async () => {
    const narrow = bearer(await narrowToken(leat, 'create:clients'));
    const created = await expectBody<ClientBody>(
      201,
      leat.send('POST', '/api/v2/clients', { name: freshName(), global: true }, narrow),
    );
    const grant = { client_id: created.client_id, audience: managementAudience(), scope: [] };
    await expectBody(403, leat.send('POST', '/api/v2/client-grants', grant, narrow));
    await expectBody(403, leat.send('GET', '/api/v2/clients', undefined, narrow));
    await waitFor('the client to be there', async () => {
      return (await leat.send('GET', `/api/v2/clients/${created.client_id}`)).status === 200;
    });
  });
});

async function endpointOf(t: TestContext): Promise<Endpoint> {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  return endpoint;
}

async function createUser(members: Record<string, unknown>): Promise<UserBody> {
  const body = { email: `${freshName()}@example.com`, password, connection, ...members };
  return expectBody(201, leat.send('POST', '/api/v2/users', body));
}

async function readUser(user: UserBody): Promise<UserBody> {
  return expectBody(200, leat.send('GET', userPath(user)));
}

async function patchUser(user: UserBody, change: object): Promise<UserBody> {
  return expectBody(200, leat.send('PATCH', userPath(user), change));
}

function userPath({ user_id }: UserBody): string {
  return `/api/v2/users/${encodeURIComponent(user_id)}`;
}

async function createClient(members: object): Promise<ClientBody> {
  const body = { name: freshName(), ...members };
  return expectBody(201, leat.send('POST', '/api/v2/clients', body));
}

async function createGrant(
  { client_id }: ClientBody,
  scope: string[],
  audience = managementAudience(),
): Promise<GrantBody> {
  const body = { client_id, audience, scope };
  return expectBody(201, leat.send('POST', '/api/v2/client-grants', body));
}

function managementAudience(): string {
  return `https://localhost:${leat.port}/api/v2/`;
}

function ask(client: ClientBody, audience = '/api/v2/'): Promise<Response> {
  const { client_id, client_secret } = client;
  const grant_type = 'client_credentials';
  const url = `${leat.url}/oauth/token`;
  return postJson(url, { grant_type, audience, client_id, client_secret });
}

function claimsOf(token: string): Record<string, unknown> {
  const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();
  return JSON.parse(payload) as Record<string, unknown>;
}
