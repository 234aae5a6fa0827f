import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { openMemoryStore } from '../auth/fixture.ts';
import { postgres } from '../store/engines.ts';
import { type ApiFixture, assertProblem, openApiFixture } from './fixture.ts';

/** PostgreSQL can neither store nor search U+0000; SQLite could do both, and gives the same responses. */

type OpenStore = NonNullable<NonNullable<Parameters<typeof openApiFixture>[1]>['open']>;

const openSqlite: OpenStore = async () => {
  const store = await openMemoryStore();
  return { store, close: () => store.close() };
};

for (const [engine, open] of [
  ['SQLite', openSqlite],
  ['PostgreSQL', () => postgres.open()],
] as const) {
  describe(`${engine}: U+0000 in a request`, () => {
    let fixture: ApiFixture;
    before(async () => {
      fixture = await openApiFixture({}, { open });
    });
    after(() => fixture.close());

    const kinds = ['clients', 'users', 'roles', 'resource-servers', 'client-grants'];
    for (const [method, path, property] of [
      ...kinds.map(
        (of) => ['DELETE', `/${of}/%00`, of === 'clients' ? 'client_id' : 'id'] as const,
      ),
      ['GET', '/users/auth0%7Ca%00b', 'id'],
      ['GET', '/roles/%00/users', 'id'],
      ['GET', '/logs/%00', 'id'],
      ['GET', '/event-log/%00', 'event_id'],
    ] as const) {
      test(`${method} ${path} is 400`, async () => {
        const response = await fixture.send(method, path);
        const start = `Path validation error: 'Has the character U+0000' on property ${property} (`;
        assert.ok(response.body.message?.startsWith(start), response.text);
        assert.deepEqual([response.status, response.body.errorCode], [400, 'invalid_uri']);
      });
    }

    for (const [path, property] of [
      ['/users-by-email?email=a%00@b.c', 'email'],
      ['/client-grants?client_id=%00', 'client_id'],
      ['/client-grants?audience=%00', 'audience'],
      ['/roles?name_filter=%00', 'name_filter'],
      ['/resource-servers?identifiers=a&identifiers=%00', 'identifiers'],
      ['/logs?target=%00', 'target'],
      ['/stream-health?q=%00', 'q'],
    ] as const) {
      test(`GET ${path} is 400`, async () => {
        const response = await fixture.send('GET', path);
        const start = `Query validation error: 'Has the character U+0000' on property ${property} (`;
        assert.ok(response.body.message?.startsWith(start), response.text);
        assert.deepEqual([response.status, response.body.errorCode], [400, 'invalid_query_string']);
      });
    }

    test('a body whose text would be stored is 400, and nothing is stored', async () => {
      const destination = {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://receiver.example.com/',
          webhook_authorization: { method: 'bearer', token: 'token' },
        },
      };
      for (const [path, body] of [
        ['/clients', { name: 'a\u0000' }],
        ['/roles', { name: 'a\u0000' }],
        ['/resource-servers', { identifier: 'https://a.example.com', name: 'a\u0000' }],
        ['/event-streams', { name: 'a\u0000', destination }],
      ] as const) {
        const { body: listed } = await fixture.send('GET', path);
        const start =
          "Payload validation error: 'Has the invisible character U+0000' on property name (";
        const response = await fixture.send('POST', path, body);
        assert.ok(response.body.message?.startsWith(start), response.text);
        assert.deepEqual([response.status, response.body.errorCode], [400, 'invalid_body']);
        assert.deepEqual((await fixture.send('GET', path)).body, listed);
      }
    });

    test('a list of ids with it is 400, and nothing is changed', async () => {
      const { body: role } = await fixture.send('POST', '/roles', { name: 'of a list' });
      const { clientId } = fixture.auth.manager;
      const message = 'A text has the character U+0000, which cannot be stored; leave it out.';
      for (const method of ['POST', 'DELETE']) {
        for (const [kind, ids] of [
          ['clients', [clientId, 'a\u0000']],
          ['users', ['a\u0000']],
        ] as const) {
          const path = `/roles/${role.id}/${kind}`;
          const response = await fixture.send(method, path, { [kind]: ids });
          assertProblem(response, 400, message, 'invalid_body');
        }
      }
      assert.deepEqual((await fixture.send('GET', `/roles/${role.id}/clients`)).body, []);
    });

    test('the id of an event is 400, where it is published and where it is looked up', async () => {
      const event = { type: 'order.paid', id: 'key\u0000', data: {} };
      const refused = await fixture.send('POST', '/events', event);
      assert.match(refused.body.message, /'Has the character U\+0000' on property id /);
      const read = await fixture.send('GET', '/event-log/key%00');
      assert.match(read.body.message, /'Has the character U\+0000' on property event_id /);
    });

    test('it is kept within JSON that is stored as such: of streams, clients, APIs and metadata', async () => {
      const text = 'a\u0000';
      const destination = {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://receiver.example.com/',
          webhook_authorization: { method: 'bearer', token: 'token' },
        },
      };
      const delivery = { filter: { [`/data/${text}`]: text }, order_by: `/data/${text}` };
      const metadata = { [text]: [text] };
      for (const [path, more, sent] of [
        ['/event-streams', { destination }, { delivery }],
        ['/clients', { name: 'a' }, { client_metadata: { [text]: text }, callbacks: [text] }],
        [
          '/resource-servers',
          { identifier: 'https://nul.example.com' },
          { scopes: [{ value: 'read:a', description: text }], consent_policy: text },
        ],
        [
          '/users',
          {
            email: 'nul@example.com',
            password: 'correct-horse-7-battery',
            connection: 'Username-Password-Authentication',
          },
          { given_name: text, user_metadata: metadata, app_metadata: metadata },
        ],
      ] as const) {
        const made = await fixture.send('POST', path, { ...more, ...sent });
        assert.equal(made.status, 201, made.text);
        const id = made.body.id ?? made.body.client_id ?? made.body.user_id;
        const read = await fixture.send('GET', `${path}/${encodeURIComponent(id)}`);
        for (const [name, value] of Object.entries(sent)) {
          assert.deepEqual([made.body[name], read.body[name]], [value, value], name);
        }
      }
    });

    test('it is accepted in the data of an event and in a profile', async () => {
      const event = { type: 'order.paid', id: 'key', data: { 'a\u0000': '\u0000' } };
      assert.equal((await fixture.send('POST', '/events', event)).status, 202);
      const user = await fixture.send('POST', '/users', {
        email: 'ada@example.com',
        password: 'correct-horse-7-battery',
        connection: 'Username-Password-Authentication',
        name: 'Ada\u0000',
      });
      assert.equal(user.body.name, 'Ada\u0000', user.text);
    });

    test('a parameter of the token endpoint is 400, and credentials are 401', async () => {
      const { clientId, clientSecret } = fixture.auth.manager;
      const good: Readonly<Record<string, string>> = {
        grant_type: 'client_credentials',
        audience: '/api/v2/',
        client_id: clientId,
        client_secret: clientSecret,
      };
      const json = { 'content-type': 'application/json' };
      const send = async (body: object, headers = {}): Promise<unknown[]> => {
        const sent = { ...json, ...headers };
        const answer = await fixture.raw('POST', '/oauth/token', JSON.stringify(body), sent);
        return [answer.status, answer.body.error, answer.body.error_description];
      };
      for (const name of ['client_id', 'client_secret', 'audience', 'scope', 'grant_type']) {
        assert.deepEqual(await send({ ...good, [name]: 'a\u0000' }), [
          400,
          'invalid_request',
          `Parameter has the character U+0000: ${name}`,
        ]);
      }
      const rest = { grant_type: good['grant_type'], audience: good['audience'] };
      const refused = [401, 'invalid_client', 'Client authentication failed'];
      for (const id of ['\u0000', '%00', `${clientId}%00`]) {
        const authorization = `Basic ${Buffer.from(`${id}:${clientSecret}`).toString('base64')}`;
        assert.deepEqual(await send(rest, { authorization }), refused);
      }
      const segment = (part: object): string =>
        Buffer.from(JSON.stringify(part)).toString('base64url');
      const claims = { iss: '\u0000', sub: '\u0000', jti: '\u0000', exp: 9e9 };
      const assertion = {
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: `${segment({ alg: 'RS256' })}.${segment(claims)}.AAAA`,
      };
      assert.deepEqual(await send({ ...rest, ...assertion }), refused);
    });
  });
}
