import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { after, before, describe, test } from 'node:test';
import type { Operation } from '../../src/api/operation.ts';
import { describedOperations } from '../../src/api/operations.ts';
import { consoleRoles } from '../../src/core/console-session.ts';
import { claimDue, delivered, failed, fixtureOf, retry } from '../store/contract/fixture.ts';
import { type Browser, call, type ConsoleResponse, signIn } from './console-client.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

/** In payloads and in bodies of receivers' responses, and nowhere else. */
const marker = 'geheim-4711';

let fixture: ApiFixture;
let ids: Readonly<Record<string, string>>;
/** Roles by the name. */
const browsers = new Map<string, Browser>();

before(async () => {
  fixture = await openApiFixture();
  for (const role of consoleRoles) browsers.set(role, await signIn(fixture, role));
  ids = await plant();
});
after(() => fixture.close());

function browserOf(role: (typeof consoleRoles)[number]): Browser {
  const browser = browsers.get(role);
  assert.ok(browser);
  return browser;
}

/** Publishes and delivers events with the marker in every place that a receiver or a publisher can write. */
async function plant(): Promise<Readonly<Record<string, string>>> {
  const { auth, send } = fixture;
  const accept = async (method: string, path: string, body?: object) => {
    const response = await send(method, path, body);
    assert.ok(response.status < 300, `${method} ${path}: ${response.text}`);
    return response.body;
  };
  const { id: stream } = await accept('POST', '/event-streams', {
    name: 'crm',
    subscriptions: [{ event_type: 'order.created' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://receiver.example/',
        webhook_authorization: { method: 'bearer', token: 'secret-of-the-receiver' },
      },
    },
  });
  const data = { [marker]: marker, deep: [{ error_message: marker, list: [marker] }] };
  const events = Array.from({ length: 6 }, () => ({ type: 'order.created', data }));
  await accept('POST', '/events', events);
  await accept('POST', `/event-streams/${stream}/test`, {
    event_type: 'order.created',
    data: { test: marker },
  });
  const eventId = await settleAll(stream);
  const { id: dismissal } = await accept('POST', '/dismissals', { error_codes: ['http_410'] });
  const { id: redelivery } = await accept('POST', '/redeliveries', {
    event_stream_ids: [stream],
    error_codes: ['http_409'],
  });
  const { id: replay } = await accept('POST', `/event-streams/${stream}/replay`, {
    date_from: '2020-01-01T00:00:00Z',
  });
  const { logs } = await accept('GET', '/logs?take=1');
  return {
    '/event-streams/:id': stream,
    '/logs/:id': logs[0].log_id,
    ':event_id': eventId,
    ':dismissal_id': dismissal,
    ':redelivery_id': redelivery,
    ':replay_id': replay,
    ':client_id': auth.manager.clientId,
    ':id': 'unknown',
  };
}

/** Records an outcome of each kind, as the owner of the stream does; returns the id of a failure. */
async function settleAll(id: string): Promise<string> {
  const { auth } = fixture;
  const storeFixture = fixtureOf(auth.store, auth.tenant.id);
  const stream = await auth.store.streams.get(auth.tenant.id, id);
  assert.ok(stream);
  const owned = await storeFixture.own(stream);
  const { rows } = await claimDue(storeFixture, owned);
  const log = await auth.store.eventLog.newest(auth.tenant.id, {
    before: (await auth.store.log.head(auth.tenant.id)) + 1,
    after: 0,
    types: undefined,
    take: 100,
    bytesMax: 1_000_000,
  });
  const events = log.events.toReversed();
  const [first, second, third, fourth, fifth, last] = events;
  assert.ok(first && second && third && fourth && fifth && last);
  const says = (status: number): { status: number; error: string } => ({
    status,
    error: `${status} - no such order: ${marker}`,
  });
  await storeFixture.settle(owned, {
    cursor: last.offset,
    outcomes: [
      failed(first, says(500)),
      failed(second, says(410)),
      failed(third, says(409)),
      delivered(fourth),
      retry(fifth, { ...says(503), delayMs: 3_600_000 }),
      retry(last, { ...says(429), delayMs: 3_600_000 }),
      ...rows.map(({ event }) => failed(event, { ...says(500), kind: 'test', hasRow: true })),
    ],
  });
  await storeFixture.retire();
  return first.id;
}

const operations = describedOperations();

function pathOf(path: string): string {
  return path.replaceAll(/:[a-z_]+/g, (name) => {
    const own = Object.keys(ids).find((key) => key.endsWith(`/${name}`) && path.startsWith(key));
    return encodeURIComponent(ids[own ?? name] ?? 'unknown');
  });
}

const filtered = `?filter=${encodeURIComponent(JSON.stringify({ type: 'order.created' }))}`;

/** Queries with which operations show more than without one. */
const queries: Readonly<Record<string, readonly string[]>> = {
  listAllEventDeliveries: ['', '?statuses=failed,retrying', '?take=1'],
  listEventDeliveries: ['', '?take=1', '?take=100'],
  listEvents: ['', filtered],
  listLogs: ['', '?take=100', '?include_totals=true'],
};

/** Sends a GET and reads what arrives; of a response that lasts, what there is at once. */
async function read({ headers }: Browser, path: string): Promise<Omit<ConsoleResponse, 'body'>> {
  const sent = get({
    host: '127.0.0.1',
    port: fixture.port,
    path: `/api/v2${path}`,
    headers,
    agent: false,
  });
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const isLive = response.headers['content-type'] === 'text/event-stream';
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += chunk;
    if (isLive && text.includes('retry:')) break;
  }
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** Calls every GET operation and returns the paths of those whose response has the marker. */
async function walk(browser: Browser): Promise<{ found: string[]; called: string[] }> {
  const found: string[] = [];
  const called: string[] = [];
  for (const { operationId, method, path } of operations) {
    if (method !== 'GET') continue;
    for (const query of queries[operationId] ?? ['']) {
      const response = await read(browser, pathOf(path) + query);
      const all = JSON.stringify([response.headers, response.text]);
      if (all.includes(marker)) found.push(operationId + query);
      if (response.status === 200) called.push(operationId);
      else assert.ok([400, 403, 404, 409].includes(response.status), `${operationId}: ${all}`);
    }
  }
  return { found, called: [...new Set(called)] };
}

describe('payloads', () => {
  test('a viewer finds them in no response, and has called everything that it may', async () => {
    const { found, called } = await walk(browserOf('viewer'));
    assert.deepEqual(found, []);
    const viewable = new Set(['read:event_streams', 'read:event_deliveries', 'read:logs']);
    const mayCall = operations
      // Those of the service require all scopes.
      .filter(({ method, tag }) => method === 'GET' && tag !== 'Service')
      .filter(({ scopes }) => scopes.some((one) => viewable.has(one)))
      .map(({ operationId }) => operationId);
    assert.deepEqual(called, mayCall);
  });

  test('the same walk finds them as support', async () => {
    const { found } = await walk(browserOf('support'));
    assert.deepEqual(found, [
      'readOverview',
      'listEventDeliveries',
      'listEventDeliveries?take=1',
      'listEventDeliveries?take=100',
      'readEventDelivery',
      'listAllEventDeliveries',
      'listAllEventDeliveries?statuses=failed,retrying',
      'listAllEventDeliveries?take=1',
      'listDeliveryGroups',
      'listEvents',
      `listEvents${filtered}`,
      'readEvent',
      'listEventStreamAttempts',
      'listEventTypes',
    ]);
  });

  test('those of test events are among the failures', async () => {
    const { text } = await browserOf('support').api('GET', '/deliveries?take=100');
    assert.ok(text.includes(`"data":{"test":"${marker}"}`), text);
  });

  test('a viewer sees that they are withheld, and the status of the response', async () => {
    const { body } = await browserOf('viewer').api('GET', '/deliveries?take=100');
    assert.ok(body.deliveries.length > 0);
    for (const { event, attempts } of body.deliveries) {
      assert.deepEqual([event.data, event.withheld, event.type], [{}, true, 'order.created']);
      assert.match(attempts[0].error_message, /^\d{3}$/);
    }
  });

  test('a viewer can ask for none of them by a filter', async () => {
    const { api } = browserOf('viewer');
    const filter = { 'data.total': 1 };
    const text = encodeURIComponent(JSON.stringify(filter));
    assert.equal((await api('GET', `/event-log?filter=${text}`)).status, 403);
    const path = pathOf('/event-streams/:id/filter/test');
    assert.equal((await api('POST', path, { filter })).status, 403);
  });

  test('a bearer token with the scopes of a viewer gets them', async () => {
    const headers = await fixture.headersWith('read:event_deliveries');
    const { text } = await fixture.send('GET', '/deliveries', undefined, headers);
    assert.ok(text.includes(marker));
  });
});

/** Returns whether a role may call an operation: the check comes before path, query and body. */
async function isAllowed({ headers }: Browser, { method, path }: Operation): Promise<boolean> {
  // HEAD opens no response that lasts.
  const sent = method === 'GET' ? 'HEAD' : method;
  const unknown = path.replaceAll(/:[a-z_]+/g, 'unknown');
  const { status } = await call(fixture, sent, `/api/v2${unknown}`, headers);
  assert.ok(status < 500, `${method} ${path}`);
  return status !== 403;
}

test('each role may call these operations', { tags: ['long'] }, async () => {
  const table: string[] = [];
  for (const operation of operations) {
    const letters: string[] = [];
    for (const role of consoleRoles) {
      letters.push((await isAllowed(browserOf(role), operation)) ? role : '-');
    }
    table.push(`${letters.map((word) => word.padEnd(8)).join(' ')} ${operation.operationId}`);
  }
  assert.deepEqual(
    table,
    roleTable
      .trim()
      .split('\n')
      .map((line) => line.trimStart()),
  );
});

const roleTable = `
viewer   support  operator listEventStreams
-        -        operator createEventStream
viewer   support  operator readEventStream
-        -        operator updateEventStream
-        -        operator deleteEventStream
-        -        operator readSigningSecret
-        -        operator rotateSigningSecret
-        support  operator sendTestEvent
-        support  operator readReceived
-        -        operator setReceivedAnswer
-        support  operator testFilter
-        support  operator pauseEventStream
-        support  operator resumeEventStream
viewer   support  operator readEventStreamHealth
viewer   support  operator listSkippedRanges
viewer   support  operator readEventStreamStats
viewer   support  operator listStreamHealth
viewer   support  operator readOverview
viewer   support  operator readDeliveryStats
viewer   support  operator listEventDeliveries
viewer   support  operator readEventDelivery
-        support  operator redeliverEvent
-        support  operator redeliverEvents
-        support  operator retryEventDeliveriesNow
viewer   support  operator listAllEventDeliveries
viewer   support  operator listDeliveryGroups
-        support  operator startRedelivery
viewer   support  operator listRedeliveries
viewer   support  operator readRedelivery
-        support  operator cancelRedelivery
-        support  operator dismissEventDeliveries
viewer   support  operator readDismissal
-        support  operator reopenDismissal
-        support  operator startReplay
viewer   support  operator listReplays
viewer   support  operator readReplay
-        support  operator cancelReplay
-        -        operator publishEvents
-        support  operator listEvents
-        support  operator readEvent
viewer   support  operator listEventStreamAttempts
-        support  operator listEventTypes
-        support  operator pullEvents
-        -        operator listUsers
-        -        operator findUsersByEmail
-        -        operator createUser
-        -        operator readUser
-        -        operator updateUser
-        -        operator deleteUser
-        -        operator listClients
-        -        operator readClient
-        -        operator createClient
-        -        operator updateClient
-        -        operator deleteClient
-        -        operator rotateClientSecret
-        -        operator listResourceServers
-        -        operator createResourceServer
-        -        operator readResourceServer
-        -        operator updateResourceServer
-        -        operator deleteResourceServer
-        -        operator listClientGrants
-        -        operator createClientGrant
-        -        operator readClientGrant
-        -        operator updateClientGrant
-        -        operator deleteClientGrant
-        -        operator listRoles
-        -        operator createRole
-        -        operator readRole
-        -        operator updateRole
-        -        operator deleteRole
-        -        operator listRolePermissions
-        -        operator addRolePermissions
-        -        operator removeRolePermissions
-        -        operator listRoleUsers
-        -        operator addRoleUsers
-        -        operator removeRoleUsers
-        -        operator listRoleClients
-        -        operator addRoleClients
-        -        operator removeRoleClients
viewer   support  operator listLogs
viewer   support  operator readLog
-        -        operator listNodes
-        -        operator readSettings
-        -        operator sendTestAlert
viewer   support  operator listActions
`;
