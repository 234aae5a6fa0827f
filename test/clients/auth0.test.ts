import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test, type TestContext } from 'node:test';
import { Management, ManagementClient, ManagementError } from 'auth0';
import { trusted } from '../helpers/certificates.ts';
import { startEndpoint, text, type Endpoint } from '../helpers/endpoint.ts';
import { startLeat, waitFor } from '../helpers/leat.ts';
import { throughPort, startPostgres } from '../helpers/postgres.ts';
import {
  expectBody,
  freshName,
  narrowToken,
  publish,
  streamBody,
  waitForFailures,
  waitForStats,
} from '../helpers/api-client.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';
import { bootstrapClient, type Fixture, openFixture, reopenLater, runProgram } from './fixture.ts';

/** The unchanged npm package `auth0` against the real program over TLS. */

let fixture: Fixture;
let client: ManagementClient;
const requests = recordRequests();

before(async () => {
  fixture = await openFixture();
  client = clientOf(fixture);
});
after(async () => {
  await fixture?.close();
  requests.stop();
  // When only some tests run, only some operations are called.
  if (process.execArgv.some((word) => word.startsWith('--test-name-pattern'))) return;
  // This version of the package has no method for it.
  assert.deepEqual(await operationsNotCalled(), ['GET /event-streams/{id}/stats']);
});

function clientOf({ domain }: Pick<Fixture, 'domain'>): ManagementClient {
  const { id: clientId, secret: clientSecret } = bootstrapClient;
  return new ManagementClient({ domain, clientId, clientSecret });
}

async function endpointOf(t: TestContext): Promise<Endpoint> {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  return endpoint;
}

/** The types of the package have no webhook secret, and only the types of its own events. */
function streamRequest(
  url: string,
  options: Parameters<typeof streamBody>[1] = {},
): Management.CreateEventStreamWebHookRequestContent {
  const types = ['user.created'];
  return streamBody(url, {
    types,
    ...options,
  }) as unknown as Management.CreateEventStreamWebHookRequestContent;
}

/** Adds fields that the types of the package do not have. */
function withFields<T extends object>(request: T, fields: object): T {
  return { ...request, ...fields };
}

function deliveryOf(stream: object): unknown {
  return (stream as { readonly delivery?: unknown }).delivery;
}

async function createStream(
  url: string,
  options: Parameters<typeof streamBody>[1] = {},
): Promise<Management.CreateEventStreamResponseContent & { id: string }> {
  const stream = await client.eventStreams.create(streamRequest(url, options));
  assert.ok(stream.id !== undefined);
  return { ...stream, id: stream.id };
}

const trustedExpiresAt = new Date(new X509Certificate(trusted.cert).validTo).toISOString();

const connection = 'Username-Password-Authentication';

function createUser(
  more: Partial<Management.CreateUserRequestContent> = {},
): Promise<Management.CreateUserResponseContent & { user_id: string }> {
  const email = `${freshName()}@example.com`;
  const password = 'a long word and 4711';
  return client.users.create({ connection, email, password, ...more }).then((user) => {
    assert.ok(user.user_id !== undefined);
    return { ...user, user_id: user.user_id };
  });
}

async function all<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of pages) found.push(item);
  return found;
}

describe('event streams', () => {
  test('event streams are created, read, changed and deleted', { tags: ['long'] }, async () => {
    const created = await createStream('https://hooks.example.net/leat', { name: 'crm' });
    assert.match(created.id, /^est_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.equal(created.name, 'crm');
    assert.deepEqual(created.destination, {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://hooks.example.net/leat',
        webhook_authorization: { method: 'bearer' },
      },
    });
    assert.deepEqual(await client.eventStreams.get(created.id), created);

    const changed = await client.eventStreams.update(created.id, { status: 'disabled' });
    assert.equal(changed.status, 'disabled');
    assert.deepEqual(changed.destination, created.destination);

    assert.equal(await client.eventStreams.delete(created.id), undefined);
    await assert.rejects(
      async () => client.eventStreams.get(created.id),
      (error) => error instanceof Management.NotFoundError,
    );
    assert.equal(await client.eventStreams.delete(created.id), undefined);
  });

  test(
    'delivery options that the package does not know reach Leat, and are returned, changed and removed',
    { tags: ['long'] },
    async () => {
      const delivery = {
        retry: { delays_seconds: [5, 60], retry_4xx: [408, 429] },
        filter: {
          type: 'user.created',
          'data.object.app_metadata.plan': { $in: ['pro', 'team'] },
          $or: [{ 'data.object.logins': { $gte: 5 } }, { 'data.object.email': null }],
        },
        per_second: 0.5,
        headers: { 'X-Environment': 'test', 'x-lower_case': '1' },
        concurrency: 2,
        timeout_ms: 5000,
        signature: 'v1 v1a',
      };
      const request = streamRequest('https://hooks.example.net/');
      const created = await client.eventStreams.create(withFields(request, { delivery }));
      const { id = '' } = created;
      assert.deepEqual(deliveryOf(created), delivery);
      assert.deepEqual(await client.eventStreams.get(id), created);
      const listed = await all(await client.eventStreams.list({ take: 100 }));
      assert.deepEqual(
        listed.find((stream) => stream.id === id),
        created,
      );

      const renamed = await client.eventStreams.update(id, { name: freshName() });
      assert.deepEqual(deliveryOf(renamed), delivery);
      const other = { retry: 'days', concurrency: 1 };
      const changed = await client.eventStreams.update(id, withFields({}, { delivery: other }));
      assert.deepEqual(deliveryOf(changed), other);
      const removed = await client.eventStreams.update(id, withFields({}, { delivery: null }));
      assert.ok(!('delivery' in removed));
      assert.ok(!('delivery' in (await client.eventStreams.get(id))));
      await assert.rejects(
        async () => client.eventStreams.update(id, withFields({}, { delivery: { unknown: 1 } })),
        (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_body'),
      );
      await client.eventStreams.delete(id);
      await assert.rejects(
        async () => client.eventStreams.get(id),
        (error) => error instanceof Management.NotFoundError,
      );
    },
  );

  test(
    'client credentials and a client certificate reach Leat, and are returned without their secrets',
    { tags: ['long'] },
    async () => {
      const webhook_endpoint = 'https://hooks.example.net/';
      const authorization = {
        method: 'oauth2_client_credentials',
        token_endpoint: 'https://login.example.net/token',
        client_id: 'leat',
        scope: 'hooks',
        audience: 'urn:hooks',
      };
      const certificate = { certificate: trusted.cert, private_key: trusted.key };
      const destinationWith = (secret: object, client_certificate: object | null) => ({
        type: 'webhook',
        configuration: {
          webhook_endpoint,
          webhook_authorization: { ...authorization, ...secret },
          client_certificate,
        },
      });
      const destination = destinationWith({ client_secret: 'planted-secret' }, certificate);
      const request = streamRequest(webhook_endpoint);
      const created = await client.eventStreams.create(withFields(request, { destination }));
      const { id = '' } = created;
      assert.deepEqual(
        created.destination,
        destinationWith({}, { certificate: trusted.cert, expires_at: trustedExpiresAt }),
      );
      assert.doesNotMatch(JSON.stringify(created), /planted-secret|PRIVATE KEY/);
      assert.deepEqual(await client.eventStreams.get(id), created);

      // What was read can be sent back: the secrets stay.
      const sentBack = withFields({}, { destination: created.destination });
      const same = await client.eventStreams.update(id, sentBack);
      assert.deepEqual(same, created);
      const without = withFields({}, { destination: destinationWith({}, null) });
      const changed = await client.eventStreams.update(id, without);
      assert.deepEqual(changed.destination, {
        type: 'webhook',
        configuration: { webhook_endpoint, webhook_authorization: authorization },
      });
      await client.eventStreams.delete(id);
    },
  );

  test('event streams are listed over several pages', { tags: ['long'] }, async () => {
    const names: (string | undefined)[] = [];
    for (let number = 0; number < 7; number++) {
      names.push((await createStream('https://hooks.example.net/')).name);
    }
    for (const take of [1, 3, 100]) {
      const listed = await all(await client.eventStreams.list({ take }));
      const ours = listed.map(({ name }) => name).filter((name) => names.includes(name));
      assert.deepEqual(ours, names, `take ${take}`);
    }
    const page = await client.eventStreams.list({ take: 100 });
    assert.equal(page.hasNextPage(), false);
    assert.ok(!('next' in page.response));
  });
});

describe('deliveries', () => {
  test(
    'deliveries that failed are listed, read, and redelivered one by one',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t);
      endpoint.respondWith(text(503, 'busy'));
      const { id } = await createStream(endpoint.url);
      const user = await createUser();
      const [failure] = await waitForFailures(fixture, id, 1);
      assert.ok(failure !== undefined);

      const listed = await all(await client.eventStreams.deliveries.list(id));
      assert.deepEqual(listed, [failure]);
      const read = await client.eventStreams.deliveries.getHistory(id, failure.id);
      assert.deepEqual(read, failure);
      assert.equal(read.attempts.length, 4);
      assert.equal(read.attempts[0]?.error_message, '503 - busy');
      assert.deepEqual(read.event?.data?.['object'], user);

      endpoint.respondWith(204);
      await client.eventStreams.redeliveries.createById(id, failure.id);
      await waitForFailures(fixture, id, 0);
      await assert.rejects(
        async () => client.eventStreams.redeliveries.createById(id, failure.id),
        (error) => isRefusal(error, Management.ConflictError, 409, 'not_redeliverable'),
      );
    },
  );

  test(
    'deliveries are listed over pages and by filters, and redelivered all at once',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t);
      endpoint.respondWith(400);
      const { id } = await createStream(endpoint.url, { types: ['user.created', 'user.deleted'] });
      for (let number = 0; number < 4; number++) {
        const user = await createUser();
        await client.users.delete(user.user_id);
      }
      await waitForFailures(fixture, id, 8);
      const { deliveries } = client.eventStreams;
      assert.equal((await all(await deliveries.list(id, { take: 3 }))).length, 8);
      const some = await all(
        await deliveries.list(id, {
          take: 3,
          event_types: 'user.deleted',
          statuses: 'failed',
          date_from: '2020-01-01T00:00:00Z',
        }),
      );
      assert.deepEqual(
        some.map((one) => one.event_type),
        Array.from({ length: 4 }, () => 'user.deleted'),
      );

      endpoint.respondWith(204);
      const filter = { event_types: ['user.deleted' as const] };
      const { data, rawResponse } = await client.eventStreams.redeliveries
        .create(id, filter)
        .withRawResponse();
      assert.deepEqual([rawResponse.status, data], [202, filter]);
      await waitForFailures(fixture, id, 4);
      assert.deepEqual(await client.eventStreams.redeliveries.create(id), {});
      await waitForFailures(fixture, id, 0);
      await waitForStats(fixture, id, { delivered: 8 });
    },
  );

  test('deliveries of a test event are marked', { tags: ['long'] }, async (t) => {
    const endpoint = await endpointOf(t);
    const { id } = await createStream(endpoint.url);
    const sent = await client.eventStreams.test(id, { event_type: 'organization.member.added' });
    assert.deepEqual([sent.status, sent.attempts], ['pending', []]);
    const { event } = await endpoint.arrival(1);
    assert.deepEqual(event, sent.event);
    assert.equal(event['svcpurpose'], 'test');

    const data = { object: { user_id: 'anything' } };
    await client.eventStreams.test(id, { event_type: 'user.updated', data });
    assert.deepEqual((await endpoint.arrival(2)).event.data, data);
  });
});

describe('users', () => {
  test(
    'users are created, read, found by their e-mail, changed and deleted',
    { tags: ['long'] },
    async () => {
      const created = await createUser({ given_name: 'Ada', user_metadata: { plan: 'free' } });
      const { user_id: id, email = '' } = created;
      assert.deepEqual(await client.users.get(id), created);
      assert.deepEqual(await client.users.listUsersByEmail({ email: email.toUpperCase() }), [
        created,
      ]);

      const changed = await client.users.update(id, { name: 'Ada', user_metadata: { lang: 'en' } });
      assert.deepEqual(
        [changed.name, changed.user_metadata],
        ['Ada', { plan: 'free', lang: 'en' }],
      );
      assert.deepEqual(await client.users.get(id, { fields: 'name' }), { name: 'Ada' });

      assert.equal(await client.users.delete(id), undefined);
      await assert.rejects(
        async () => client.users.get(id),
        (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_user'),
      );
      assert.deepEqual(await client.users.listUsersByEmail({ email }), []);
    },
  );

  test('users are listed until a page is empty', { tags: ['long'] }, async () => {
    const created = new Set<string>();
    for (let number = 0; number < 5; number++) created.add((await createUser()).user_id);
    for (const per_page of [2, 5, 100]) {
      const listed = await all(await client.users.list({ per_page, sort: 'created_at:1' }));
      const ours = listed.filter(({ user_id: id }) => id !== undefined && created.has(id));
      assert.deepEqual(new Set(ours.map((user) => user.user_id)), created, `per_page ${per_page}`);
      assert.equal(ours.length, created.size);
    }
  });
});

describe('access', () => {
  test(
    'clients are created, read, listed, changed, get a new secret and are deleted',
    { tags: ['long'] },
    async () => {
      const name = freshName();
      const created = await client.clients.create({ name });
      const { client_id: id = '', client_secret: secret = '' } = created;
      assert.ok(id !== '' && secret !== '');
      assert.equal((await client.clients.get(id)).name, name);
      const listed = await all(await client.clients.list({ per_page: 1 }));
      assert.ok(listed.some((one) => one.client_id === id));
      const [selected] = await all(await client.clients.list({ fields: 'name', is_global: true }));
      assert.deepEqual(Object.keys(selected ?? {}), ['name']);
      const others = await client.clients.list({ is_global: false });
      assert.ok(others.data.some((one) => one.client_id === id));
      assert.equal(others.response.total, others.data.length);
      assert.deepEqual(await client.clients.get(id, { fields: 'name' }), { name });
      await assert.rejects(
        async () => client.clients.list({ q: 'x' }),
        (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_query_string'),
      );
      assert.equal((await client.clients.update(id, { name: 'Other' })).name, 'Other');
      const rotated = await client.clients.rotateSecret(id);
      assert.ok(rotated.client_secret !== undefined && rotated.client_secret !== secret);
      assert.equal(await client.clients.delete(id), undefined);
      await assert.rejects(
        async () => client.clients.get(id),
        (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_client'),
      );
    },
  );

  test(
    'fields without a meaning here are returned as they were sent, and removed with null',
    { tags: ['long'] },
    async () => {
      const callbacks = ['https://shop.example.com/callback'];
      const refresh_token = { rotation_type: 'rotating', expiration_type: 'expiring' } as const;
      const created = await client.clients.create({ name: freshName(), callbacks, refresh_token });
      const { client_id: id = '' } = created;
      assert.deepEqual([created.callbacks, created.refresh_token], [callbacks, refresh_token]);
      const changed = await client.clients.update(id, { refresh_token: null, app_type: 'spa' });
      assert.deepEqual(
        [changed.callbacks, changed.refresh_token, changed.app_type],
        [callbacks, undefined, 'spa'],
      );
      const identifier = `urn:${freshName()}`;
      const api = await client.resourceServers.create({ identifier, signing_alg: 'RS256' });
      assert.equal(api.signing_alg, 'RS256');
      await client.clients.delete(id);
    },
  );

  test(
    'APIs are created, read by id and identifier, listed, changed and deleted',
    { tags: ['long'] },
    async () => {
      const identifier = `https://${freshName()}.example.com/api`;
      const created = await client.resourceServers.create({
        identifier,
        name: 'Orders',
        scopes: [{ value: 'read:orders', description: 'Read orders' }],
      });
      const { id = '' } = created;
      assert.deepEqual(created.scopes, [{ value: 'read:orders', description: 'Read orders' }]);
      assert.deepEqual(await client.resourceServers.get(id), created);
      assert.deepEqual(await client.resourceServers.get(identifier), created);
      const listed = await all(await client.resourceServers.list({ per_page: 1 }));
      assert.ok(listed.some((one) => one.identifier === identifier));
      assert.ok(listed.some((one) => one.is_system));
      const identifiers = [identifier, 'urn:none'];
      const found = await client.resourceServers.list({ identifiers, include_fields: true });
      assert.deepEqual(
        found.data.map((one) => one.identifier),
        [identifier],
      );
      const changed = await client.resourceServers.update(id, {
        enforce_policies: true,
        token_dialect: 'access_token_authz',
        token_lifetime: 3600,
      });
      assert.deepEqual(
        [changed.enforce_policies, changed.token_dialect, changed.token_lifetime],
        [true, 'access_token_authz', 3600],
      );
      assert.equal(await client.resourceServers.delete(id), undefined);
      await assert.rejects(
        async () => client.resourceServers.get(id),
        (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_resource_server'),
      );
    },
  );

  test(
    'client grants are created, listed over pages, changed and deleted',
    { tags: ['long'] },
    async () => {
      const { client_id = '' } = await client.clients.create({ name: freshName() });
      const created: string[] = [];
      for (let number = 0; number < 3; number++) {
        const audience = `https://${freshName()}.example.com`;
        await client.resourceServers.create({ identifier: audience, scopes: [{ value: 'read' }] });
        const grant = await client.clientGrants.create({ client_id, audience, scope: ['read'] });
        created.push(grant.id ?? '');
      }
      for (const take of [1, 50]) {
        const listed = await all(await client.clientGrants.list({ client_id, take }));
        assert.equal(listed.length, 3);
        assert.deepEqual(new Set(listed.map(({ id }) => id)), new Set(created));
      }
      const byClient = await client.clientGrants.list({
        client_id,
        subject_type: 'client',
        take: 2,
      });
      assert.equal(byClient.data.length, 2);
      const [id = ''] = created;
      assert.deepEqual((await client.clientGrants.update(id, { scope: [] })).scope, []);
      assert.deepEqual((await client.clientGrants.get(id)).scope, []);
      assert.equal(await client.clientGrants.delete(id), undefined);
      await assert.rejects(
        async () => client.clientGrants.get(id),
        (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_client_grant'),
      );
      assert.equal((await all(await client.clientGrants.list({ client_id }))).length, 2);
    },
  );

  test(
    'roles are created, read, listed, changed, get permissions and members, and are deleted',
    { tags: ['long'] },
    async () => {
      const resource_server_identifier = `https://${freshName()}.example.com`;
      await client.resourceServers.create({
        identifier: resource_server_identifier,
        scopes: [{ value: 'read:orders' }, { value: 'write:orders' }],
      });
      const name = freshName();
      const { id = '' } = await client.roles.create({ name, description: 'Sees orders' });
      assert.deepEqual(await client.roles.get(id), { id, name, description: 'Sees orders' });
      const listed = await all(await client.roles.list({ per_page: 1 }));
      assert.ok(listed.some((role) => role.id === id));
      const found = await client.roles.list({ name_filter: name.toUpperCase(), type: 'tenant' });
      assert.deepEqual(
        found.data.map((role) => role.id),
        [id],
      );
      assert.equal((await client.roles.update(id, { description: 'All' })).description, 'All');

      const permissions = ['read:orders', 'write:orders'].map((permission_name) => ({
        resource_server_identifier,
        permission_name,
      }));
      await client.roles.permissions.add(id, { permissions });
      const held = await all(await client.roles.permissions.list(id, { per_page: 1 }));
      assert.deepEqual(
        new Set(held.map((one) => one.permission_name)),
        new Set(['read:orders', 'write:orders']),
      );
      await client.roles.permissions.delete(id, { permissions: permissions.slice(1) });
      assert.equal((await all(await client.roles.permissions.list(id))).length, 1);

      const users = [(await createUser()).user_id, (await createUser()).user_id];
      await client.roles.users.assign(id, { users });
      const members = await all(await client.roles.users.list(id, { take: 1 }));
      assert.deepEqual(new Set(members.map((member) => member.user_id)), new Set(users));

      assert.equal(await client.roles.delete(id), undefined);
      await assert.rejects(
        async () => client.roles.get(id),
        (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_role'),
      );
    },
  );

  test('there are no actions', { tags: ['long'] }, async () => {
    const { response, data } = await client.actions.list();
    assert.deepEqual(data, []);
    assert.deepEqual(response, { actions: [], total: 0, page: 0, per_page: 100 });
  });
});

describe('the audit log', () => {
  test(
    'entries of changes are listed over pages, filtered and read',
    { tags: ['long'] },
    async () => {
      const { id } = await createStream('https://hooks.example.net/');
      await client.eventStreams.update(id, { name: freshName() });
      await client.eventStreams.delete(id);
      const about = { queryParams: { target: id, types: 'sapi' } };
      const page = await client.logs.list({ per_page: 2 }, about);
      const [newest] = page.data;
      const descriptions: (string | undefined)[] = [];
      for await (const { description } of page) descriptions.push(description ?? undefined);
      assert.deepEqual(descriptions, [
        'Delete an event stream',
        'Update an event stream',
        'Create an event stream',
      ]);
      assert.ok(newest?.log_id);
      const entry = await client.logs.get(newest.log_id);
      assert.deepEqual(entry, newest);
      assert.equal(entry.client_id, bootstrapClient.id);
      assert.equal(entry.type, 'sapi');
      assert.deepEqual(entry.details, {
        method: 'DELETE',
        path: `/api/v2/event-streams/${id}`,
        targets: [id],
      });
    },
  );

  test(
    'entries of a bare list, with the fields that are asked for, and from a checkpoint',
    { tags: ['long'] },
    async () => {
      const { id } = await createStream('https://hooks.example.net/');
      await client.eventStreams.delete(id);
      const request = { include_totals: false, fields: 'log_id,type', include_fields: true };
      const bare = await client.logs.list(request, { queryParams: { target: id } });
      assert.equal((bare.response as unknown as object[]).length, 2);
      const take = { queryParams: { target: id, take: 1 } };
      const first = (await client.logs.list({ sort: 'date:-1' }, take)).response;
      const { next } = first as unknown as { next: string };
      const from = { queryParams: { target: id, from: next } };
      const { data } = await client.logs.list({}, from);
      assert.deepEqual(
        data.map(({ description }) => description),
        ['Create an event stream'],
      );
    },
  );

  test('an unknown entry and a search are refused', { tags: ['long'] }, async () => {
    await assert.rejects(
      async () => client.logs.get('log_nothing'),
      (error) => isRefusal(error, Management.NotFoundError, 404, 'inexistent_log'),
    );
    await assert.rejects(
      async () => client.logs.list({ search: 'robot' }),
      (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_query_string'),
    );
  });
});

describe('the events of the tenant', () => {
  /** Reads `count` messages about a user, then disconnects. */
  async function read(
    user: string,
    count: number,
    request: Management.SubscribeEventsRequestParameters,
  ): Promise<Message[]> {
    const messages: Message[] = [];
    for await (const one of await client.events.subscribe(request)) {
      const message = one as unknown as Message;
      if (message.event?.data.object.user_id === user) messages.push(message);
      if (messages.length === count) break;
    }
    return messages;
  }

  interface Message {
    readonly type: string;
    readonly offset: string;
    readonly event?: {
      readonly type: string;
      readonly data: { readonly object: { readonly user_id: string } };
    };
  }

  test('the events of the tenant are read as they happen', { tags: ['long'] }, async () => {
    const stream = await client.events.subscribe({ event_type: 'user.created' });
    const user = await createUser();
    const types: string[] = [];
    for await (const message of stream) {
      const { type, event } = message as unknown as Message;
      types.push(type);
      if (event === undefined) continue;
      assert.deepEqual(event.data, { object: user });
      break;
    }
    // First the offset of the start, which a later pull resumes from.
    assert.deepEqual(types, ['offset-only', 'user.created']);
  });

  test(
    'the events of the tenant are read from a time and from an offset, of the requested types',
    { tags: ['long'] },
    async () => {
      const from_timestamp = new Date().toISOString();
      const created = await createUser();
      await client.users.update(created.user_id, { name: 'Ada' });
      await client.users.delete(created.user_id);
      const types = ['user.created', 'user.updated', 'user.deleted'] as const;
      const seen = await read(created.user_id, 3, { from_timestamp, event_type: [...types] });
      assert.deepEqual(
        seen.map(({ type, event }) => [type, event?.type]),
        types.map((type) => [type, type]),
      );
      const [first] = seen;
      assert.deepEqual(
        await read(created.user_id, 2, { from: first?.offset ?? '' }),
        seen.slice(1),
      );
      const [, , last] = seen;
      assert.deepEqual(
        await read(created.user_id, 1, { from_timestamp, event_type: 'user.deleted' }),
        [last],
      );
    },
  );

  test('the events of the tenant: an invalid offset is refused', { tags: ['long'] }, async () => {
    await assert.rejects(
      async () => client.events.subscribe({ from: 'no-offset' }),
      (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_query_string'),
    );
  });

  test(
    'the events of the tenant: an offset older than the log is refused',
    { tags: ['long'] },
    async (t) => {
      const former = await openFixture();
      t.after(() => former.close());
      const { offset } = await expectBody<{ offset: string }>(
        202,
        former.send('POST', '/api/v2/events', { type: 'order.paid', data: {} }),
      );
      await publish(former, 'order.paid');
      const later = await reopenLater(former);
      t.after(() => later.close());
      await assert.rejects(
        async () => clientOf(later).events.subscribe({ from: offset }),
        (error) => isRefusal(error, Management.GoneError, 410, 'cursor_expired'),
      );
    },
  );

  test(
    'the events of the tenant: too many concurrent readers are refused',
    { tags: ['long'] },
    async (t) => {
      const narrow = await openFixture({ LEAT_SSE_MAX_CONNECTIONS: '2' });
      t.after(() => narrow.close());
      const limited = clientOf(narrow);
      const { signal, abort } = hangUp();
      t.after(abort);
      await limited.events.subscribe({}, { abortSignal: signal });
      await assert.rejects(
        async () => limited.events.subscribe(),
        (error) => isRefusal(error, Management.ForbiddenError, 403, 'too_many_connections'),
      );
    },
  );

  function hangUp(): { signal: AbortSignal; abort: () => void } {
    const controller = new AbortController();
    return { signal: controller.signal, abort: () => controller.abort() };
  }
});

type Refusal = abstract new (...words: never[]) => ManagementError;

/** Checks that an error has this class of the package, and the status and the body that Leat sent. */
function isRefusal(error: unknown, kind: Refusal, statusCode: number, errorCode?: string): boolean {
  assert.ok(error instanceof kind, String(error));
  assert.equal(error.statusCode, statusCode);
  const body = error.body as { statusCode?: number; message?: string; errorCode?: string };
  assert.equal(body.statusCode, statusCode);
  assert.ok(body.message !== undefined && body.message !== '');
  assert.equal(body.errorCode, errorCode);
  return true;
}

describe('an error', () => {
  test('an error of a bad request', { tags: ['long'] }, async () => {
    await assert.rejects(
      async () => client.eventStreams.get('est_short'),
      (error) => {
        assert.ok(error instanceof ManagementError);
        const { message, errorCode } = error.body as Record<string, string>;
        assert.match(message ?? '', /^Path validation error: /);
        return error.statusCode === 400 && errorCode === 'invalid_uri';
      },
    );
    const wrong = { ...streamRequest('https://hooks.example.net/'), status: 'asleep' };
    await assert.rejects(
      async () => client.eventStreams.create(wrong as never),
      (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_body'),
    );
    await assert.rejects(
      async () => client.eventStreams.list({ take: 1000 }),
      (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_query_string'),
    );
  });

  test('an error of a page after the thousandth user', { tags: ['long'] }, async () => {
    await assert.rejects(
      async () => client.users.list({ page: 10, per_page: 100 }),
      (error) => isRefusal(error, Management.BadRequestError, 400, 'invalid_paging'),
    );
  });

  test('an error of a body that is too large', { tags: ['long'] }, async () => {
    const user_metadata = { text: 'x'.repeat(5 * 1024 * 1024) };
    await assert.rejects(
      () => createUser({ user_metadata }),
      (error) => isRefusal(error, ManagementError, 413, 'payload_too_large'),
    );
  });

  test('an error of an invalid token', { tags: ['long'] }, async () => {
    const stranger = new ManagementClient({ domain: fixture.domain, token: 'no-token' });
    await assert.rejects(
      async () => stranger.eventStreams.list(),
      (error) => isRefusal(error, Management.UnauthorizedError, 401),
    );
  });

  test('an error of a missing scope', { tags: ['long'] }, async () => {
    const token = await narrowToken(fixture, 'read:event_streams');
    const reader = new ManagementClient({ domain: fixture.domain, token });
    assert.ok((await reader.eventStreams.list()).data.length >= 0);
    await assert.rejects(
      async () => reader.eventStreams.create(streamRequest('https://hooks.example.net/')),
      (error) => isRefusal(error, Management.ForbiddenError, 403, 'insufficient_scope'),
    );
  });

  test('an error of a name that is taken', { tags: ['long'] }, async () => {
    const name = freshName();
    await createStream('https://hooks.example.net/', { name });
    await assert.rejects(
      () => createStream('https://hooks.example.net/', { name }),
      (error) => isRefusal(error, Management.ConflictError, 409, 'stream_name_in_use'),
    );
  });

  test('an error of a wrong secret', { tags: ['long'] }, async () => {
    const { domain } = fixture;
    const wrong = { domain, clientId: bootstrapClient.id, clientSecret: 'wrong' };
    await assert.rejects(
      async () => new ManagementClient(wrong).eventStreams.list(),
      (error) => {
        assert.ok(error instanceof ManagementError);
        assert.equal(error.statusCode, 401);
        assert.deepEqual(error.body, {
          error: 'invalid_client',
          error_description: 'Client authentication failed',
        });
        return true;
      },
    );
  });
});

describe('a rate limit', () => {
  test(
    'after a 429 the package waits for Retry-After and repeats the request',
    { tags: ['long'] },
    async (t) => {
      const narrow = await openFixture({
        LEAT_RATE_LIMIT_BURST: '3',
        LEAT_RATE_LIMIT_PER_SECOND: '2',
      });
      t.after(() => narrow.close());
      const limited = clientOf(narrow);
      for (let number = 0; number < 5; number++) await limited.eventStreams.list();
      assert.ok(requests.responsesTo(narrow, 429) >= 1);
    },
  );

  test('a 429 without retries is an error class of its own', { tags: ['long'] }, async (t) => {
    const narrow = await openFixture({
      LEAT_RATE_LIMIT_BURST: '2',
      LEAT_RATE_LIMIT_PER_SECOND: '1',
    });
    t.after(() => narrow.close());
    const limited = clientOf(narrow);
    const twenty = Array.from({ length: 20 }, () =>
      limited.eventStreams.list({}, { maxRetries: 0 }),
    );
    const refused = (await Promise.allSettled(twenty)).find((one) => one.status === 'rejected');
    assert.ok(refused !== undefined);
    isRefusal(refused.reason, Management.TooManyRequestsError, 429, 'too_many_requests');
    const { rawResponse } = refused.reason as Management.TooManyRequestsError;
    assert.equal(rawResponse?.headers.get('x-ratelimit-limit'), '2');
    assert.equal(rawResponse.headers.get('x-ratelimit-remaining'), '0');
    assert.match(rawResponse.headers.get('retry-after') ?? '', /^[1-9][0-9]*$/);
  });
});

describe('an unavailable store', () => {
  test(
    'after a 503 the package waits for Retry-After and repeats the request',
    { tags: ['long'] },
    async (t) => {
      const server = await startPostgres();
      t.after(() => server.close());
      const proxy = await startTcpProxy(server.port);
      t.after(() => proxy.close());
      const onPostgres = await openFixture({
        LEAT_STORE: throughPort(await server.createDatabase(), proxy.port),
      });
      t.after(() => onPostgres.close());
      const patient = clientOf(onPostgres);
      const created = await patient.eventStreams.create(
        streamRequest('https://hooks.example.net/'),
      );

      proxy.refuse();
      const listed = patient.eventStreams.list({}, { maxRetries: 30 });
      await waitFor('a refusal', () => requests.responsesTo(onPostgres, 503) >= 1);
      proxy.restore();
      assert.deepEqual((await listed).data, [created]);
    },
  );
});

describe('a token', () => {
  test('a token is issued for a signed assertion as well', { tags: ['long'] }, async () => {
    const { privateKey, jwk } = await makeSigningKey();
    const body = { name: freshName(), global: true, jwks: { keys: [jwk] } };
    const { client_id = '' } = await client.clients.create(body);
    const audience = `https://${fixture.domain}/api/v2/`;
    await client.clientGrants.create({ client_id, audience, scope: ['read:event_streams'] });
    const signer = new ManagementClient({
      domain: fixture.domain,
      clientId: client_id,
      clientAssertionSigningKey: privateKey,
    });
    assert.ok(Array.isArray((await signer.eventStreams.list()).data));
  });
});

async function makeSigningKey(): Promise<{ privateKey: string; jwk: object }> {
  const pair = await crypto.subtle.generateKey(
    {
      name: 'RSASSA-PKCS1-v1_5',
      modulusLength: 2048,
      publicExponent: new Uint8Array([1, 0, 1]),
      hash: 'SHA-256',
    },
    true,
    ['sign', 'verify'],
  );
  const der = Buffer.from(await crypto.subtle.exportKey('pkcs8', pair.privateKey));
  const privateKey = `-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----`;
  const { kty, n, e } = await crypto.subtle.exportKey('jwk', pair.publicKey);
  return { privateKey, jwk: { kty, n, e } };
}

describe('a program of a user', () => {
  test(
    'a separate program trusts the certificate by NODE_EXTRA_CA_CERTS alone',
    { tags: ['long'] },
    async () => {
      const program = new URL('process/auth0.ts', import.meta.url).pathname;
      const env = {
        AUTH0_DOMAIN: fixture.domain,
        AUTH0_CLIENT_ID: bootstrapClient.id,
        AUTH0_CLIENT_SECRET: bootstrapClient.secret,
      };
      const trusting = await runProgram(process.execPath, [program], {
        ...env,
        NODE_EXTRA_CA_CERTS: fixture.caFile,
      });
      assert.equal(trusting.code, 0, trusting.stderr);
      assert.match(trusting.stdout, /^\[.*\]\n$/s);

      const distrusting = await runProgram(process.execPath, [program], env);
      assert.notEqual(distrusting.code, 0);
      assert.match(distrusting.stderr, /UNABLE_TO_VERIFY_LEAF_SIGNATURE|self-signed/i);
    },
  );

  test(
    'the package works over plain HTTP with a fetch that changes the protocol',
    { tags: ['long'] },
    async (t) => {
      const tempStore = fixture.tempStore.folder;
      const plain = await startLeat({ ...fixture.tempStore, file: `${tempStore}/plain.db` });
      t.after(() => plain.kill());
      const { id: clientId, secret: clientSecret } = bootstrapClient;
      const local = new ManagementClient({
        domain: `localhost:${plain.port}`,
        clientId,
        clientSecret,
        fetch: (input, init) => {
          const url = input instanceof Request ? input.url : String(input);
          return fetch(url.replace(/^https:/, 'http:'), init);
        },
      });
      const created = await local.eventStreams.create(streamRequest('https://hooks.example.net/'));
      const listed = await all(await local.eventStreams.list({ take: 1 }));
      assert.deepEqual(listed, [created]);
    },
  );
});

interface Recorded {
  readonly origin: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

/** Records every response to the package in this process, without changing it. */
function recordRequests(): {
  readonly seen: readonly Recorded[];
  responsesTo(of: Pick<Fixture, 'domain'>, status: number): number;
  stop(): void;
} {
  const seen: Recorded[] = [];
  const note = (message: unknown): void => {
    const { request, response } = message as {
      request: Pick<Recorded, 'origin' | 'method' | 'path'> & { headers: readonly string[] };
      response: { statusCode: number };
    };
    const { origin, method, path, headers } = request;
    // The package identifies itself in a header.
    if (!headers.some((name) => name.toLowerCase() === 'auth0-client')) return;
    seen.push({ origin, method, path, status: response.statusCode });
  };
  subscribe('undici:request:headers', note);
  return {
    seen,
    responsesTo: ({ domain }, status) =>
      seen.filter((one) => one.origin === `https://${domain}` && one.status === status).length,
    stop: () => unsubscribe('undici:request:headers', note),
  };
}

/** Returns the operations of the reference, without extensions, from which no test got a successful response. */
async function operationsNotCalled(): Promise<string[]> {
  const file = new URL('../../docs/openapi.json', import.meta.url);
  const { paths } = JSON.parse(await readFile(file, 'utf8')) as {
    paths: Record<string, Record<string, { readonly 'x-extension'?: boolean }>>;
  };
  const methods = ['get', 'post', 'patch', 'delete'];
  return Object.entries(paths).flatMap(([template, operations]) => {
    const pattern = new RegExp(
      `^/api/v2${template.replaceAll(/\{[a-z_]+\}/g, '[^/]+')}(?:\\?.*)?$`,
    );
    return methods
      .filter((method) => method in operations && operations[method]?.['x-extension'] !== true)
      .map((method) => method.toUpperCase())
      .filter((method) => !requests.seen.some((one) => isGood(one, method, pattern)))
      .map((method) => `${method} ${template}`);
  });
}

function isGood({ method, path, status }: Recorded, wanted: string, pattern: RegExp): boolean {
  return method === wanted && pattern.test(path) && status < 300;
}
