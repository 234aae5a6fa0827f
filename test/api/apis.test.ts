import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { allScopesBut, openSite, type Received, type Site } from './fixture.ts';

let site: Site;

before(async () => {
  site = await openSite({}, { domain: 'localhost:8080' });
});
after(() => site.close());

let made = 0;

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  made += 1;
  const identifier = `https://api-${made}.example.com/`;
  const answer = await site.send('POST', '/resource-servers', { identifier, ...sent });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

const pathOf = (id: string): string => `/resource-servers/${encodeURIComponent(id)}`;

function assertRefused(answer: Received, status: number, message: string, code?: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.body.message, message);
  assert.equal(answer.body.errorCode, code);
}

function assertInvalid(answer: Received, property: string): void {
  assert.equal(answer.status, 400, answer.text);
  assert.equal(answer.body.errorCode, 'invalid_body');
  assert.ok(answer.body.message.includes(` on property ${property} (`), answer.text);
}

const management = {
  id: 'management',
  identifier: 'https://localhost:8080/api/v2/',
  name: 'Leat Management API',
  scopes: managementScopes.map((value) => ({ value, description: '' })),
  enforce_policies: false,
  token_dialect: 'access_token',
  token_lifetime: 86_400,
  is_system: true,
};

/** Whatever names the management API, by id or as an audience. */
const managementNames = [
  'management',
  'https://localhost:8080/api/v2/',
  'http://localhost:8080/api/v2/',
  '/api/v2/',
];

describe('POST /resource-servers', () => {
  test('makes an API with the defaults', async () => {
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

  test('takes every member, and tokens follow it', async () => {
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
    const credentials = await site.house.client();
    const grant = {
      client_id: credentials.clientId,
      audience: 'urn:orders',
      scope: ['read:orders'],
    };
    assert.equal((await site.send('POST', '/client-grants', grant)).status, 201);
    const token = await site.house.token(credentials, 'urn:orders');
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    assert.equal(claims.exp - claims.iat, 60);
    assert.deepEqual(claims.permissions, ['read:orders']);
  });

  test('refuses an identifier in use, also one that is the id of an API', async () => {
    const { id, identifier } = await create();
    for (const taken of [identifier, id]) {
      const answer = await site.send('POST', '/resource-servers', { identifier: taken });
      assertRefused(answer, 409, 'The API already exists.', 'already_exists');
    }
  });

  for (const identifier of managementNames) {
    test(`refuses ${identifier}: it means the management API`, async () => {
      const answer = await site.send('POST', '/resource-servers', { identifier });
      assertRefused(answer, 409, 'The API already exists.', 'already_exists');
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
    [{ signing_alg: 'HS256' }, 'signing_alg'],
  ];
  for (const [sent, property] of wrong) {
    test(`refuses ${(JSON.stringify(sent) ?? '').slice(0, 70)}`, async () => {
      const body = { identifier: 'urn:wrong', ...sent };
      assertInvalid(await site.send('POST', '/resource-servers', body), property);
    });
  }

  test('takes what is just within the bounds', async () => {
    const value = 'x'.repeat(280);
    const bounds = { identifier: 'y'.repeat(600), token_lifetime: 2_592_000, scopes: [{ value }] };
    const api = await create(bounds);
    assert.deepEqual((await site.send('GET', pathOf(bounds.identifier))).body, api);
    assert.equal((await create({ token_lifetime: 1 })).token_lifetime, 1);
  });
});

describe('an API', () => {
  test('is found by its id and by its identifier', async () => {
    const api = await create({ identifier: 'https://by.example.com/a?b=c#d%20' });
    for (const name of [api.id, api.identifier]) {
      const answer = await site.send('GET', pathOf(name));
      assert.deepEqual([answer.status, answer.body], [200, api]);
    }
  });

  test('is changed by either, what is not named stays', async () => {
    const api = await create({ scopes: [{ value: 'a', description: 'A' }], token_lifetime: 60 });
    const renamed = await site.send('PATCH', pathOf(api.identifier), { name: 'Renamed' });
    assert.deepEqual(renamed.body, { ...api, name: 'Renamed' });
    const sent = { scopes: [], enforce_policies: true, token_dialect: 'access_token_authz' };
    const changed = await site.send('PATCH', pathOf(api.id), { ...sent, token_lifetime: 61 });
    assert.deepEqual(changed.body, { ...api, name: 'Renamed', ...sent, token_lifetime: 61 });
    assert.deepEqual((await site.send('PATCH', pathOf(api.id), {})).body, changed.body);
  });

  for (const member of ['identifier', 'id', 'is_system']) {
    test(`keeps its ${member}`, async () => {
      const { id } = await create();
      assertInvalid(await site.send('PATCH', pathOf(id), { [member]: 'urn:new' }), member);
    });
  }

  test('cannot be given a scope twice', async () => {
    const { id } = await create();
    const scopes = [{ value: 'a' }, { value: 'a' }];
    assertInvalid(await site.send('PATCH', pathOf(id), { scopes }), 'scopes.1.value');
  });

  test('is deleted by either, with its grants', async () => {
    const { clientId } = await site.house.client();
    for (const by of ['id', 'identifier']) {
      const api = await create();
      const grant = { client_id: clientId, audience: api.identifier };
      assert.equal((await site.send('POST', '/client-grants', grant)).status, 201);
      assert.equal((await site.send('DELETE', pathOf(api[by]))).status, 204);
      assert.equal((await site.send('GET', pathOf(api.id))).status, 404);
      const grants = await site.send('GET', `/client-grants?client_id=${clientId}`);
      assert.deepEqual(grants.body, { client_grants: [] });
    }
  });

  test('that is not there is 404, and 204 to delete', async () => {
    for (const name of ['api_none', 'urn%3Anone', '%00', 'x'.repeat(2000)]) {
      const answer = await site.send('GET', `/resource-servers/${name}`);
      assertRefused(answer, 404, 'The API does not exist.');
    }
    const answer = await site.send('PATCH', '/resource-servers/none', { name: 'x' });
    assertRefused(answer, 404, 'The API does not exist.');
    assert.equal((await site.send('DELETE', '/resource-servers/none')).status, 204);
  });
});

describe('the management API', () => {
  for (const name of managementNames) {
    test(`is read as ${name}, and read-only`, async () => {
      const answer = await site.send('GET', pathOf(name));
      assert.deepEqual([answer.status, answer.body], [200, management]);
      const message = 'The management API is read-only.';
      const changed = await site.send('PATCH', pathOf(name), { name: 'mine' });
      assertRefused(changed, 400, message, 'invalid_body');
      const deleted = await site.send('DELETE', pathOf(name));
      assertRefused(deleted, 400, message, 'invalid_body');
    });
  }
});

describe('GET /resource-servers', () => {
  let other: Site;
  before(async () => {
    other = await openSite({}, { domain: 'localhost:8080' });
    for (const identifier of ['a', 'b', 'c']) {
      other.house.clock.move(1000);
      const answer = await other.send('POST', '/resource-servers', { identifier });
      assert.equal(answer.status, 201);
    }
  });
  after(() => other.close());

  async function list(query: string): Promise<string[]> {
    const { body } = await other.send('GET', `/resource-servers?${query}`);
    const items = body.resource_servers ?? body;
    return items.map(({ identifier }: { identifier: string }) => identifier);
  }

  test('is an array, oldest first, the management API last', async () => {
    const { body } = await other.send('GET', '/resource-servers');
    assert.equal(body.length, 4);
    assert.deepEqual(body[3], management);
    assert.deepEqual(await list(''), ['a', 'b', 'c', management.identifier]);
  });

  test('has every API on exactly one page, whatever its size', async () => {
    for (let perPage = 1; perPage <= 5; perPage += 1) {
      const all: string[] = [];
      for (let page = 0; page < 6; page += 1) {
        all.push(...(await list(`page=${page}&per_page=${perPage}&include_totals=true`)));
      }
      assert.deepEqual(all, ['a', 'b', 'c', management.identifier], `per_page=${perPage}`);
    }
  });

  test('has totals when they are asked for', async () => {
    const path = '/resource-servers?include_totals=true&page=1&per_page=3';
    const { body } = await other.send('GET', path);
    assert.deepEqual(body, { start: 3, limit: 3, total: 4, resource_servers: [management] });
  });

  test('has empty pages after the last one, and pages of nothing', async () => {
    assert.deepEqual(await list('page=999999999999999&per_page=100'), []);
    assert.deepEqual(await list('per_page=0'), []);
  });

  for (const query of ['page=-1', 'per_page=101', 'include_totals=1', 'page=']) {
    test(`refuses ${query}`, async () => {
      const answer = await other.send('GET', `/resource-servers?${query}`);
      assert.equal(answer.status, 400);
      assert.equal(answer.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('the scopes of APIs', () => {
  const operations: [method: string, path: string, scope: string][] = [
    ['GET', '/resource-servers', 'read:resource_servers'],
    ['GET', '/resource-servers/x', 'read:resource_servers'],
    ['POST', '/resource-servers', 'create:resource_servers'],
    ['PATCH', '/resource-servers/x', 'update:resource_servers'],
    ['DELETE', '/resource-servers/x', 'delete:resource_servers'],
  ];
  for (const [method, path, scope] of operations) {
    test(`${method} ${path} needs ${scope}`, async () => {
      const token = await site.tokenWith(...allScopesBut(scope));
      const answer = await site.send(method, path, undefined, { authorization: `Bearer ${token}` });
      const message = `Insufficient scope; expected any of: ${scope}`;
      assertRefused(answer, 403, message, 'insufficient_scope');
    });
  }
});
