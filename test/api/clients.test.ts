import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type JWK, SignJWT } from 'jose';
import { managementScopes } from '../../src/auth/scopes.ts';
import {
  assertNotFound,
  assertLacksScope,
  assertNeedsScope,
  type ScopedOperation,
  assertInvalid,
  assertProblem,
  allScopesBut,
  openApiFixture,
  type ApiFixture,
} from './fixture.ts';

const issuer = 'https://login.example.net/';
let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ trustedIssuers: [issuer] });
});
after(() => fixture.close());

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsaKey = rsa.publicKey.export({ format: 'jwk' }) as JWK;
const ecKey = ec.publicKey.export({ format: 'jwk' }) as JWK;
const jwks = { keys: [{ ...rsaKey, kid: 'one', use: 'sig', alg: 'RS256' }] };

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const response = await fixture.send('POST', '/clients', { name: 'test', ...sent });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const pathOf = (id: string, rest = ''): string => `/clients/${encodeURIComponent(id)}${rest}`;

async function authorized(token: Promise<string>): Promise<Record<string, string>> {
  return { authorization: `Bearer ${await token}` };
}

/** Returns whether the token endpoint accepts this secret. */
async function secretWorks(clientId: string, clientSecret: string): Promise<boolean> {
  const { body } = await fixture.auth.requestToken({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    audience: '/api/v2/',
  });
  return body['error'] !== 'invalid_client';
}

describe('POST /clients', () => {
  test('POST /clients creates a client with an id and a secret that work', async () => {
    const created = await create({ name: 'crm' });
    const { client_id: id, client_secret: secret } = created;
    assert.deepEqual(created, { client_id: id, name: 'crm', global: false, client_secret: secret });
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.match(secret, /^[\w-]{43}$/);
    assert.equal(await secretWorks(id, secret), true);
    assert.equal(await secretWorks(id, `${secret}x`), false);
  });

  test('POST /clients stores the secret as a hash only and shows it once', async () => {
    const { client_id: id, client_secret: secret } = await create();
    const stored = await fixture.auth.store.clients.get(fixture.auth.tenant.id, id);
    assert.ok(!JSON.stringify(stored).includes(secret));
    const read = await fixture.send('GET', pathOf(id));
    assert.equal(Object.hasOwn(read.body, 'client_secret'), false);
    const list = await fixture.send('GET', '/clients?per_page=100');
    assert.ok(!list.text.includes(secret) && !list.text.includes('client_secret'));
  });

  test('POST /clients creates a global client for any caller, because it has no grant', async () => {
    const headers = await fixture.headersWith('create:clients');
    const response = await fixture.send('POST', '/clients', { name: 'x', global: true }, headers);
    assert.equal(response.status, 201, response.text);
    assert.equal(response.body.global, true);
  });

  test('POST /clients accepts public keys, which then authenticate the client', async () => {
    const [key] = jwks.keys;
    const sent = [
      { ...key, use: 'enc', alg: 'RSA-OAEP-256' },
      { ...key, key_ops: ['sign', 'verify'] },
    ];
    const { client_id: id, jwks: shown } = await create({ jwks: { keys: sent } });
    assert.deepEqual(shown, { keys: [{ ...key, key_ops: ['verify'] }] });
    const now = Math.floor(fixture.auth.clock.now() / 1000);
    const assertion = await new SignJWT({ jti: 'once' })
      .setProtectedHeader({ alg: 'RS256', kid: 'one' })
      .setIssuer(id)
      .setSubject(id)
      .setAudience('https://leat.example.com/')
      .setIssuedAt(now)
      .setExpirationTime(now + 60)
      .sign(createPrivateKey({ key: rsa.privateKey.export({ format: 'jwk' }), format: 'jwk' }));
    const { body } = await fixture.auth.requestToken({
      grant_type: 'client_credentials',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: assertion,
      audience: '/api/v2/',
    });
    assert.equal(body['error'], 'access_denied', 'known, but without a grant');
  });

  test('POST /clients accepts an EC key, and the optional fields of exported keys', async () => {
    const key = { ...ecKey, alg: 'ES256', key_ops: ['verify'], ext: true };
    assert.deepEqual((await create({ jwks: { keys: [key, rsaKey] } })).jwks.keys, [key, rsaKey]);
  });

  test('POST /clients leaves out fields of keys and key sets that have no effect', async () => {
    const other = { x5u: 'https://x', 'x5t#S256': 'AQAB', iat: 1, __proto__x: {} };
    const set = { keys: [{ ...rsaKey, ...other }], issuer: 'x' };
    const { client_id: id, jwks: shown } = await create({ jwks: set });
    assert.deepEqual(shown, { keys: [rsaKey] });
    const { body } = await fixture.send('PATCH', `/clients/${id}`, {
      jwks: { keys: [{ ...ecKey, ...other }] },
    });
    assert.deepEqual(body.jwks, { keys: [ecKey] });
  });

  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey;
  const badKeys: [name: string, key: unknown, property: string][] = [
    ['a private RSA key', rsa.privateKey.export({ format: 'jwk' }), 'jwks.keys.0.d'],
    ['a private EC key', ec.privateKey.export({ format: 'jwk' }), 'jwks.keys.0.d'],
    ['a prime of the key', { ...rsaKey, p: 'AQAB' }, 'jwks.keys.0.p'],
    ['a secret', { kty: 'oct', k: 'AQAB' }, 'jwks.keys.0.k'],
    ['a key of 1024 bits', small.export({ format: 'jwk' }), 'jwks.keys.0'],
    ['a key of 24,000 bits', { ...rsaKey, n: '_'.repeat(4000) }, 'jwks.keys.0'],
    ['an exponent of 1', { ...rsaKey, e: 'AQ' }, 'jwks.keys.0'],
    ['an exponent as long as the modulus', { ...rsaKey, e: rsaKey.n }, 'jwks.keys.0'],
    ['an exponent above 32 bits', { ...rsaKey, e: 'AQAAAAE' }, 'jwks.keys.0'],
    ['an even modulus', { ...rsaKey, n: `${rsaKey.n?.slice(0, -2)}AA` }, 'jwks.keys.0'],
    ['another curve', p384.export({ format: 'jwk' }), 'jwks.keys.0.crv'],
    ['a point off the curve', { ...ecKey, x: ecKey.y, y: ecKey.x }, 'jwks.keys.0'],
    ['a key to encrypt with', { ...rsaKey, use: 'enc' }, 'jwks.keys.0.use'],
    ['an HMAC algorithm', { ...rsaKey, alg: 'HS256' }, 'jwks.keys.0.alg'],
    ['an algorithm of the other kind', { ...ecKey, alg: 'RS256' }, 'jwks.keys.0.alg'],
    ['a key without modulus', { kty: 'RSA', e: 'AQAB' }, 'jwks.keys.0.n'],
    ['operations without verify', { ...rsaKey, key_ops: ['sign'] }, 'jwks.keys.0.key_ops.0'],
    ['no operation', { ...rsaKey, key_ops: [] }, 'jwks.keys.0.key_ops'],
    ['operations that are no list', { ...rsaKey, key_ops: 'verify' }, 'jwks.keys.0.key_ops'],
    ['a modulus in another alphabet', { ...rsaKey, n: 'a+/=' }, 'jwks.keys.0.n'],
    ['no kind of key', { n: rsaKey.n, e: rsaKey.e }, 'jwks.keys.0.kty'],
    ['no object', 'key', 'jwks.keys.0'],
  ];
  for (const [name, key, property] of badKeys) {
    test(`POST /clients rejects ${name} as a key`, async () => {
      const response = await fixture.send('POST', '/clients', { name: 'x', jwks: { keys: [key] } });
      assertInvalid(response, property);
      assert.ok(!response.text.includes(String(rsa.privateKey.export({ format: 'jwk' }).d)));
    });
  }

  test('POST /clients, PATCH: keys that cannot verify are left out beside one that can', async () => {
    const unusable = badKeys
      .map(([, key]) => key)
      .filter((key) => typeof key === 'object' && !['d', 'p', 'k'].some((n) => n in Object(key)));
    assert.ok(unusable.length >= 15);
    const okp = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
    const further = [okp, { kty: 'AKP', alg: 'ML-DSA-44', pub: 'AQAB' }, {}];
    const good = { ...rsaKey, kid: 'good' };
    for (const first of [unusable.slice(0, 10), unusable.slice(10), further]) {
      const keys = [...first, { ...good, key_ops: ['sign', 'verify'] }, { ...ecKey, use: 'enc' }];
      const created = await create({ jwks: { keys } });
      const shown = { keys: [{ ...good, key_ops: ['verify'] }] };
      assert.deepEqual(created.jwks, shown);
      const { client_id: id } = await create();
      assert.deepEqual(
        (await fixture.send('PATCH', pathOf(id), { jwks: { keys } })).body.jwks,
        shown,
      );
    }
    const none = { keys: [...further, { ...rsaKey, use: 'enc' }] };
    assertInvalid(
      await fixture.send('POST', '/clients', { name: 'x', jwks: none }),
      'jwks.keys.0.kty',
    );
    const secret = { keys: [rsaKey, { kty: 'oct', k: 'AQAB' }] };
    assertInvalid(
      await fixture.send('POST', '/clients', { name: 'x', jwks: secret }),
      'jwks.keys.1.k',
    );
  });

  test('POST /clients accepts at most 64 KiB of keys, so that the largest page is below 8 MiB', async () => {
    // The maximum of each field; leading zeros of a number have no effect.
    const long = (number: unknown): string => `${'A'.repeat(3600)}${String(number)}`;
    const widest = { ...rsaKey, n: long(rsaKey.n), e: long(rsaKey.e), kid: '\u0001'.repeat(255) };
    const keys = (count: number): object => ({ keys: Array.from({ length: count }, () => widest) });
    const response = await fixture.send('POST', '/clients', { name: 'x', jwks: keys(20) });
    assertInvalid(response, 'jwks');
    const name = '"'.repeat(255);
    const accepted = await fixture.send('POST', '/clients', { name, jwks: keys(6) });
    assert.equal(accepted.status, 201, accepted.text);
    assert.ok(Buffer.byteLength(accepted.text) > 50 * 1024);
    const { client_id: id } = await create();
    assertInvalid(await fixture.send('PATCH', `/clients/${id}`, { jwks: keys(20) }), 'jwks');
  });

  test('POST /clients rejects an empty key set, too many keys, and other types', async () => {
    const many = Array.from({ length: 21 }, () => ecKey);
    for (const keys of [[], many, {}, null]) {
      assertInvalid(
        await fixture.send('POST', '/clients', { name: 'x', jwks: { keys } }),
        'jwks.keys',
      );
    }
    for (const set of [null, [], 'https://example.com/jwks.json']) {
      assertInvalid(await fixture.send('POST', '/clients', { name: 'x', jwks: set }), 'jwks');
    }
  });

  const wrong: [sent: object, property: string][] = [
    [{}, 'name'],
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(256) }, 'name'],
    [{ name: 1 }, 'name'],
    [{ name: null }, 'name'],
    [{ name: 'x', global: 'true' }, 'global'],
    [{ name: 'x', global: null }, 'global'],
    [{ name: 'x', client_secret: 'chosen-by-me' }, 'client_secret'],
    [{ name: 'x', client_id: 'mine' }, 'client_id'],
    [{ name: 'x', issuer }, 'client_id'],
    [{ name: 'x', issuer, client_id: '' }, 'client_id'],
    [{ name: 'x', issuer, client_id: 'ä' }, 'client_id'],
    [{ name: 'x', issuer, client_id: 'a\u0000' }, 'client_id'],
    [{ name: 'x', issuer, client_id: 'x'.repeat(256) }, 'client_id'],
    [{ name: 'x', issuer: 'https://evil.example/', client_id: 'a' }, 'issuer'],
    [{ name: 'x', issuer: 'https://login.example.net', client_id: 'a' }, 'issuer'],
    [{ name: 'x', issuer, client_id: 'a', jwks }, 'jwks'],
    [{ name: 'x', signing_keys: [] }, 'signing_keys'],
  ];
  for (const [sent, property] of wrong) {
    test(`POST /clients rejects ${JSON.stringify(sent).slice(0, 70)}`, async () => {
      assertInvalid(await fixture.send('POST', '/clients', sent), property);
    });
  }

  describe('for a client of an external issuer', () => {
    test('accepts the id and creates no secret', async () => {
      const created = await create({ issuer, client_id: 'abc 123/~', name: 'theirs' });
      const expected = { client_id: 'abc 123/~', issuer, name: 'theirs', global: false };
      assert.deepEqual(created, expected);
      assert.deepEqual((await fixture.send('GET', pathOf('abc 123/~'))).body, expected);
    });

    test('rejects an id that any client has', async () => {
      const { client_id: own } = await create();
      await create({ issuer, client_id: 'twice' });
      for (const id of ['twice', own, fixture.auth.manager.clientId]) {
        const sent = { name: 'x', issuer, client_id: id };
        const response = await fixture.send('POST', '/clients', sent);
        assertProblem(response, 409, 'The client already exists.', 'already_exists');
      }
    });

    test('sets global only for a caller with every scope', async () => {
      const headers = await fixture.headersWith(...allScopesBut('read:roles'));
      const sent = { name: 'x', issuer, client_id: 'mighty', global: true };
      const response = await fixture.send('POST', '/clients', sent, headers);
      assertLacksScope(response, 'read:roles');
      const notGlobal = await fixture.send('POST', '/clients', { ...sent, global: false }, headers);
      assert.equal(notGlobal.status, 201, notGlobal.text);
      const made = await fixture.send('PATCH', '/clients/mighty', { global: true }, headers);
      assertLacksScope(made, 'read:roles');
      const allowed = await fixture.send('PATCH', '/clients/mighty', { global: true });
      assert.equal(allowed.body.global, true, allowed.text);
    });
  });
});

describe('PATCH /clients/{client_id}', () => {
  test('PATCH /clients/{client_id} changes only the fields sent', async () => {
    const { client_id: id } = await create({ name: 'before', jwks });
    const response = await fixture.send('PATCH', pathOf(id), { name: 'after' });
    assert.equal(response.status, 200);
    assert.deepEqual(response.body, { client_id: id, name: 'after', global: false, jwks });
    assert.deepEqual((await fixture.send('PATCH', pathOf(id), {})).body, response.body);
    assert.deepEqual((await fixture.send('GET', pathOf(id))).body, response.body);
  });

  test('a client whose stored name has blanks at its ends can be read, changed and renamed', async () => {
    const { store, tenant } = fixture.auth;
    const made = await fixture.send('POST', '/clients', { name: 'padded' });
    const { client_id: id } = made.body;
    const name = ' padded ';
    await store.clients.update(tenant.id, id, (stored) => ({ after: { ...stored, name } }));
    const path = `/clients/${id}`;
    assert.equal((await fixture.send('GET', path)).body.name, name);
    const described = await fixture.send('PATCH', path, { description: 'x' });
    assert.deepEqual([described.status, described.body.name], [200, name]);
    assertInvalid(await fixture.send('PATCH', path, { name }), 'name');
    assert.equal((await fixture.send('PATCH', path, { name: 'padded' })).body.name, 'padded');
  });

  test('PATCH /clients/{client_id} replaces the keys, and removes them with null', async () => {
    const { client_id: id } = await create({ jwks });
    const replaced = await fixture.send('PATCH', pathOf(id), { jwks: { keys: [ecKey] } });
    assert.deepEqual(replaced.body.jwks, { keys: [ecKey] });
    const removed = await fixture.send('PATCH', pathOf(id), { jwks: null });
    assert.equal(Object.hasOwn(removed.body, 'jwks'), false);
  });

  test('clearing global takes effect immediately for issued tokens', async () => {
    const credentials = await fixture.auth.client({}, ['read:clients']);
    const headers = await authorized(fixture.auth.token(credentials));
    assert.equal((await fixture.send('GET', '/clients', undefined, headers)).status, 200);
    const path = pathOf(credentials.clientId);
    const cleared = await fixture.send('PATCH', path, { global: false });
    assert.equal(cleared.body.global, false);
    const response = await fixture.send('GET', '/clients', undefined, headers);
    assertProblem(response, 401, 'Client is not global.');
    await fixture.send('PATCH', path, { global: true });
    assert.equal((await fixture.send('GET', '/clients', undefined, headers)).status, 200);
  });

  const fixed = ['client_id', 'issuer', 'client_secret', 'created_at'];
  for (const field of fixed) {
    test(`PATCH /clients/{client_id} rejects ${field}`, async () => {
      const { client_id: id } = await create();
      assertInvalid(await fixture.send('PATCH', pathOf(id), { [field]: issuer }), field);
    });
  }

  test('PATCH /clients/{client_id} rejects keys for a client of an external issuer', async () => {
    const { client_id: id } = await create({ issuer, client_id: 'keyless' });
    assertInvalid(await fixture.send('PATCH', pathOf(id), { jwks }), 'jwks');
  });

  test('PATCH /clients/{client_id} returns 404 for an unknown client', async () => {
    const response = await fixture.send('PATCH', '/clients/none', { name: 'x' });
    assertNotFound(response, 'client');
  });
});

describe('POST /clients/{client_id}/rotate-secret', () => {
  test('POST /clients/{client_id}/rotate-secret returns a new secret; the former one stops working immediately', async () => {
    const { client_id: id, client_secret: former, ...rest } = await create({ jwks });
    const response = await fixture.send('POST', pathOf(id, '/rotate-secret'));
    assert.equal(response.status, 200, response.text);
    const { client_secret: secret, ...shown } = response.body;
    assert.deepEqual(shown, { client_id: id, ...rest });
    assert.notEqual(secret, former);
    assert.equal(await secretWorks(id, former), false);
    assert.equal(await secretWorks(id, secret), true);
  });

  test('POST /clients/{client_id}/rotate-secret accepts a missing or empty body only', async () => {
    const { client_id: id } = await create();
    assert.equal((await fixture.send('POST', pathOf(id, '/rotate-secret'), {})).status, 200);
    assert.equal((await fixture.send('POST', pathOf(id, '/rotate-secret'), 'null')).status, 200);
    assertInvalid(await fixture.send('POST', pathOf(id, '/rotate-secret'), 'false'), 'body');
    assertInvalid(
      await fixture.send('POST', pathOf(id, '/rotate-secret'), { client_secret: 'x' }),
      'client_secret',
    );
  });

  test('POST /clients/{client_id}/rotate-secret rejects a client of an external issuer, which has no secret', async () => {
    const { client_id: id } = await create({ issuer, client_id: 'secretless' });
    assertInvalid(await fixture.send('POST', pathOf(id, '/rotate-secret')), 'client_secret');
  });

  test('POST /clients/{client_id}/rotate-secret returns 404 for an unknown client', async () => {
    const response = await fixture.send('POST', '/clients/none/rotate-secret');
    assertNotFound(response, 'client');
  });
});

describe('scope delegation', () => {
  const actions: [name: string, method: string, rest: string, sent: object | undefined][] = [
    ['set global of a client', 'PATCH', '', { global: true }],
    ['rotate the secret of a client', 'POST', '/rotate-secret', undefined],
    ['change the keys of a client', 'PATCH', '', { jwks }],
    ['remove the keys of a client', 'PATCH', '', { jwks: null }],
    ['rename a client', 'PATCH', '', { name: 'renamed' }],
    ['set a carried field of a client', 'PATCH', '', { description: 'of somebody else' }],
  ];
  for (const [name, method, rest, sent] of actions) {
    test(`to ${name}, the caller needs all scopes of the client`, async () => {
      const held = ['read:users', 'delete:users'];
      const { clientId } = await fixture.auth.client({ global: false }, held);
      const path = pathOf(clientId, rest);
      const some = await fixture.headersWith('update:clients', 'read:users');
      const response = await fixture.send(method, path, sent, some);
      assertLacksScope(response, 'delete:users');
      const stored = await fixture.auth.store.clients.get(fixture.auth.tenant.id, clientId);
      assert.equal(stored?.version, 1, 'nothing was changed');
      const all = await fixture.headersWith('update:clients', ...held);
      assert.equal((await fixture.send(method, path, sent, all)).status, 200);
    });
  }

  test('a caller cannot take over the bootstrap client', async () => {
    const path = pathOf(fixture.auth.manager.clientId, '/rotate-secret');
    const headers = await fixture.headersWith(...allScopesBut('read:actions'));
    const response = await fixture.send('POST', path, undefined, headers);
    assertLacksScope(response, 'read:actions');
    assert.equal(
      await secretWorks(fixture.auth.manager.clientId, fixture.auth.manager.clientSecret),
      true,
    );
  });

  test('a client without more scopes than the caller is renamed by the scope of the operation', async () => {
    const { clientId } = await fixture.auth.client({}, ['update:clients']);
    const headers = await fixture.headersWith('update:clients');
    const sent = { name: 'renamed' };
    const response = await fixture.send('PATCH', pathOf(clientId), sent, headers);
    assert.deepEqual(response.body, { client_id: clientId, name: 'renamed', global: true });
  });

  test('to clear global or delete a client, the caller needs all scopes of that client', async () => {
    const { clientId } = await fixture.auth.client({}, ['read:users', 'delete:users']);
    const some = await fixture.headersWith('update:clients', 'delete:clients', 'read:users');
    for (const [method, sent] of [['PATCH', { global: false }], ['DELETE']] as const) {
      const response = await fixture.send(method, pathOf(clientId), sent, some);
      assertLacksScope(response, 'delete:users');
    }
    const stored = await fixture.auth.store.clients.get(fixture.auth.tenant.id, clientId);
    assert.equal(stored?.version, 1, 'nothing was changed');
    assert.equal((await fixture.send('DELETE', pathOf(clientId))).status, 204);
  });

  test('a client of an external issuer can be renamed and deleted by the scopes of the operations while it is not global', async () => {
    const headers = await fixture.headersWith('update:clients', 'delete:clients');
    const external = { issuer: 'https://login.example.net/', secretHash: undefined };
    await fixture.auth.client({ ...external, id: 'one', global: true });
    await fixture.auth.client({ ...external, id: 'two', global: false });
    const statuses = async (id: string): Promise<number[]> => [
      (await fixture.send('PATCH', pathOf(id), { name: 'other' }, headers)).status,
      (await fixture.send('DELETE', pathOf(id), undefined, headers)).status,
    ];
    assert.deepEqual(await statuses('one'), [403, 403]);
    assert.deepEqual(await statuses('two'), [200, 204]);
  });

  test('sending what a client has already needs only the scope of the operation', async () => {
    const { clientId } = await fixture.auth.client({ name: 'kept' }, managementScopes);
    const headers = await fixture.headersWith('update:clients');
    for (const sent of [{ global: true }, { name: 'kept' }, {}]) {
      const response = await fixture.send('PATCH', pathOf(clientId), sent, headers);
      assert.equal(response.status, 200, response.text);
    }
  });

  test('scopes of other APIs are not compared', async () => {
    const api = await fixture.send('POST', '/resource-servers', { identifier: 'urn:other' });
    assert.equal(api.status, 201, api.text);
    const { client_id: id } = await create();
    const sent = { client_id: id, audience: 'urn:other', scope: ['anything'] };
    assert.equal((await fixture.send('POST', '/client-grants', sent)).status, 201);
    const headers = await fixture.headersWith('update:clients');
    const response = await fixture.send('PATCH', pathOf(id), { global: true }, headers);
    assert.equal(response.status, 200, response.text);
  });
});

describe('DELETE /clients/{client_id}', () => {
  test('DELETE /clients/{client_id} removes the client with its grants; its tokens stop working immediately', async () => {
    const credentials = await fixture.auth.client({}, ['read:clients']);
    const headers = await authorized(fixture.auth.token(credentials));
    const path = pathOf(credentials.clientId);
    assert.equal((await fixture.send('DELETE', path)).status, 204);
    assert.equal((await fixture.send('GET', path)).status, 404);
    const response = await fixture.send('GET', '/clients', undefined, headers);
    assertProblem(response, 401, 'Client is not global.');
    const grants = await fixture.send('GET', `/client-grants?client_id=${credentials.clientId}`);
    assert.deepEqual(grants.body, { client_grants: [] });
    assert.equal(await secretWorks(credentials.clientId, credentials.clientSecret), false);
  });

  test('DELETE /clients/{client_id} returns 204 for an unknown client', async () => {
    assert.equal((await fixture.send('DELETE', '/clients/none')).status, 204);
  });
});

describe('GET /clients', () => {
  let other: ApiFixture;
  before(async () => {
    other = await openApiFixture();
    for (const name of ['a', 'b', 'c']) {
      other.auth.clock.move(1000);
      assert.equal((await other.send('POST', '/clients', { name })).status, 201);
    }
  });
  after(() => other.close());

  const names = (items: { name: string }[]): string[] => items.map(({ name }) => name);

  test('GET /clients returns an array, oldest first', async () => {
    const { body } = await other.send('GET', '/clients');
    assert.deepEqual(names(body), ['Bootstrap client', 'a', 'b', 'c']);
    assert.deepEqual((await other.send('GET', '/clients?include_totals=false')).body, body);
  });

  test('GET /clients returns totals on request', async () => {
    const { body } = await other.send('GET', '/clients?include_totals=true&page=1&per_page=3');
    const { clients, ...totals } = body;
    assert.deepEqual(totals, { start: 3, limit: 3, total: 4, length: 1 });
    assert.deepEqual(names(clients), ['c']);
  });

  test('GET /clients returns an empty page for any number after the last page', async () => {
    for (const query of ['page=2&per_page=2', 'page=1', 'page=999999999999999&per_page=100']) {
      const { status, body } = await other.send('GET', `/clients?${query}`);
      assert.deepEqual([status, body], [200, []], query);
    }
    const { body } = await other.send('GET', '/clients?page=7&include_totals=true');
    assert.deepEqual(body, { start: 350, limit: 50, total: 4, length: 0, clients: [] });
    assert.deepEqual((await other.send('GET', '/clients?per_page=0')).body, []);
  });

  const wrong = ['page=-1', 'page=x', 'per_page=101', 'per_page=', 'include_totals=yes'];
  for (const query of wrong) {
    test(`GET /clients rejects ${query}`, async () => {
      const response = await other.send('GET', `/clients?${query}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('GET /clients/{client_id}', () => {
  for (const id of ['none', 'x'.repeat(1000), '..%2F', 'constructor']) {
    test(`GET /clients/{client_id} returns 404 for ${id.slice(0, 20)}`, async () => {
      const response = await fixture.send('GET', `/clients/${id}`);
      assertNotFound(response, 'client');
    });
  }
});

describe('the scopes of clients', () => {
  const operations: ScopedOperation[] = [
    ['GET', '/clients', 'read:clients'],
    ['GET', '/clients/x', 'read:clients'],
    ['POST', '/clients', 'create:clients'],
    ['PATCH', '/clients/x', 'update:clients'],
    ['POST', '/clients/x/rotate-secret', 'update:clients'],
    ['DELETE', '/clients/x', 'delete:clients'],
  ];
  for (const operation of operations) {
    const [method, path, scope] = operation;
    test(`${method} ${path} needs ${scope}`, () => assertNeedsScope(fixture, operation));
  }
});
