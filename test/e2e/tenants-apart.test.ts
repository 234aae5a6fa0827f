import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { exchange } from '../helpers/exchange.ts';
import { createTempStore, freePort, type Running, startLeat } from '../helpers/leat.ts';
import { createTenant, type Tenant, twoTenantsSettings } from '../helpers/tenants.ts';

type Sent = readonly [method: string, path: string, body?: unknown];

interface Fixture {
  readonly one: Running;
  readonly two: Tenant;
  close(): Promise<void>;
}

async function openFixture(proxy: string): Promise<Fixture> {
  const tempStore = await createTempStore();
  const settings = twoTenantsSettings(await freePort());
  const one = await startLeat(tempStore, { ...settings, LEAT_TRUST_PROXY: proxy });
  const close = async (): Promise<void> => {
    await one.kill();
    await tempStore.remove();
  };
  return { one, two: await createTenant(one, tempStore.file), close };
}

/** The idempotency key of the event of a tenant. */
const eventKey = 'secret key';

/** Texts that only the tenant with the resources knows. */
const secrets = /secret-stream|secret-client|secret-role|secret-event|whsec_/;

interface Resources {
  readonly stream: string;
  readonly event: string;
  readonly replay: string;
  readonly redelivery: string;
  readonly dismissal: string;
  readonly user: string;
  readonly client: string;
  readonly api: string;
  readonly identifier: string;
  readonly grant: string;
  readonly role: string;
  readonly entry: string;
}

async function createResources(send: Tenant['send']): Promise<Resources> {
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  const created = async (...[method, path, body]: Sent): Promise<any> => {
    const response = await send(method, `/api/v2${path}`, body);
    assert.ok(
      response.ok,
      `${method} ${path}: ${response.status} ${await response.clone().text()}`,
    );
    return response.json();
  };
  const stream = await created('POST', '/event-streams', {
    name: 'secret-stream',
    // Nothing is delivered, so that only another tenant could change it.
    subscriptions: [{ event_type: 'never.published' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'http://127.0.0.1:9/secret',
        webhook_authorization: { method: 'bearer', token: 'secret' },
      },
    },
  });
  const user = await created('POST', '/users', {
    email: 'secret@example.com',
    password: 'Str0ng-enough!',
    connection: 'Username-Password-Authentication',
  });
  const client = await created('POST', '/clients', { name: 'secret-client' });
  const identifier = 'https://secret.example.com';
  const api = await created('POST', '/resource-servers', {
    identifier,
    scopes: [{ value: 'read:secrets' }],
  });
  const grant = await created('POST', '/client-grants', {
    client_id: client.client_id,
    audience: identifier,
    scope: ['read:secrets'],
  });
  const role = await created('POST', '/roles', { name: 'secret-role' });
  await created('POST', `/roles/${role.id}/permissions`, {
    permissions: [{ resource_server_identifier: identifier, permission_name: 'read:secrets' }],
  });
  const replay = await created('POST', `/event-streams/${stream.id}/replay`, {
    date_from: new Date(Date.now() - 60_000).toISOString(),
  });
  const event = await created('POST', '/events', {
    type: 'secret.type',
    id: eventKey,
    data: { in: 'secret-event' },
  });
  const redelivery = await created('POST', '/redeliveries', { all: true });
  const dismissal = await created('POST', '/dismissals', { all: true });
  const [entry] = await created('GET', '/logs');
  return {
    stream: stream.id,
    event: event.id,
    replay: replay.id,
    redelivery: redelivery.id,
    dismissal: dismissal.id,
    user: user.user_id,
    client: client.client_id,
    api: api.id,
    identifier,
    grant: grant.id,
    role: role.id,
    entry: entry.log_id,
  };
}

function requestsWith(ids: Resources): Sent[] {
  const { stream, event, replay, redelivery, dismissal, entry } = ids;
  const { user, client, api, identifier, grant, role } = ids;
  const u = encodeURIComponent(user);
  const a = encodeURIComponent(identifier);
  const permission = { resource_server_identifier: identifier, permission_name: 'read:secrets' };
  return [
    ['GET', `/event-streams/${stream}`],
    ['PATCH', `/event-streams/${stream}`, { name: 'taken' }],
    ['GET', `/event-streams/${stream}/signing-secret`],
    ['POST', `/event-streams/${stream}/signing-secret/rotate`],
    ['POST', `/event-streams/${stream}/test`, { event_type: 'user.created' }],
    ['GET', `/event-streams/${stream}/received`],
    ['PUT', `/event-streams/${stream}/received/answer`, { status: 500 }],
    ['GET', `/event-streams/${stream}/stats`],
    ['GET', `/event-streams/${stream}/deliveries`],
    ['GET', `/event-streams/${stream}/deliveries/${event}`],
    ['POST', `/event-streams/${stream}/redeliver/${event}`],
    ['POST', `/event-streams/${stream}/redeliver`, { date_from: '2020-01-01T00:00:00Z' }],
    ['POST', `/event-streams/${stream}/replay`, { date_from: '2020-01-01T00:00:00Z' }],
    ['GET', `/event-streams/${stream}/replay/${replay}`],
    ['DELETE', `/event-streams/${stream}/replay/${replay}`],
    ['GET', `/event-streams/${stream}/replays`],
    ['POST', `/event-streams/${stream}/replay`, { event_ids: [event] }],
    ['GET', `/event-streams/${stream}/attempts`],
    ['GET', `/event-streams/${stream}/skipped`],
    ['GET', `/event-log/${event}`],
    ['GET', `/event-log/${encodeURIComponent(eventKey)}`],
    ['GET', '/event-log'],
    ['GET', `/event-log?filter=${encodeURIComponent('{"type":"secret.type"}')}`],
    ['GET', '/event-log?event_types=secret.type'],
    ['GET', `/deliveries?event_stream_ids=${stream}`],
    ['GET', `/delivery-groups?event_stream_ids=${stream}`],
    ['POST', '/redeliveries', { event_stream_ids: [stream] }],
    ['POST', '/redeliveries', { event_stream_ids: [stream], event_ids: [event], dry_run: true }],
    ['GET', `/redeliveries/${redelivery}`],
    ['DELETE', `/redeliveries/${redelivery}`],
    ['GET', '/redeliveries'],
    ['POST', '/dismissals', { event_stream_ids: [stream] }],
    ['GET', `/dismissals/${dismissal}`],
    ['POST', `/dismissals/${dismissal}/reopen`],
    ['DELETE', `/event-streams/${stream}`],
    ['GET', `/users/${u}`],
    ['PATCH', `/users/${u}`, { name: 'taken' }],
    ['DELETE', `/users/${u}`],
    ['GET', '/users-by-email?email=secret@example.com'],
    ['GET', '/users?q=email:"secret@example.com"'],
    ['GET', `/clients/${client}`],
    ['PATCH', `/clients/${client}`, { name: 'taken', global: true }],
    ['POST', `/clients/${client}/rotate-secret`],
    ['DELETE', `/clients/${client}`],
    ['GET', `/resource-servers/${api}`],
    ['GET', `/resource-servers/${a}`],
    ['PATCH', `/resource-servers/${api}`, { name: 'taken' }],
    ['DELETE', `/resource-servers/${api}`],
    ['GET', `/client-grants/${grant}`],
    ['GET', `/client-grants?client_id=${client}`],
    ['GET', `/client-grants?audience=${a}`],
    ['POST', '/client-grants', { client_id: client, audience: '/api/v2/', scope: ['read:users'] }],
    ['PATCH', `/client-grants/${grant}`, { scope: [...managementScopes] }],
    ['DELETE', `/client-grants/${grant}`],
    ['GET', `/roles/${role}`],
    ['PATCH', `/roles/${role}`, { name: 'taken' }],
    ['GET', `/roles/${role}/permissions`],
    ['POST', `/roles/${role}/permissions`, { permissions: [permission] }],
    ['DELETE', `/roles/${role}/permissions`, { permissions: [permission] }],
    ['GET', `/roles/${role}/users`],
    ['POST', `/roles/${role}/users`, { users: [user] }],
    ['DELETE', `/roles/${role}/users`, { users: [user] }],
    ['GET', `/roles/${role}/clients`],
    ['POST', `/roles/${role}/clients`, { clients: [client] }],
    ['DELETE', `/roles/${role}/clients`, { clients: [client] }],
    ['DELETE', `/roles/${role}`],
    ['GET', `/logs/${entry}`],
    ['GET', `/logs?target=${stream}`],
    ['GET', `/logs?client_id=${client}`],
    ['GET', '/logs?take=100'],
    ['GET', '/event-streams'],
    ['GET', '/users'],
    ['GET', '/clients'],
    ['GET', '/resource-servers'],
    ['GET', '/client-grants'],
    ['GET', '/roles'],
  ];
}

/** What a tenant sees of its own. */
async function stateOf(send: Tenant['send'], ids: Resources): Promise<unknown> {
  const paths = [
    `/event-streams/${ids.stream}`,
    `/event-streams/${ids.stream}/signing-secret`,
    `/event-streams/${ids.stream}/deliveries`,
    `/event-streams/${ids.stream}/replays`,
    `/event-log/${ids.event}`,
    `/redeliveries/${ids.redelivery}`,
    '/users',
    '/clients',
    '/resource-servers',
    '/client-grants',
    `/roles/${ids.role}`,
    `/roles/${ids.role}/permissions`,
    `/roles/${ids.role}/users`,
    `/roles/${ids.role}/clients`,
  ];
  return Promise.all(
    paths.map(async (path) => {
      const response = await send('GET', `/api/v2${path}`);
      assert.equal(response.status, 200, path);
      return response.json();
    }),
  );
}

describe('two tenants of one server', () => {
  let one: Running;
  let two: Tenant;
  let close: () => Promise<void>;
  before(async () => {
    ({ one, two, close } = await openFixture('127.0.0.1'));
  });
  after(() => close());

  test(
    'ids of another tenant read and change nothing, whatever the operation',
    { tags: ['long'] },
    async () => {
      const ids = await createResources(two.send);
      const state = await stateOf(two.send, ids);
      for (const [method, path, body] of requestsWith(ids)) {
        const response = await one.send(method, `/api/v2${path}`, body);
        const text = await response.text();
        const shown = `${method} ${path}: ${response.status} ${text}`;
        assert.ok(response.status < 500, shown);
        // The answer may quote what was sent, but has nothing that only the other tenant knows.
        assert.ok(!secrets.test(text), shown);
        if (method === 'GET') assert.ok(!text.includes('"read:secrets"'), shown);
        if (response.status === 200 && !path.startsWith('/users')) {
          const known = [ids.stream, ids.client, ids.event, ids.redelivery, ids.dismissal];
          assert.ok(!known.some((id) => text.includes(id)), shown);
        }
        // Deleting a role is 200, also when there is none.
        const isEmpty = response.status === 204 || text === '{}';
        if (method !== 'GET') assert.ok(isEmpty || [400, 404].includes(response.status), shown);
      }
      assert.deepEqual(await stateOf(two.send, ids), state);
    },
  );

  test('a token of one tenant is 401 at the host of another, in whichever form the host is sent', async () => {
    const authorization = `Bearer ${two.token}`;
    const own = `Bearer ${one.token}`;
    const statusOf = async (headers: Record<string, string>): Promise<number> =>
      (await fetch(`${one.url}/api/v2/users`, { headers })).status;
    assert.equal(await statusOf({ authorization }), 401);
    assert.equal(await statusOf({ authorization, 'x-forwarded-host': 'two.test' }), 200);
    for (const host of [
      'two.test',
      'TWO.test',
      'two.test.',
      'two.test:443',
      'two.test:80',
      'a.test, two.test',
    ]) {
      assert.equal(await statusOf({ authorization: own, 'x-forwarded-host': host }), 401, host);
    }
    for (const host of ['two.test:8080', 'two.test@x', 'two.test/', 'two.test, x.test']) {
      assert.equal(await statusOf({ authorization, 'x-forwarded-host': host }), 401, host);
    }
  });

  test('the host of the target in absolute form selects the tenant, not the header Host', async () => {
    const statusOf = async (target: string, host: string, token: string): Promise<number> => {
      const head = [`GET ${target} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${token}`];
      const text = [...head, 'Connection: close', '\r\n'].join('\r\n');
      return (await exchange(one.port, text)).status;
    };
    const domain = new URL(one.url).host;
    const targets = ['http://two.test/api/v2/users', 'HTTP://TWO.TEST:80/api/v2/users'];
    for (const target of targets) {
      assert.equal(await statusOf(target, domain, two.token), 200, target);
      assert.equal(await statusOf(target, domain, one.token), 401, target);
    }
    const own = `http://${domain}/api/v2/users`;
    assert.equal(await statusOf(own, 'two.test', one.token), 200);
    assert.equal(await statusOf(own, 'two.test', two.token), 401);
  });

  test('an API that is called like the management API of another tenant opens nothing there', async () => {
    const domain = new URL(one.url).host;
    const identifiers = [
      'https://two.test/api/v2/',
      `https://${domain}/api/v2`,
      `HTTPS://${domain}/api/v2/`,
      `https://${domain}//api/v2/`,
      `https://${domain}/api/v2/#`,
    ];
    const client = (await (
      await one.send('POST', '/api/v2/clients', { name: 'weak', global: true })
    ).json()) as {
      client_id: string;
      client_secret: string;
    };
    for (const audience of identifiers) {
      const made = await one.send('POST', '/api/v2/resource-servers', { identifier: audience });
      assert.equal(made.status, 201, audience);
      const grant = { client_id: client.client_id, audience, scope: managementScopes };
      assert.equal((await one.send('POST', '/api/v2/client-grants', grant)).status, 201);
      const issued = await fetch(`${one.url}/oauth/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ grant_type: 'client_credentials', audience, ...client }),
      });
      const { access_token: token = '' } = (await issued.json()) as { access_token?: string };
      assert.notEqual(token, '', audience);
      const authorization = `Bearer ${token}`;
      for (const headers of [
        { authorization },
        { authorization, 'x-forwarded-host': 'two.test' },
      ]) {
        assert.equal((await fetch(`${one.url}/api/v2/users`, { headers })).status, 401, audience);
      }
    }
    assert.equal((await two.send('GET', '/api/v2/users')).status, 200);
  });

  test('a cursor, an offset and a Last-Event-ID of another tenant show nothing of it', async () => {
    for (let index = 0; index < 5; index += 1) {
      const user = {
        email: `secret-${index}@example.com`,
        password: 'Str0ng-enough!',
        connection: 'Username-Password-Authentication',
      };
      assert.equal((await two.send('POST', '/api/v2/users', user)).status, 201);
    }
    for (const list of ['users', 'clients', 'client-grants', 'event-streams']) {
      const response = await two.send('GET', `/api/v2/${list}?take=1`);
      const { next } = (await response.json()) as { next?: string };
      if (next === undefined) continue;
      const crossed = await one.send(
        'GET',
        `/api/v2/${list}?take=50&from=${encodeURIComponent(next)}`,
      );
      const text = await crossed.text();
      assert.ok(!text.includes('secret'), `${list}: ${text}`);
    }
    const abort = new AbortController();
    const pulled = await fetch(`${one.url}/api/v2/events?from_timestamp=2020-01-01T00:00:00Z`, {
      headers: {
        authorization: two.headers['authorization'] ?? '',
        'x-forwarded-host': 'two.test',
      },
      signal: abort.signal,
    });
    let received = '';
    for await (const chunk of pulled.body ?? []) {
      received += Buffer.from(chunk).toString();
      if (received.includes('secret-4')) break;
    }
    abort.abort();
    const offsets = [...received.matchAll(/^id: ?(.+)$/gm)].map((match) => match[1] ?? '');
    assert.ok(offsets.length > 0);
    for (const offset of offsets.slice(0, 2)) {
      for (const how of ['from', 'last-event-id']) {
        const ended = new AbortController();
        const response = await fetch(
          `${one.url}/api/v2/events${how === 'from' ? `?from=${encodeURIComponent(offset)}` : ''}`,
          {
            headers: {
              authorization: `Bearer ${one.token}`,
              ...(how === 'from' ? {} : { 'last-event-id': offset }),
            },
            signal: ended.signal,
          },
        );
        if (response.status === 200) {
          const reader = response.body?.getReader();
          const first = await reader?.read();
          const text = Buffer.from(first?.value ?? []).toString();
          assert.ok(!text.includes('secret'), text);
        }
        ended.abort();
      }
    }
  });
});

test(
  'X-Forwarded-Host of a peer that is no trusted proxy selects no tenant',
  { tags: ['long'] },
  async (t) => {
    const { one, close } = await openFixture('10.9.9.9');
    t.after(close);
    const statusOf = async (host: string, forwarded: string): Promise<number> => {
      const head = [
        'GET /api/v2/users HTTP/1.1',
        `Host: ${host}`,
        `X-Forwarded-Host: ${forwarded}`,
      ];
      const token = `Authorization: Bearer ${one.token}`;
      const text = [...head, token, 'Connection: close', '\r\n'].join('\r\n');
      return (await exchange(one.port, text)).status;
    };
    const domain = new URL(one.url).host;
    assert.equal(await statusOf(domain, 'two.test'), 200);
    assert.equal(await statusOf('two.test', domain), 401);
  },
);
