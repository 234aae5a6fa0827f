import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { openapiDocument } from '../../src/api/reference/openapi.ts';
import {
  cursorPages,
  type ApiFixture,
  assertNotFound,
  assertProblem,
  openApiFixture,
} from './fixture.ts';

/** The query parameters of clients, APIs, grants and roles, as other clients send them. */

interface DocumentedParameter {
  readonly name: string;
  readonly in: string;
  readonly description?: string;
  readonly schema: { readonly not?: object; readonly examples?: readonly string[] };
}

interface DocumentedPaths {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<Record<string, { readonly parameters?: readonly DocumentedParameter[] }>>
    >
  >;
}

/** What the reference says about the parameters of each operation. */
const operations = Object.entries((openapiDocument() as DocumentedPaths).paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [] }]) => ({
      method: method.toUpperCase(),
      path,
      examples: Object.fromEntries(
        parameters.map(({ name, schema }) => [name, schema.examples?.[0]]),
      ),
      query: parameters
        .filter((one) => one.in === 'query')
        .map(({ name, description = '', schema }) => ({
          name,
          description,
          isRefused: refusalOf(description, schema),
        })),
    })),
);

/** Whether a parameter is refused, or accepted without effect; `undefined` for those that are honoured. */
function refusalOf(
  description: string,
  { not }: DocumentedParameter['schema'],
): boolean | undefined {
  if (not !== undefined) return true;
  return description.startsWith('Accepted without effect: ') ? false : undefined;
}

let fixture: ApiFixture;
/** The role whose users are listed. */
let role: string;
/** Ids of three clients with a grant for the same API, in order; the second is global. */
let clients: string[];
let grants: string[];
let users: string[];
const audience = 'https://orders.example.com';
const management = 'https://leat.example.com/api/v2/';

before(async () => {
  fixture = await openApiFixture();
  for (const identifier of [audience, 'urn:other']) await post('/resource-servers', { identifier });
  clients = [];
  grants = [];
  for (const name of ['a', 'b', 'c']) {
    const client = await post('/clients', { name, global: name === 'b' });
    clients.push(client.client_id);
    grants.push((await post('/client-grants', { client_id: client.client_id, audience })).id);
  }
  clients.sort();
  grants.sort();
  role = (await post('/roles', { name: 'Order-Reader' }, 200)).id;
  await post('/roles', { name: 'Writer' }, 200);
  users = [];
  for (const name of ['x', 'y', 'z']) {
    const user = { email: `${name}@example.com`, password: 'correct-horse-battery' };
    const connection = 'Username-Password-Authentication';
    users.push((await post('/users', { ...user, connection })).user_id);
  }
  users.sort();
  await fixture.send('POST', `/roles/${role}/users`, { users });
});
after(() => fixture.close());

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function post(path: string, body: object, status = 201): Promise<any> {
  const response = await fixture.send('POST', path, body);
  assert.equal(response.status, status, response.text);
  return response.body;
}

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function get(path: string): Promise<any> {
  const response = await fixture.send('GET', path);
  assert.equal(response.status, 200, `${path}: ${response.text}`);
  return response.body;
}

const ids = (items: readonly { readonly id: string }[]): string[] => items.map(({ id }) => id);
const filter = `audience=${audience}`;

describe('GET /client-grants by number', () => {
  test('page and per_page: a bare array, each grant on one page, empty after the last', async () => {
    const found: string[] = [];
    for (const page of [0, 1]) {
      found.push(...ids(await get(`/client-grants?${filter}&per_page=2&page=${page}`)));
    }
    assert.deepEqual(found, grants);
    assert.deepEqual(await get(`/client-grants?${filter}&per_page=2&page=2`), []);
    assert.deepEqual(await get('/client-grants?page=999999999999999&per_page=100'), []);
    assert.deepEqual(await get('/client-grants?per_page=0'), []);
  });

  test('include_totals: an object with start, limit, total and length', async () => {
    const { client_grants: shown, ...totals } = await get(
      `/client-grants?${filter}&include_totals=true&per_page=2&page=1`,
    );
    assert.deepEqual(totals, { start: 2, limit: 2, total: 3, length: 1 });
    assert.deepEqual(ids(shown), grants.slice(2));
    const bare = await get(`/client-grants?${filter}&include_totals=true`);
    assert.deepEqual([bare.start, bare.limit, bare.total, bare.length], [0, 50, 3, 3]);
    assert.deepEqual(
      await get(`/client-grants?${filter}&include_totals=false`),
      bare.client_grants,
    );
    const none = await get('/client-grants?audience=urn:none&include_totals=true');
    const empty = { start: 0, limit: 50, total: 0, length: 0, client_grants: [] };
    assert.deepEqual(none, empty);
  });

  test('take or from: pages by cursor, whatever else is sent', async () => {
    const first = await get(`/client-grants?${filter}&take=2&include_totals=true&page=5`);
    assert.deepEqual(
      [Object.keys(first), ids(first.client_grants)],
      [['client_grants', 'next'], grants.slice(0, 2)],
    );
    const rest = await get(`/client-grants?${filter}&from=${first.next}&include_totals=true`);
    assert.deepEqual(
      [Object.keys(rest), ids(rest.client_grants)],
      [['client_grants'], grants.slice(2)],
    );
  });

  test('subject_type: every grant is one of a client', async () => {
    const all = await get(`/client-grants?${filter}`);
    assert.deepEqual(await get(`/client-grants?${filter}&subject_type=client`), all);
    assert.deepEqual(await get('/client-grants?subject_type=user'), { client_grants: [] });
    assert.deepEqual(await get('/client-grants?subject_type=user&page=0'), []);
  });
});

describe('GET /roles/{id}/users by number', () => {
  test('page, per_page and include_totals are honoured', async () => {
    const path = `/roles/${role}/users`;
    const shown = users.map((user_id) => ({ user_id }));
    assert.deepEqual(await get(`${path}?per_page=2`), shown.slice(0, 2));
    assert.deepEqual(await get(`${path}?per_page=2&page=1`), shown.slice(2));
    assert.deepEqual(await get(`${path}?per_page=2&page=2`), []);
    const totals = await get(`${path}?include_totals=true&page=1&per_page=2`);
    const expected = { start: 2, limit: 2, total: 3, length: 1, users: shown.slice(2) };
    assert.deepEqual(totals, expected);
    const first = await get(`${path}?take=2&include_totals=true`);
    assert.deepEqual(Object.keys(first), ['users', 'next']);
    assert.deepEqual(await get(`${path}?from=${first.next}`), { users: shown.slice(2) });
  });

  test('an unknown role is 404 whichever page is requested', async () => {
    for (const query of ['page=0', 'take=1', '']) {
      const response = await fixture.send('GET', `/roles/none/users?${query}`);
      assertNotFound(response, 'role');
    }
  });
});

describe('GET /clients', () => {
  test('is_global: only global clients, or only others, with their total', async () => {
    const { clientId: manager } = fixture.auth.manager;
    const all = await get('/clients');
    for (const global of [true, false]) {
      const page = await get(`/clients?is_global=${global}&include_totals=true`);
      const expected = all.filter((one: { global: boolean }) => one.global === global);
      assert.deepEqual([page.clients, page.total], [expected, expected.length]);
      const { clients: taken } = await get(`/clients?is_global=${global}&take=100`);
      assert.equal(taken.length, expected.length);
    }
    const globals: { client_id: string }[] = await get('/clients?is_global=true');
    assert.ok(globals.some((one) => one.client_id === manager));
  });

  test('take and from: every client once, by id, in an object with next', async () => {
    const total = (await get('/clients')).length;
    const seen: string[] = [];
    for await (const { body } of cursorPages(fixture, '/clients?take=2')) {
      assert.ok(body.clients.length <= 2);
      seen.push(...body.clients.map((one: { client_id: string }) => one.client_id));
    }
    assert.equal(seen.length, total);
    assert.deepEqual(seen, [...new Set(seen)].toSorted());
  });

  test('fields: only those fields, or with include_fields=false all others', async () => {
    const path = `/clients/${clients[0]}`;
    const whole = await get(path);
    assert.deepEqual(await get(`${path}?fields=name,global,nothing,constructor`), {
      name: whole.name,
      global: whole.global,
    });
    const { name, ...rest } = whole;
    assert.deepEqual(await get(`${path}?fields=name&include_fields=false`), rest);
    assert.deepEqual(await get(`${path}?fields=%20name`), { name });
    assert.deepEqual(await get(`${path}?fields=`), whole);
    assert.deepEqual(await get(`${path}?include_fields=false`), whole);
    assert.deepEqual(await get(`${path}?fields=client_secret,secret_hash`), {});
    for (const query of ['', '&take=100', '&include_totals=true']) {
      const body = await get(`/clients?fields=client_id${query}`);
      for (const one of body.clients ?? body) assert.deepEqual(Object.keys(one), ['client_id']);
    }
  });
});

describe('GET /resource-servers', () => {
  const listed = async (query: string): Promise<string[]> =>
    (await get(`/resource-servers?${query}`))
      .map((one: { identifier: string }) => one.identifier)
      .toSorted();

  test('identifiers: only APIs with one of them, the management API too', async () => {
    assert.deepEqual(await listed('identifiers=urn:other'), ['urn:other']);
    assert.deepEqual(await listed(`identifiers=urn:other&identifiers=${audience}`), [
      audience,
      'urn:other',
    ]);
    assert.deepEqual(await listed(`identifiers=${management}&identifiers=urn:none`), [management]);
    assert.deepEqual(await listed('identifiers=urn:none'), []);
    const both = `identifiers=${management}&identifiers=urn:other&include_totals=true&per_page=1`;
    const { resource_servers: shown, ...totals } = await get(`/resource-servers?${both}&page=1`);
    assert.deepEqual(totals, { start: 1, limit: 1, total: 2, length: 1 });
    assert.equal(shown[0].identifier, management);
  });

  test('fields: of one API and of the list', async () => {
    const path = `/resource-servers/${encodeURIComponent(audience)}`;
    assert.deepEqual(await get(`${path}?fields=name,is_system`), {
      name: audience,
      is_system: false,
    });
    const list = await get('/resource-servers?fields=identifier');
    assert.deepEqual(list.at(-1), { identifier: management });
    const rest = await get('/resource-servers/management?fields=scopes&include_fields=false');
    assert.equal(rest.scopes, undefined);
    assert.equal(rest.is_system, true);
  });
});

describe('GET /roles', () => {
  const named = async (query: string): Promise<string[]> =>
    (await get(`/roles?${query}`)).map(({ name }: { name: string }) => name).toSorted();

  test('name_filter: names that contain the text in any case, with their total', async () => {
    assert.deepEqual(await named('name_filter=READ'), ['Order-Reader']);
    assert.deepEqual(await named('name_filter=er'), ['Order-Reader', 'Writer']);
    assert.deepEqual(await named('name_filter=%25'), []);
    assert.deepEqual(await named('name_filter='), ['Order-Reader', 'Writer']);
    const page = await get('/roles?name_filter=writer&include_totals=true');
    assert.deepEqual([page.total, page.length], [1, 1]);
  });

  test('type and owner_id: every role is one of the tenant', async () => {
    assert.equal((await named('type=tenant')).length, 2);
    assert.deepEqual(await named('type=organization'), []);
    assert.deepEqual(await named('type=organization&owner_id=org_1'), []);
    const none = await get('/roles?owner_id=org_1&include_totals=true');
    assert.deepEqual(none, { start: 0, limit: 50, total: 0, length: 0, roles: [] });
  });
});

describe('query parameters', () => {
  for (const { method, path, query, examples } of operations) {
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => examples[name] ?? 'none');

    test(`${method} ${path} rejects a parameter that it does not have, without its value`, async () => {
      for (const name of ['perpage', '__proto__', 'constructor', '']) {
        const response = await fixture.send(method, `${target}?${name}=5ecret`);
        assert.equal(response.status, 400, response.text);
        assert.equal(response.body.errorCode, 'invalid_query_string');
        const start = `Query validation error: 'Unknown query parameter: ${name}' on property ${name} (`;
        assert.ok(response.body.message.startsWith(start), response.text);
        assert.ok(!response.text.includes('5ecret'));
      }
    });

    for (const { name, description, isRefused } of query.filter(
      (one) => one.isRefused !== undefined,
    )) {
      test(`${method} ${path}: ${name} is ${isRefused ? 'refused, with the reason' : 'accepted'}`, async () => {
        const response = await fixture.send(method, `${target}?${name}=x`);
        if (!isRefused) return assert.equal(response.status, 200, response.text);
        const message = `Query validation error: 'Not supported' on property ${name} (${description}).`;
        assertProblem(response, 400, message, 'invalid_query_string');
        assert.equal((await fixture.send(method, `${target}?${name}=`)).status, 200);
      });
    }
  }

  test('docs/clients.md lists parameters that the operations have, and what becomes of them', async () => {
    const page = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8');
    const rows = page.matchAll(/^\| (GET) `([^`]+)` +\|(.*)\|(.*)\|(.*)\|(.*)\|$/gm).toArray();
    assert.ok(rows.length >= 16);
    for (const [, method = '', path = '', npm = '', go = '', refused = '', inert = ''] of rows) {
      const [operation] = operations.filter((one) => one.method === method && one.path === path);
      assert.ok(operation, path);
      const namesIn = (cell: string): string[] =>
        [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name).toSorted();
      const those = (wanted: boolean): string[] =>
        operation.query
          .filter((one) => one.isRefused === wanted)
          .map(({ name }) => name)
          .toSorted();
      for (const name of namesIn(npm + go)) {
        assert.ok(
          operation.query.some((one) => one.name === name),
          `${path} ${name}`,
        );
      }
      assert.deepEqual(namesIn(refused), those(true), path);
      assert.deepEqual(namesIn(inert), those(false), path);
    }
  });

  test('connection: users of the one connection, or none', async () => {
    const all = await get('/users');
    assert.ok(all.length > 0);
    const one = 'connection=Username-Password-Authentication';
    assert.deepEqual(await get(`/users?${one}&search_engine=v3&primary_order=true`), all);
    assert.deepEqual(await get(`/users?${one}&take=100`), {
      users: await get('/users?per_page=100'),
    });
    assert.deepEqual(await get('/users?connection=other'), []);
    assert.deepEqual(await get('/users?connection=other&take=10'), { users: [] });
    const totals = await get('/users?connection=other&include_totals=true');
    assert.deepEqual([totals.users, totals.total], [[], 0]);
  });

  for (const query of [
    'clients?is_global=1',
    'clients?take=0',
    'clients?take=101',
    'clients?from=!',
    'clients?from=w6Q',
    'clients?fields=a&fields=b',
    'roles?name_filter=a&name_filter=b',
    'roles?type=other',
    `roles?name_filter=${'x'.repeat(256)}`,
    `resource-servers?${'identifiers=x&'.repeat(11)}`,
    'client-grants?page=-1',
    'client-grants?per_page=101',
    'client-grants?subject_type=both',
    'resource-servers?take=1',
    'roles?take=1',
  ]) {
    test(`GET /${query.slice(0, 60)} is 400`, async () => {
      const response = await fixture.send('GET', `/${query}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }
});
