import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type JWK, SignJWT } from 'jose';
import { managementScopes } from '../../src/auth/scopes.ts';
import { allScopesBut, openSite, type Received, type Site } from './fixture.ts';

const issuer = 'https://login.example.net/';
let site: Site;

before(async () => {
  site = await openSite({ trustedIssuers: [issuer] });
});
after(() => site.close());

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsaKey = rsa.publicKey.export({ format: 'jwk' }) as JWK;
const ecKey = ec.publicKey.export({ format: 'jwk' }) as JWK;
const jwks = { keys: [{ ...rsaKey, kid: 'one', use: 'sig', alg: 'RS256' }] };

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const answer = await site.send('POST', '/clients', { name: 'test', ...sent });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

const pathOf = (id: string, rest = ''): string => `/clients/${encodeURIComponent(id)}${rest}`;

async function authorized(token: Promise<string>): Promise<Record<string, string>> {
  return { authorization: `Bearer ${await token}` };
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

/** Whether a client gets a token with this secret; the refusal is that of the token endpoint. */
async function secretWorks(clientId: string, clientSecret: string): Promise<boolean> {
  const { body } = await site.house.requestToken({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    audience: '/api/v2/',
  });
  return body['error'] !== 'invalid_client';
}

describe('POST /clients', () => {
  test('makes a client with an id and a secret that work', async () => {
    const made = await create({ name: 'crm' });
    const { client_id: id, client_secret: secret } = made;
    assert.deepEqual(made, { client_id: id, name: 'crm', global: false, client_secret: secret });
    assert.match(id, /^[0-9a-f]{32}$/);
    assert.match(secret, /^[\w-]{43}$/);
    assert.equal(await secretWorks(id, secret), true);
    assert.equal(await secretWorks(id, `${secret}x`), false);
  });

  test('keeps the secret as a hash only and shows it once', async () => {
    const { client_id: id, client_secret: secret } = await create();
    const kept = await site.house.store.clients.get(site.house.tenant.id, id);
    assert.ok(!JSON.stringify(kept).includes(secret));
    const read = await site.send('GET', pathOf(id));
    assert.equal(Object.hasOwn(read.body, 'client_secret'), false);
    const list = await site.send('GET', '/clients?per_page=100');
    assert.ok(!list.text.includes(secret) && !list.text.includes('client_secret'));
  });

  test('makes a global client without any grant: nobody gains by that', async () => {
    const headers = await authorized(site.tokenWith('create:clients'));
    const answer = await site.send('POST', '/clients', { name: 'x', global: true }, headers);
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.body.global, true);
  });

  test('takes public keys, which then prove who it is', async () => {
    const { client_id: id, jwks: shown } = await create({ jwks });
    assert.deepEqual(shown, jwks);
    const now = Math.floor(site.house.clock.now() / 1000);
    const assertion = await new SignJWT({ jti: 'once' })
      .setProtectedHeader({ alg: 'RS256', kid: 'one' })
      .setIssuer(id)
      .setSubject(id)
      .setAudience('https://leat.example.com/')
      .setIssuedAt(now)
      .setExpirationTime(now + 60)
      .sign(createPrivateKey({ key: rsa.privateKey.export({ format: 'jwk' }), format: 'jwk' }));
    const { body } = await site.house.requestToken({
      grant_type: 'client_credentials',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: assertion,
      audience: '/api/v2/',
    });
    assert.equal(body['error'], 'access_denied', 'known, but without a grant');
  });

  test('takes an EC key, and what other programs export with a key', async () => {
    const key = { ...ecKey, alg: 'ES256', key_ops: ['verify'], ext: true };
    assert.deepEqual((await create({ jwks: { keys: [key, rsaKey] } })).jwks.keys, [key, rsaKey]);
  });

  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey;
  const badKeys: [what: string, key: unknown, property: string][] = [
    ['a private RSA key', rsa.privateKey.export({ format: 'jwk' }), 'jwks.keys.0.d'],
    ['a private EC key', ec.privateKey.export({ format: 'jwk' }), 'jwks.keys.0.d'],
    ['a prime of the key', { ...rsaKey, p: 'AQAB' }, 'jwks.keys.0.p'],
    ['a secret', { kty: 'oct', k: 'AQAB' }, 'jwks.keys.0.kty'],
    ['a key of 1024 bits', small.export({ format: 'jwk' }), 'jwks.keys.0'],
    ['a key of 24,000 bits', { ...rsaKey, n: '_'.repeat(4000) }, 'jwks.keys.0'],
    ['an exponent of 1', { ...rsaKey, e: 'AQ' }, 'jwks.keys.0'],
    ['another curve', p384.export({ format: 'jwk' }), 'jwks.keys.0.crv'],
    ['a point off the curve', { ...ecKey, x: ecKey.y, y: ecKey.x }, 'jwks.keys.0'],
    ['a key to encrypt with', { ...rsaKey, use: 'enc' }, 'jwks.keys.0.use'],
    ['an HMAC algorithm', { ...rsaKey, alg: 'HS256' }, 'jwks.keys.0.alg'],
    ['an algorithm of the other kind', { ...ecKey, alg: 'RS256' }, 'jwks.keys.0.alg'],
    ['a key without modulus', { kty: 'RSA', e: 'AQAB' }, 'jwks.keys.0.n'],
    ['a modulus in another alphabet', { ...rsaKey, n: 'a+/=' }, 'jwks.keys.0.n'],
    ['no kind of key', { n: rsaKey.n, e: rsaKey.e }, 'jwks.keys.0.kty'],
    ['a URL of certificates', { ...rsaKey, x5u: 'https://x' }, 'jwks.keys.0.x5u'],
    ['no object', 'key', 'jwks.keys.0'],
  ];
  for (const [what, key, property] of badKeys) {
    test(`refuses ${what} as a key`, async () => {
      const answer = await site.send('POST', '/clients', { name: 'x', jwks: { keys: [key] } });
      assertInvalid(answer, property);
      assert.ok(!answer.text.includes(String(rsa.privateKey.export({ format: 'jwk' }).d)));
    });
  }

  test('keeps at most 64 KiB of keys, so that the largest page is below 8 MiB', async () => {
    // The most that each member may have; 0 at the left of a number changes nothing.
    const long = (number: unknown): string => `${'A'.repeat(3600)}${String(number)}`;
    const widest = { ...rsaKey, n: long(rsaKey.n), e: long(rsaKey.e), kid: '\u0001'.repeat(255) };
    const keys = (count: number): object => ({ keys: Array.from({ length: count }, () => widest) });
    const answer = await site.send('POST', '/clients', { name: 'x', jwks: keys(20) });
    assertInvalid(answer, 'jwks');
    const name = '\u0001'.repeat(255);
    const kept = await site.send('POST', '/clients', { name, jwks: keys(6) });
    assert.equal(kept.status, 201, kept.text);
    assert.ok(Buffer.byteLength(kept.text) > 50 * 1024);
    const { client_id: id } = await create();
    assertInvalid(await site.send('PATCH', `/clients/${id}`, { jwks: keys(20) }), 'jwks');
  });

  test('refuses no key, too many, and other shapes', async () => {
    const many = Array.from({ length: 21 }, () => ecKey);
    for (const keys of [[], many, {}, null]) {
      assertInvalid(
        await site.send('POST', '/clients', { name: 'x', jwks: { keys } }),
        'jwks.keys',
      );
    }
    for (const set of [null, [], 'https://example.com/jwks.json']) {
      assertInvalid(await site.send('POST', '/clients', { name: 'x', jwks: set }), 'jwks');
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
    [{ name: 'x', app_type: 'non_interactive' }, 'app_type'],
  ];
  for (const [sent, property] of wrong) {
    test(`refuses ${JSON.stringify(sent).slice(0, 70)}`, async () => {
      assertInvalid(await site.send('POST', '/clients', sent), property);
    });
  }

  describe('for a client of an external issuer', () => {
    test('takes its id and gives it no secret', async () => {
      const made = await create({ issuer, client_id: 'abc 123/~', name: 'theirs' });
      const expected = { client_id: 'abc 123/~', issuer, name: 'theirs', global: false };
      assert.deepEqual(made, expected);
      assert.deepEqual((await site.send('GET', pathOf('abc 123/~'))).body, expected);
    });

    test('refuses an id in use, of either kind', async () => {
      const { client_id: own } = await create();
      await create({ issuer, client_id: 'twice' });
      for (const id of ['twice', own, site.house.manager.clientId]) {
        const sent = { name: 'x', issuer, client_id: id };
        const answer = await site.send('POST', '/clients', sent);
        assertRefused(answer, 409, 'The client already exists.', 'already_exists');
      }
    });

    test('makes it global only for a caller with every scope', async () => {
      const headers = await authorized(site.tokenWith(...allScopesBut('read:roles')));
      const sent = { name: 'x', issuer, client_id: 'mighty', global: true };
      const answer = await site.send('POST', '/clients', sent, headers);
      const message = 'Insufficient scope; expected any of: read:roles';
      assertRefused(answer, 403, message, 'insufficient_scope');
      const unarmed = await site.send('POST', '/clients', { ...sent, global: false }, headers);
      assert.equal(unarmed.status, 201, unarmed.text);
      const armed = await site.send('PATCH', '/clients/mighty', { global: true }, headers);
      assertRefused(armed, 403, message, 'insufficient_scope');
      const allowed = await site.send('PATCH', '/clients/mighty', { global: true });
      assert.equal(allowed.body.global, true, allowed.text);
    });
  });
});

describe('PATCH /clients/{client_id}', () => {
  test('changes what it names, and an empty one nothing', async () => {
    const { client_id: id } = await create({ name: 'before', jwks });
    const answer = await site.send('PATCH', pathOf(id), { name: 'after' });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, { client_id: id, name: 'after', global: false, jwks });
    assert.deepEqual((await site.send('PATCH', pathOf(id), {})).body, answer.body);
    assert.deepEqual((await site.send('GET', pathOf(id))).body, answer.body);
  });

  test('replaces the keys, and removes them with null', async () => {
    const { client_id: id } = await create({ jwks });
    const replaced = await site.send('PATCH', pathOf(id), { jwks: { keys: [ecKey] } });
    assert.deepEqual(replaced.body.jwks, { keys: [ecKey] });
    const removed = await site.send('PATCH', pathOf(id), { jwks: null });
    assert.equal(Object.hasOwn(removed.body, 'jwks'), false);
  });

  test('clears global for tokens already out, at once', async () => {
    const credentials = await site.house.client({}, ['read:clients']);
    const headers = await authorized(site.house.token(credentials));
    assert.equal((await site.send('GET', '/clients', undefined, headers)).status, 200);
    const path = pathOf(credentials.clientId);
    const cleared = await site.send('PATCH', path, { global: false });
    assert.equal(cleared.body.global, false);
    const answer = await site.send('GET', '/clients', undefined, headers);
    assertRefused(answer, 401, 'Client is not global.');
    await site.send('PATCH', path, { global: true });
    assert.equal((await site.send('GET', '/clients', undefined, headers)).status, 200);
  });

  const fixed = ['client_id', 'issuer', 'client_secret', 'created_at'];
  for (const member of fixed) {
    test(`refuses ${member}`, async () => {
      const { client_id: id } = await create();
      assertInvalid(await site.send('PATCH', pathOf(id), { [member]: issuer }), member);
    });
  }

  test('refuses keys for a client of an external issuer', async () => {
    const { client_id: id } = await create({ issuer, client_id: 'keyless' });
    assertInvalid(await site.send('PATCH', pathOf(id), { jwks }), 'jwks');
  });

  test('answers 404 for no client', async () => {
    const answer = await site.send('PATCH', '/clients/none', { name: 'x' });
    assertRefused(answer, 404, 'The client does not exist.');
  });
});

describe('POST /clients/{client_id}/rotate-secret', () => {
  test('answers a new secret and ends the old one at once', async () => {
    const { client_id: id, client_secret: former, ...rest } = await create({ jwks });
    const answer = await site.send('POST', pathOf(id, '/rotate-secret'));
    assert.equal(answer.status, 200, answer.text);
    const { client_secret: secret, ...shown } = answer.body;
    assert.deepEqual(shown, { client_id: id, ...rest });
    assert.notEqual(secret, former);
    assert.equal(await secretWorks(id, former), false);
    assert.equal(await secretWorks(id, secret), true);
  });

  test('takes no body or an empty one', async () => {
    const { client_id: id } = await create();
    assert.equal((await site.send('POST', pathOf(id, '/rotate-secret'), {})).status, 200);
    assertInvalid(
      await site.send('POST', pathOf(id, '/rotate-secret'), { client_secret: 'x' }),
      'client_secret',
    );
  });

  test('refuses a client of an external issuer: it has none', async () => {
    const { client_id: id } = await create({ issuer, client_id: 'secretless' });
    assertInvalid(await site.send('POST', pathOf(id, '/rotate-secret')), 'client_secret');
  });

  test('answers 404 for no client', async () => {
    const answer = await site.send('POST', '/clients/none/rotate-secret');
    assertRefused(answer, 404, 'The client does not exist.');
  });
});

describe('no more than one’s own', () => {
  const acts: [what: string, method: string, rest: string, sent: object | undefined][] = [
    ['sets global of', 'PATCH', '', { global: true }],
    ['rotates the secret of', 'POST', '/rotate-secret', undefined],
    ['changes the keys of', 'PATCH', '', { jwks }],
    ['removes the keys of', 'PATCH', '', { jwks: null }],
  ];
  for (const [what, method, rest, sent] of acts) {
    test(`a caller ${what} a client that can do as much, and no other`, async () => {
      const held = ['read:users', 'delete:users'];
      const { clientId } = await site.house.client({ global: false }, held);
      const path = pathOf(clientId, rest);
      const poor = await authorized(site.tokenWith('update:clients', 'read:users'));
      const answer = await site.send(method, path, sent, poor);
      const message = 'Insufficient scope; expected any of: delete:users';
      assertRefused(answer, 403, message, 'insufficient_scope');
      const kept = await site.house.store.clients.get(site.house.tenant.id, clientId);
      assert.equal(kept?.version, 1, 'nothing was changed');
      const rich = await authorized(site.tokenWith('update:clients', ...held));
      assert.equal((await site.send(method, path, sent, rich)).status, 200);
    });
  }

  test('a caller cannot take over the bootstrap client', async () => {
    const path = pathOf(site.house.manager.clientId, '/rotate-secret');
    const headers = await authorized(site.tokenWith(...allScopesBut('read:actions')));
    const answer = await site.send('POST', path, undefined, headers);
    const message = 'Insufficient scope; expected any of: read:actions';
    assertRefused(answer, 403, message, 'insufficient_scope');
    assert.equal(
      await secretWorks(site.house.manager.clientId, site.house.manager.clientSecret),
      true,
    );
  });

  test('names and a cleared global need no more than the scope of the operation', async () => {
    const { clientId } = await site.house.client({}, managementScopes);
    const headers = await authorized(site.tokenWith('update:clients'));
    const sent = { name: 'renamed', global: false };
    const answer = await site.send('PATCH', pathOf(clientId), sent, headers);
    assert.deepEqual(answer.body, { client_id: clientId, ...sent });
  });

  test('a global that is set already may be sent again', async () => {
    const { clientId } = await site.house.client({}, managementScopes);
    const headers = await authorized(site.tokenWith('update:clients'));
    const answer = await site.send('PATCH', pathOf(clientId), { global: true }, headers);
    assert.equal(answer.status, 200, answer.text);
  });

  test('scopes of other APIs do not count', async () => {
    const api = await site.send('POST', '/resource-servers', { identifier: 'urn:other' });
    assert.equal(api.status, 201, api.text);
    const { client_id: id } = await create();
    const sent = { client_id: id, audience: 'urn:other', scope: ['anything'] };
    assert.equal((await site.send('POST', '/client-grants', sent)).status, 201);
    const headers = await authorized(site.tokenWith('update:clients'));
    const answer = await site.send('PATCH', pathOf(id), { global: true }, headers);
    assert.equal(answer.status, 200, answer.text);
  });
});

describe('DELETE /clients/{client_id}', () => {
  test('removes the client with its grants, and ends its tokens at once', async () => {
    const credentials = await site.house.client({}, ['read:clients']);
    const headers = await authorized(site.house.token(credentials));
    const path = pathOf(credentials.clientId);
    assert.equal((await site.send('DELETE', path)).status, 204);
    assert.equal((await site.send('GET', path)).status, 404);
    const answer = await site.send('GET', '/clients', undefined, headers);
    assertRefused(answer, 401, 'Client is not global.');
    const grants = await site.send('GET', `/client-grants?client_id=${credentials.clientId}`);
    assert.deepEqual(grants.body, { client_grants: [] });
    assert.equal(await secretWorks(credentials.clientId, credentials.clientSecret), false);
  });

  test('answers 204 when there is none', async () => {
    assert.equal((await site.send('DELETE', '/clients/none')).status, 204);
  });
});

describe('GET /clients', () => {
  let other: Site;
  before(async () => {
    other = await openSite();
    for (const name of ['a', 'b', 'c']) {
      other.house.clock.move(1000);
      assert.equal((await other.send('POST', '/clients', { name })).status, 201);
    }
  });
  after(() => other.close());

  const names = (items: { name: string }[]): string[] => items.map(({ name }) => name);

  test('is an array, oldest first', async () => {
    const { body } = await other.send('GET', '/clients');
    assert.deepEqual(names(body), ['Bootstrap client', 'a', 'b', 'c']);
    assert.deepEqual((await other.send('GET', '/clients?include_totals=false')).body, body);
  });

  test('has totals when they are asked for', async () => {
    const { body } = await other.send('GET', '/clients?include_totals=true&page=1&per_page=3');
    const { clients, ...totals } = body;
    assert.deepEqual(totals, { start: 3, limit: 3, total: 4 });
    assert.deepEqual(names(clients), ['c']);
  });

  test('has an empty page after the last one, however far', async () => {
    for (const query of ['page=2&per_page=2', 'page=1', 'page=999999999999999&per_page=100']) {
      const { status, body } = await other.send('GET', `/clients?${query}`);
      assert.deepEqual([status, body], [200, []], query);
    }
    const { body } = await other.send('GET', '/clients?page=7&include_totals=true');
    assert.deepEqual(body, { start: 350, limit: 50, total: 4, clients: [] });
    assert.deepEqual((await other.send('GET', '/clients?per_page=0')).body, []);
  });

  const wrong = ['page=-1', 'page=x', 'per_page=101', 'per_page=', 'include_totals=yes'];
  for (const query of wrong) {
    test(`refuses ${query}`, async () => {
      const answer = await other.send('GET', `/clients?${query}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_query_string');
    });
  }
});

describe('GET /clients/{client_id}', () => {
  for (const id of ['none', '%00', 'x'.repeat(1000), '..%2F', 'constructor']) {
    test(`answers 404 for ${id.slice(0, 20)}`, async () => {
      const answer = await site.send('GET', `/clients/${id}`);
      assertRefused(answer, 404, 'The client does not exist.');
    });
  }
});

describe('the scopes of clients', () => {
  const operations: [method: string, path: string, scope: string][] = [
    ['GET', '/clients', 'read:clients'],
    ['GET', '/clients/x', 'read:clients'],
    ['POST', '/clients', 'create:clients'],
    ['PATCH', '/clients/x', 'update:clients'],
    ['POST', '/clients/x/rotate-secret', 'update:clients'],
    ['DELETE', '/clients/x', 'delete:clients'],
  ];
  for (const [method, path, scope] of operations) {
    test(`${method} ${path} needs ${scope}`, async () => {
      const headers = await authorized(site.tokenWith(...allScopesBut(scope)));
      const answer = await site.send(method, path, undefined, headers);
      const message = `Insufficient scope; expected any of: ${scope}`;
      assertRefused(answer, 403, message, 'insufficient_scope');
    });
  }
});
