import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { allScopesBut, openSite, type Received, type Site } from './fixture.ts';

const issuer = 'https://login.example.net/';
const management = 'https://localhost:8080/api/v2/';
const audience = 'urn:orders';
let site: Site;

before(async () => {
  site = await openSite({ trustedIssuers: [issuer] }, { domain: 'localhost:8080' });
  const answer = await site.send('POST', '/resource-servers', { identifier: audience });
  assert.equal(answer.status, 201, answer.text);
});
after(() => site.close());

async function newClient(): Promise<string> {
  return (await site.house.client()).clientId;
}

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const body = { client_id: await newClient(), audience, ...sent };
  const answer = await site.send('POST', '/client-grants', body);
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

async function withScopes(...scopes: string[]): Promise<Record<string, string>> {
  return { authorization: `Bearer ${await site.tokenWith(...scopes)}` };
}

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

function assertBeyond(answer: Received, ...scopes: string[]): void {
  const message = `Insufficient scope; expected any of: ${scopes.join(',')}`;
  assertRefused(answer, 403, message, 'insufficient_scope');
}

describe('POST /client-grants', () => {
  test('lets the client have tokens with these scopes', async () => {
    const credentials = await site.house.client();
    const sent = { client_id: credentials.clientId, audience, scope: ['b:x', 'a:x'] };
    const answer = await site.send('POST', '/client-grants', sent);
    assert.equal(answer.status, 201, answer.text);
    assert.match(answer.body.id, /^cgr_/);
    assert.deepEqual(answer.body, { id: answer.body.id, ...sent });
    assert.ok(await site.house.token(credentials, audience));
  });

  test('may grant no scope', async () => {
    assert.deepEqual((await create()).scope, []);
    assert.deepEqual((await create({ scope: [] })).scope, []);
  });

  for (const form of [management, '/api/v2/', 'http://localhost:8080/api/v2/']) {
    test(`takes ${form} for the management API`, async () => {
      const grant = await create({ audience: form, scope: ['read:users'] });
      assert.equal(grant.audience, management);
    });
  }

  test('refuses a second grant of a client for an audience', async () => {
    const grant = await create();
    const sent = { client_id: grant.client_id, audience, scope: ['other'] };
    const answer = await site.send('POST', '/client-grants', sent);
    assertRefused(answer, 409, 'The grant already exists.', 'already_exists');
    await create({ client_id: grant.client_id, audience: management });
    const again = { client_id: grant.client_id, audience: '/api/v2/' };
    const twice = await site.send('POST', '/client-grants', again);
    assertRefused(twice, 409, 'The grant already exists.', 'already_exists');
  });

  test('lets one of many at once through', async () => {
    const sent = { client_id: await newClient(), audience };
    const asked = Array.from({ length: 6 }, () => site.send('POST', '/client-grants', sent));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 201).length, 1);
    assert.equal(statuses.filter((status) => status === 409).length, 5);
  });

  test('answers 404 for a client or an API that is not there', async () => {
    const nobody = await site.send('POST', '/client-grants', { client_id: 'none', audience });
    assertRefused(nobody, 404, 'The client does not exist.');
    const sent = { client_id: await newClient(), audience: 'urn:none' };
    const nothing = await site.send('POST', '/client-grants', sent);
    assertRefused(nothing, 404, 'The API does not exist.');
  });

  test('takes the identifier of an API only, not its id', async () => {
    const { body: api } = await site.send('GET', '/resource-servers/urn%3Aorders');
    for (const id of [api.id, 'management']) {
      const sent = { client_id: await newClient(), audience: id };
      const answer = await site.send('POST', '/client-grants', sent);
      assertRefused(answer, 404, 'The API does not exist.');
    }
  });

  const wrong: [sent: object, property: string][] = [
    [{ client_id: undefined }, 'client_id'],
    [{ client_id: 1 }, 'client_id'],
    [{ audience: undefined }, 'audience'],
    [{ audience: null }, 'audience'],
    [{ scope: 'read:users' }, 'scope'],
    [{ scope: null }, 'scope'],
    [{ scope: [1] }, 'scope.0'],
    [{ scope: [''] }, 'scope.0'],
    [{ scope: ['a b'] }, 'scope.0'],
    [{ scope: ['a\\b'] }, 'scope.0'],
    [{ scope: ['a', 'a'] }, 'scope'],
    [{ scope: Array.from({ length: 1001 }, (_, i) => `s${i}`) }, 'scope'],
    [{ id: 'mine' }, 'id'],
    [{ allow_all_scopes: true }, 'allow_all_scopes'],
  ];
  for (const [sent, property] of wrong) {
    test(`refuses ${(JSON.stringify(sent) ?? '').slice(0, 70)} (${property})`, async () => {
      const body = { client_id: 'x', audience, ...sent };
      assertInvalid(await site.send('POST', '/client-grants', body), property);
    });
  }
});

describe('no more than one’s own', () => {
  test('a caller grants scopes of the management API that its token has, and no others', async () => {
    const headers = await withScopes('create:client_grants', 'read:users');
    const sent = { client_id: await newClient(), audience: management };
    const post = (scope: string[]): Promise<Received> =>
      site.send('POST', '/client-grants', { ...sent, scope }, headers);
    assertBeyond(
      await post(['read:users', 'delete:users', 'read:roles']),
      'delete:users',
      'read:roles',
    );
    assertBeyond(await post(['no:such']), 'no:such');
    const none = await site.send('GET', `/client-grants?client_id=${sent.client_id}`);
    assert.deepEqual(none.body.client_grants, []);
    assert.equal((await post(['read:users'])).status, 201);
  });

  test('a caller cannot widen its own grant', async () => {
    const credentials = await site.house.client({}, ['read:client_grants', 'update:client_grants']);
    const headers = { authorization: `Bearer ${await site.house.token(credentials)}` };
    const list = `/client-grants?client_id=${credentials.clientId}`;
    const { body } = await site.send('GET', list, undefined, headers);
    const path = `/client-grants/${body.client_grants[0].id}`;
    const answer = await site.send('PATCH', path, { scope: [...managementScopes] }, headers);
    assert.equal(answer.status, 403, answer.text);
    assert.deepEqual((await site.send('GET', list)).body, body);
    const narrowed = await site.send('PATCH', path, { scope: ['read:client_grants'] }, headers);
    assert.deepEqual(narrowed.body.scope, ['read:client_grants']);
  });

  test('a caller changes a grant of another client to what its own token has', async () => {
    const grant = await create({ audience: management, scope: ['read:users', 'read:roles'] });
    const headers = await withScopes('update:client_grants', 'read:users');
    const path = `/client-grants/${grant.id}`;
    const kept = await site.send('PATCH', path, { scope: ['read:roles'] }, headers);
    assertBeyond(kept, 'read:roles');
    const own = await site.send('PATCH', path, { scope: ['read:users'] }, headers);
    assert.deepEqual(own.body.scope, ['read:users']);
  });

  test('a client of an external issuer is granted something only by who has everything', async () => {
    const sent = { name: 'x', issuer, client_id: 'external' };
    assert.equal((await site.send('POST', '/clients', sent)).status, 201);
    const grant = { client_id: 'external', audience: management, scope: ['read:users'] };
    const poor = await withScopes(...allScopesBut('read:roles'));
    assertBeyond(await site.send('POST', '/client-grants', grant, poor), 'read:roles');
    assert.equal((await site.send('POST', '/client-grants', grant)).status, 201);
  });

  test('scopes of other APIs are anybody’s to grant', async () => {
    const headers = await withScopes('create:client_grants', 'update:client_grants');
    const sent = { client_id: await newClient(), audience, scope: ['delete:users'] };
    const answer = await site.send('POST', '/client-grants', sent, headers);
    assert.equal(answer.status, 201, answer.text);
    const path = `/client-grants/${answer.body.id}`;
    assert.equal((await site.send('PATCH', path, { scope: ['x'] }, headers)).status, 200);
  });
});

describe('PATCH /client-grants/{id}', () => {
  test('replaces the scopes; without them nothing changes', async () => {
    const grant = await create({ scope: ['a'] });
    const path = `/client-grants/${grant.id}`;
    const answer = await site.send('PATCH', path, { scope: ['b', 'c'] });
    assert.deepEqual([answer.status, answer.body], [200, { ...grant, scope: ['b', 'c'] }]);
    assert.deepEqual((await site.send('PATCH', path, {})).body, answer.body);
  });

  for (const member of ['client_id', 'audience', 'id']) {
    test(`refuses ${member}`, async () => {
      const { id } = await create();
      assertInvalid(await site.send('PATCH', `/client-grants/${id}`, { [member]: 'x' }), member);
    });
  }

  test('answers 404 for no grant', async () => {
    const answer = await site.send('PATCH', '/client-grants/cgr_none', { scope: [] });
    assertRefused(answer, 404, 'The grant does not exist.');
  });
});

describe('DELETE /client-grants/{id}', () => {
  test('acts on the next token', async () => {
    const credentials = await site.house.client();
    const grant = await create({ client_id: credentials.clientId });
    assert.ok(await site.house.token(credentials, audience));
    assert.equal((await site.send('DELETE', `/client-grants/${grant.id}`)).status, 204);
    await assert.rejects(site.house.token(credentials, audience), /access_denied/);
  });

  test('answers 204 when there is none', async () => {
    assert.equal((await site.send('DELETE', '/client-grants/none')).status, 204);
  });

  test('has no operation to read one', async () => {
    assert.equal((await site.send('GET', '/client-grants/none')).status, 405);
  });
});

describe('GET /client-grants', () => {
  test('pages with take and from', async (t) => {
    const other = await openSite();
    t.after(() => other.close());
    for (let index = 0; index < 4; index += 1) await other.house.client({}, ['read:users']);
    const seen: string[] = [];
    let from = '';
    do {
      const { body } = await other.send('GET', `/client-grants?take=2${from}`);
      assert.ok(body.client_grants.length <= 2);
      seen.push(...body.client_grants.map(({ id }: { id: string }) => id));
      from = body.next === undefined ? '' : `&from=${body.next}`;
    } while (from !== '');
    assert.equal(new Set(seen).size, 5, 'four and that of the manager');
    assert.equal(seen.length, 5);
  });

  test('filters by client and by audience', async () => {
    const client = await newClient();
    const orders = await create({ client_id: client, scope: ['a'] });
    const own = await create({ client_id: client, audience: management });
    const list = async (query: string): Promise<unknown> =>
      (await site.send('GET', `/client-grants?client_id=${client}${query}`)).body;
    assert.deepEqual(await list(''), { client_grants: [orders, own].toSorted(byId) });
    assert.deepEqual(await list(`&audience=${audience}`), { client_grants: [orders] });
    const encoded = encodeURIComponent(management);
    assert.deepEqual(await list(`&audience=${encoded}`), { client_grants: [own] });
    assert.deepEqual(await list('&audience=urn:none'), { client_grants: [] });
    const nobody = await site.send('GET', '/client-grants?client_id=none');
    assert.deepEqual(nobody.body, { client_grants: [] });
  });

  test('ignores what the SDK sends besides', async () => {
    const answer = await site.send('GET', '/client-grants?include_totals=true&take=50');
    assert.equal(answer.status, 200);
    assert.ok(Array.isArray(answer.body.client_grants));
  });

  for (const query of [
    'take=0',
    'take=101',
    'take=x',
    'from=!',
    'from=eA',
    'client_id=a&client_id=b',
  ]) {
    test(`refuses ${query}`, async () => {
      const answer = await site.send('GET', `/client-grants?${query}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('the scopes of client grants', () => {
  const operations: [method: string, path: string, scope: string][] = [
    ['GET', '/client-grants', 'read:client_grants'],
    ['POST', '/client-grants', 'create:client_grants'],
    ['PATCH', '/client-grants/x', 'update:client_grants'],
    ['DELETE', '/client-grants/x', 'delete:client_grants'],
  ];
  for (const [method, path, scope] of operations) {
    test(`${method} ${path} needs ${scope}`, async () => {
      const headers = await withScopes(...allScopesBut(scope));
      assertBeyond(await site.send(method, path, undefined, headers), scope);
    });
  }
});

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1;
}
