import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import {
  assertNotFound,
  assertNeedsScope,
  type ScopedOperation,
  assertInvalid,
  assertProblem,
  openApiFixture,
  type ApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({}, { domain: 'localhost:8080' });
});
after(() => fixture.close());

let made = 0;

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  made += 1;
  const identifier = `https://api-${made}.example.com/`;
  const response = await fixture.send('POST', '/resource-servers', { identifier, ...sent });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const pathOf = (id: string): string => `/resource-servers/${encodeURIComponent(id)}`;

const management = {
  id: 'management',
  identifier: 'https://localhost:8080/api/v2/',
  name: 'Leat Management API',
  scopes: managementScopes.map((value) => ({ value, description: '' })),
  enforce_policies: false,
  token_dialect: 'access_token',
  token_lifetime: 3_600,
  is_system: true,
};

/** The id and the audiences of the management API. */
const managementNames = [
  'management',
  'https://localhost:8080/api/v2/',
  'http://localhost:8080/api/v2/',
  '/api/v2/',
];

describe('POST /resource-servers', () => {
  test('POST /resource-servers creates an API with the defaults', async () => {
    const api = await create({ identifier: 'https://messages.example.com' });
    assert.match(api.id, /^api_[A-Za-z0-9]{22}$/);
    assert.deepEqual(api, {
      id: api.id,
      identifier: 'https://messages.example.com',
      name: 'https://messages.example.com',
      scopes: [],
      enforce_policies: false,
      token_dialect: 'access_token',
      token_lifetime: 86_400,
      is_system: false,
    });
  });

  test('POST /resource-servers accepts every field, and applies it to tokens', async () => {
    const sent = {
      identifier: 'urn:orders',
      name: 'Orders',
      scopes: [{ value: 'read:orders', description: 'Read' }, { value: 'write:orders' }],
      enforce_policies: true,
      token_dialect: 'access_token_authz',
      token_lifetime: 60,
    };
    const api = await create(sent);
    const scopes = [sent.scopes[0], { value: 'write:orders', description: '' }];
    assert.deepEqual(api, { id: api.id, ...sent, scopes, is_system: false });
    const credentials = await fixture.auth.client();
    const grant = {
      client_id: credentials.clientId,
      audience: 'urn:orders',
      scope: ['read:orders'],
    };
    assert.equal((await fixture.send('POST', '/client-grants', grant)).status, 201);
    const token = await fixture.auth.token(credentials, 'urn:orders');
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    assert.equal(claims.exp - claims.iat, 60);
    assert.deepEqual(claims.permissions, ['read:orders']);
  });

  test('POST /resource-servers rejects an identifier in use, also one that is the id of an API', async () => {
    const { id, identifier } = await create();
    for (const taken of [identifier, id]) {
      const response = await fixture.send('POST', '/resource-servers', { identifier: taken });
      assertProblem(response, 409, 'The API already exists.', 'already_exists');
    }
  });

  for (const identifier of managementNames) {
    test(`POST /resource-servers rejects ${identifier}, which names the management API`, async () => {
      const response = await fixture.send('POST', '/resource-servers', { identifier });
      assertProblem(response, 409, 'The API already exists.', 'already_exists');
    });
  }

  const wrong: [sent: object, property: string][] = [
    [{ identifier: undefined }, 'identifier'],
    [{ identifier: '' }, 'identifier'],
    [{ identifier: 'a b' }, 'identifier'],
    [{ identifier: 'a\u0000' }, 'identifier'],
    [{ identifier: 'x'.repeat(601) }, 'identifier'],
    [{ identifier: null }, 'identifier'],
    [{ identifier: ['x'] }, 'identifier'],
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(201) }, 'name'],
    [{ name: 1 }, 'name'],
    [{ scopes: 'read' }, 'scopes'],
    [{ scopes: ['read'] }, 'scopes.0'],
    [{ scopes: [{}] }, 'scopes.0.value'],
    [{ scopes: [{ value: '' }] }, 'scopes.0.value'],
    [{ scopes: [{ value: 'a b' }] }, 'scopes.0.value'],
    [{ scopes: [{ value: 'a"b' }] }, 'scopes.0.value'],
    [{ scopes: [{ value: 'ä' }] }, 'scopes.0.value'],
    [{ scopes: [{ value: 'a', description: 1 }] }, 'scopes.0.description'],
    [{ scopes: [{ value: 'a', extra: 1 }] }, 'scopes.0.extra'],
    [{ scopes: [{ value: 'a' }, { value: 'b' }, { value: 'a' }] }, 'scopes.2.value'],
    [{ scopes: Array.from({ length: 1001 }, (_, i) => ({ value: `s${i}` })) }, 'scopes'],
    [{ enforce_policies: 'true' }, 'enforce_policies'],
    [{ token_dialect: 'rfc9068_profile' }, 'token_dialect'],
    [{ token_lifetime: 0 }, 'token_lifetime'],
    [{ token_lifetime: 2_592_001 }, 'token_lifetime'],
    [{ token_lifetime: 1.5 }, 'token_lifetime'],
    [{ token_lifetime: '60' }, 'token_lifetime'],
    [{ id: 'mine' }, 'id'],
    [{ is_system: true }, 'is_system'],
    [{ signing_secret: 'HS256' }, 'signing_secret'],
  ];
  for (const [sent, property] of wrong) {
    test(`POST /resource-servers rejects ${(JSON.stringify(sent) ?? '').slice(0, 70)}`, async () => {
      const body = { identifier: 'urn:wrong', ...sent };
      assertInvalid(await fixture.send('POST', '/resource-servers', body), property);
    });
  }

  test('POST /resource-servers accepts values at the limits', async () => {
    const value = 'x'.repeat(280);
    const limits = { identifier: 'y'.repeat(600), token_lifetime: 2_592_000, scopes: [{ value }] };
    const api = await create(limits);
    assert.deepEqual((await fixture.send('GET', pathOf(limits.identifier))).body, api);
    assert.equal((await create({ token_lifetime: 1 })).token_lifetime, 1);
  });
});

describe('an API', () => {
  test('GET finds an API by its id and by its identifier', async () => {
    const api = await create({ identifier: 'https://by.example.com/a?b=c#d%20' });
    for (const name of [api.id, api.identifier]) {
      const response = await fixture.send('GET', pathOf(name));
      assert.deepEqual([response.status, response.body], [200, api]);
    }
  });

  test('PATCH finds an API by either, and changes only the fields sent', async () => {
    const api = await create({ scopes: [{ value: 'a', description: 'A' }], token_lifetime: 60 });
    const renamed = await fixture.send('PATCH', pathOf(api.identifier), { name: 'Renamed' });
    assert.deepEqual(renamed.body, { ...api, name: 'Renamed' });
    const sent = { scopes: [], enforce_policies: true, token_dialect: 'access_token_authz' };
    const changed = await fixture.send('PATCH', pathOf(api.id), { ...sent, token_lifetime: 61 });
    assert.deepEqual(changed.body, { ...api, name: 'Renamed', ...sent, token_lifetime: 61 });
    assert.deepEqual((await fixture.send('PATCH', pathOf(api.id), {})).body, changed.body);
  });

  for (const field of ['identifier', 'id', 'is_system']) {
    test(`PATCH rejects ${field}`, async () => {
      const { id } = await create();
      assertInvalid(await fixture.send('PATCH', pathOf(id), { [field]: 'urn:new' }), field);
    });
  }

  test('PATCH rejects a scope that is listed twice', async () => {
    const { id } = await create();
    const scopes = [{ value: 'a' }, { value: 'a' }];
    assertInvalid(await fixture.send('PATCH', pathOf(id), { scopes }), 'scopes.1.value');
  });

  test('DELETE finds an API by either, and removes its grants', async () => {
    const { clientId } = await fixture.auth.client();
    for (const by of ['id', 'identifier']) {
      const api = await create();
      const grant = { client_id: clientId, audience: api.identifier };
      assert.equal((await fixture.send('POST', '/client-grants', grant)).status, 201);
      assert.equal((await fixture.send('DELETE', pathOf(api[by]))).status, 204);
      assert.equal((await fixture.send('GET', pathOf(api.id))).status, 404);
      const grants = await fixture.send('GET', `/client-grants?client_id=${clientId}`);
      assert.deepEqual(grants.body, { client_grants: [] });
    }
  });

  test('an unknown API is 404 to GET and PATCH, and 204 to DELETE', async () => {
    for (const name of ['api_none', 'urn%3Anone', 'x'.repeat(2000)]) {
      const response = await fixture.send('GET', `/resource-servers/${name}`);
      assertNotFound(response, 'api');
    }
    const response = await fixture.send('PATCH', '/resource-servers/none', { name: 'x' });
    assertNotFound(response, 'api');
    assert.equal((await fixture.send('DELETE', '/resource-servers/none')).status, 204);
  });
});

describe('the management API', () => {
  for (const name of managementNames) {
    test(`the management API can be read as ${name}, and is read-only`, async () => {
      const response = await fixture.send('GET', pathOf(name));
      assert.deepEqual([response.status, response.body], [200, management]);
      const message = 'The management API is read-only.';
      const changed = await fixture.send('PATCH', pathOf(name), { name: 'mine' });
      assertProblem(changed, 400, message, 'invalid_body');
      for (const field of [{ signing_alg: 'RS256' }, { scopes: [] }, { enforce_policies: true }]) {
        const refused = await fixture.send('PATCH', pathOf(name), field);
        assertProblem(refused, 400, message, 'invalid_body');
      }
      const { name: shown, scopes, token_lifetime, token_dialect } = management;
      for (const same of [
        {},
        { name: shown },
        { name: shown, scopes, token_lifetime, token_dialect },
      ]) {
        const unchanged = await fixture.send('PATCH', pathOf(name), same);
        assert.deepEqual([unchanged.status, unchanged.body], [200, management]);
      }
      const deleted = await fixture.send('DELETE', pathOf(name));
      assertProblem(deleted, 400, message, 'invalid_body');
    });
  }
});

describe('GET /resource-servers', () => {
  let other: ApiFixture;
  before(async () => {
    other = await openApiFixture({}, { domain: 'localhost:8080' });
    for (const identifier of ['a', 'b', 'c']) {
      other.auth.clock.move(1000);
      const response = await other.send('POST', '/resource-servers', { identifier });
      assert.equal(response.status, 201);
    }
  });
  after(() => other.close());

  async function list(query: string): Promise<string[]> {
    const { body } = await other.send('GET', `/resource-servers?${query}`);
    const items = body.resource_servers ?? body;
    return items.map(({ identifier }: { identifier: string }) => identifier);
  }

  test('GET /resource-servers returns an array, oldest first, the management API last', async () => {
    const { body } = await other.send('GET', '/resource-servers');
    assert.equal(body.length, 4);
    assert.deepEqual(body[3], management);
    assert.deepEqual(await list(''), ['a', 'b', 'c', management.identifier]);
  });

  test('GET /resource-servers returns every API on exactly one page, for any page size', async () => {
    for (let perPage = 1; perPage <= 5; perPage += 1) {
      const all: string[] = [];
      for (let page = 0; page < 6; page += 1) {
        all.push(...(await list(`page=${page}&per_page=${perPage}&include_totals=true`)));
      }
      assert.deepEqual(all, ['a', 'b', 'c', management.identifier], `per_page=${perPage}`);
    }
  });

  test('GET /resource-servers returns totals on request', async () => {
    const path = '/resource-servers?include_totals=true&page=1&per_page=3';
    const { body } = await other.send('GET', path);
    assert.deepEqual(body, {
      start: 3,
      limit: 3,
      total: 4,
      length: 1,
      resource_servers: [management],
    });
  });

  test('GET /resource-servers returns an empty page after the last one, and for per_page=0', async () => {
    assert.deepEqual(await list('page=999999999999999&per_page=100'), []);
    assert.deepEqual(await list('per_page=0'), []);
  });

  for (const query of ['page=-1', 'per_page=101', 'include_totals=1', 'page=']) {
    test(`GET /resource-servers rejects ${query}`, async () => {
      const response = await other.send('GET', `/resource-servers?${query}`);
      assert.equal(response.status, 400);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('the scopes of APIs', () => {
  const operations: ScopedOperation[] = [
    ['GET', '/resource-servers', 'read:resource_servers'],
    ['GET', '/resource-servers/x', 'read:resource_servers'],
    ['POST', '/resource-servers', 'create:resource_servers'],
    ['PATCH', '/resource-servers/x', 'update:resource_servers'],
    ['DELETE', '/resource-servers/x', 'delete:resource_servers'],
  ];
  for (const operation of operations) {
    const [method, path, scope] = operation;
    test(`${method} ${path} needs ${scope}`, () => assertNeedsScope(fixture, operation));
  }
});
