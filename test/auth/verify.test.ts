import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { exportJWK, SignJWT } from 'jose';
import { hashSecret } from '../../src/auth/clients.ts';
import type { Authentication, VerifiedToken } from '../../src/auth/verify.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { managementApiId } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { type AuthFixture, openAuthFixture, secondTenant } from './fixture.ts';

const invalid = (why: string) => ({ kind: 'invalid', message: `Invalid token: ${why}` });
const way = 'request one at https://leat.example.com/oauth/token';
const MALFORMED = invalid(`it is no signed JSON Web Token with iss and exp; ${way}`);
const ISSUER = invalid(
  `its issuer is neither https://leat.example.com/ nor one that is trusted; ${way}`,
);
const ALGORITHM = invalid('its algorithm is not RS256');
const NOT_YET = invalid('it is not valid yet; compare the clocks of its issuer and of this server');
const BAD_SIGNATURE = {
  kind: 'invalid',
  message: 'Invalid signature received for JSON Web Token validation',
};
const EXPIRED = {
  kind: 'invalid',
  message: 'Expired token received for JSON Web Token validation',
};

let fixture: AuthFixture;
let foreignKey: KeyObject;

before(() => {
  foreignKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
});
beforeEach(async () => {
  fixture = await openAuthFixture();
});
afterEach(() => fixture.close());

let reads = 0;
/** Without hints; counts the reads of clients. */
const counting = (store: Store): Store => ({
  ...store,
  watch: () => () => {},
  clients: {
    ...store.clients,
    access: (tenant, id) => {
      reads += 1;
      return store.clients.access(tenant, id);
    },
  },
});

/** Verifies an `Authorization` header. */
async function verify(authorization: string | undefined): Promise<Authentication> {
  return fixture.verifier.verify(fixture.tenant, authorization, fixture.clock.now());
}

/** Signs a token with the tenant's key, with any claims and header. */
async function signed(claims: object, header: object = {}): Promise<string> {
  const { kid, key } = await fixture.keyring.signer(fixture.tenant.id, fixture.clock.now());
  return new SignJWT({ ...(await goodClaims()), ...claims })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid, ...header })
    .sign(key);
}

/** Builds a token of any parts: `signature` returns the third one for the first two. */
async function forged(
  header: object | string,
  claims: object | string,
  signature: (data: string) => string = () => 'c2ln',
): Promise<string> {
  const parts = [header, claims].map((part) =>
    Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url'),
  );
  const data = parts.join('.');
  return `${data}.${signature(data)}`;
}

async function goodClaims(): Promise<Record<string, unknown>> {
  const seconds = Math.floor(fixture.clock.now() / 1000);
  return {
    iss: 'https://leat.example.com/',
    aud: 'https://leat.example.com/api/v2/',
    azp: fixture.manager.clientId,
    exp: seconds + 3600,
    scope: 'read:users',
  };
}

async function ownKid(): Promise<string> {
  return (await fixture.keyring.signer(fixture.tenant.id, fixture.clock.now())).kid;
}

describe('bearer token', () => {
  test('verify: returns client, scopes and expiry of a token of the token endpoint', async () => {
    const authentication = await verify(`Bearer ${await fixture.token()}`);
    assert.ok(authentication.kind === 'verified');
    assert.deepEqual(authentication.token, {
      clientId: fixture.manager.clientId,
      scopes: managementScopes,
      expiresAt: fixture.clock.now() + 3_600_000,
      global: true,
      revoked: false,
      bucket: fixture.manager.clientId,
    });
    const { kid } = await fixture.keyring.signer(fixture.tenant.id, fixture.clock.now());
    assert.equal(authentication.signedWith, kid);
  });

  test('verify: returns without a promise once a token is cached', async () => {
    const authorization = `Bearer ${await fixture.token()}`;
    const first = await verify(authorization);
    const again = fixture.verifier.verify(fixture.tenant, authorization, fixture.clock.now());
    assert.ok(!(again instanceof Promise));
    assert.ok(again.kind === 'verified' && first.kind === 'verified');
    assert.deepEqual(again.token, first.token);
  });

  test('verify: accepts the scheme in any case and blanks around the token', async () => {
    const token = await fixture.token();
    for (const header of [`bearer ${token}`, `BEARER ${token}`, `Bearer   ${token} `]) {
      assert.equal((await verify(header)).kind, 'verified', header.slice(0, 12));
    }
  });

  test('verify: missing when the header has no bearer token', async () => {
    const token = await fixture.token();
    for (const header of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Basic YTpi',
      token,
      `Token ${token}`,
    ]) {
      assert.deepEqual(await verify(header), { kind: 'missing' }, header ?? 'no header');
    }
  });

  test('verify: rejects a token that is not a JWT', async () => {
    const good = await fixture.token();
    const [header = '', claims = '', signature = ''] = good.split('.');
    const shapes = [
      'x',
      '..',
      '...',
      `${header}.${claims}`,
      `${good}.${signature}`,
      `${good}..`,
      `${good} ${good}`,
      `${header}.!!.${signature}`,
      await forged('"text"', '{}'),
      await forged('[]', '{}'),
      await forged('null', '{}'),
      await forged({ alg: 'RS256' }, 'null'),
      await forged({ alg: 'RS256' }, '[1]'),
      await forged({ alg: 'RS256' }, '{"iss":'),
      Buffer.from([0xff, 0xfe, 0x00]).toString('latin1'),
    ];
    for (const token of shapes) {
      assert.deepEqual(await verify(`Bearer ${token}`), MALFORMED, token.slice(0, 40));
    }
  });

  test('verify: rejects a token longer than 12,288 characters, even with a valid signature, and says so', async () => {
    const token = await signed({ filler: 'x'.repeat(12_288) });
    const message = 'Token too long: it has more than 12288 characters';
    assert.deepEqual(await verify(`Bearer ${token}`), { kind: 'invalid', message });
  });
});

describe('alg', () => {
  test('verify: rejects alg none, with and without a signature', async () => {
    const claims = await goodClaims();
    for (const alg of ['none', 'None', 'NONE', 'nOnE']) {
      const header = { alg, kid: await ownKid() };
      assert.deepEqual(await verify(`Bearer ${await forged(header, claims, () => '')}`), ALGORITHM);
      assert.deepEqual(await verify(`Bearer ${await forged(header, claims)}`), ALGORITHM);
    }
  });

  test('verify: rejects HS256 with the public key as its secret', async () => {
    const jwks = await fixture.keyring.jwks(fixture.tenant.id, fixture.clock.now());
    const publicKey = await fixture.keyring.keyFor(
      fixture.tenant.id,
      await ownKid(),
      fixture.clock.now(),
    );
    const pem = publicKey?.export({ type: 'spki', format: 'pem' }) ?? '';
    for (const secret of [pem, pem.trim(), JSON.stringify(jwks.keys[0])]) {
      const header = { alg: 'HS256', typ: 'JWT', kid: await ownKid() };
      const token = await forged(header, await goodClaims(), (data) =>
        createHmac('sha256', secret).update(data).digest('base64url'),
      );
      assert.deepEqual(await verify(`Bearer ${token}`), ALGORITHM);
    }
  });

  test('verify: rejects any other algorithm, even with a valid signature of the right key', async () => {
    for (const alg of ['RS384', 'RS512', 'PS256']) {
      assert.deepEqual(await verify(`Bearer ${await signed({}, { alg })}`), ALGORITHM, alg);
    }
    for (const alg of ['ES256', 'EdDSA', 'rs256', '', 256, null, ['RS256']]) {
      const token = await forged({ alg, kid: await ownKid() }, await goodClaims());
      assert.deepEqual(await verify(`Bearer ${token}`), ALGORITHM, String(alg));
    }
  });

  test('verify: rejects any crit', async () => {
    for (const crit of [['exp'], ['b64'], ['x'], []]) {
      const token = await forged({ alg: 'RS256', kid: await ownKid(), crit }, await goodClaims());
      assert.deepEqual(await verify(`Bearer ${token}`), MALFORMED, JSON.stringify(crit));
    }
  });
});

describe('key', () => {
  async function signedByForeignKey(header: object): Promise<string> {
    return new SignJWT(await goodClaims())
      .setProtectedHeader({ alg: 'RS256', ...header })
      .sign(foreignKey);
  }

  test('verify: rejects a signature of another key', async () => {
    assert.deepEqual(
      await verify(`Bearer ${await signedByForeignKey({ kid: await ownKid() })}`),
      BAD_SIGNATURE,
    );
  });

  test('verify: rejects a kid that is unknown, missing or not a string', async () => {
    const good = await ownKid();
    for (const header of [
      { kid: 'unknown' },
      { kid: `${good} ` },
      { kid: '__proto__' },
      { kid: '' },
      { kid: 7 },
      { kid: [good] },
      {},
    ]) {
      const token = await forged({ alg: 'RS256', ...header }, await goodClaims());
      assert.deepEqual(await verify(`Bearer ${token}`), BAD_SIGNATURE, JSON.stringify(header));
    }
  });

  test('verify: ignores a key in the token header', async () => {
    const jwk = { ...(await exportJWK(foreignKey)), d: undefined };
    for (const header of [
      { jwk },
      { jwk, kid: await ownKid() },
      { jku: 'https://evil.example.com/jwks.json', kid: 'evil' },
      { x5u: 'https://evil.example.com/cert.pem', kid: await ownKid() },
      { x5c: ['MIIB'], kid: await ownKid() },
    ]) {
      const authentication = await verify(`Bearer ${await signedByForeignKey(header)}`);
      assert.deepEqual(authentication, BAD_SIGNATURE, Object.keys(header).join());
    }
  });

  test('verify: rejects a valid token with another payload, header or signature', async () => {
    const token = await fixture.token();
    const [header = '', claims = '', signature = ''] = token.split('.');
    const more = { ...(await goodClaims()), scope: managementScopes.join(' ') };
    const payload = Buffer.from(JSON.stringify(more)).toString('base64url');
    const flipped = signature.startsWith('A') ? `B${signature.slice(1)}` : `A${signature.slice(1)}`;
    await verify(`Bearer ${token}`);
    for (const changed of [
      `${header}.${payload}.${signature}`,
      `${header}.${claims}.${flipped}`,
      `${header}.${claims}.`,
      `${header}.${claims}.${signature.slice(0, -4)}`,
    ]) {
      assert.deepEqual(await verify(`Bearer ${changed}`), BAD_SIGNATURE, changed.slice(-20));
    }
  });

  test('verify: rejects a token signed with the key of another tenant', async () => {
    const other = await secondTenant(fixture);
    const { kid: otherKid, key } = await fixture.keyring.signer(
      other.tenant.id,
      fixture.clock.now(),
    );
    const token = await new SignJWT(await goodClaims())
      .setProtectedHeader({ alg: 'RS256', kid: otherKid })
      .sign(key);
    assert.deepEqual(await verify(`Bearer ${token}`), BAD_SIGNATURE);
  });
});

describe('claims', () => {
  test('verify: rejects another iss, however similar', async () => {
    for (const iss of [
      'https://leat.example.com',
      'http://leat.example.com/',
      'https://LEAT.example.com/',
      'https://leat.example.com.evil.test/',
      'https://leat.example.com/ ',
      '',
      undefined,
      7,
      ['https://leat.example.com/'],
    ]) {
      assert.deepEqual(
        await verify(`Bearer ${await signed({ iss })}`),
        typeof iss === 'string' ? ISSUER : MALFORMED,
        String(iss),
      );
    }
  });

  test('verify: rejects another aud and quotes it', async () => {
    const own = 'https://leat.example.com/api/v2/';
    const cases: [aud: unknown, quoted: string][] = [
      ['https://messages.example.com', 'https://messages.example.com'],
      ['https://leat.example.com/api/v2', 'https://leat.example.com/api/v2'],
      [`${own}x`, `${own}x`],
      ['/api/v2/', '/api/v2/'],
      [['a', 'b'], 'a,b'],
      ['x'.repeat(300), 'x'.repeat(100)],
      [[], ''],
      [[own, 7], ''],
      [{ [own]: true }, ''],
      [undefined, ''],
    ];
    for (const [aud, quoted] of cases) {
      const message = `Bad audience: ${quoted}, expected: ${own}`;
      const authentication = await verify(`Bearer ${await signed({ aud })}`);
      assert.deepEqual(authentication, { kind: 'invalid', message });
    }
  });

  test('verify: accepts the audience among others', async () => {
    const aud = ['https://other.example.com', 'https://leat.example.com/api/v2/'];
    assert.equal((await verify(`Bearer ${await signed({ aud })}`)).kind, 'verified');
  });

  test('verify: checks exp at each use, with 5 s leeway', async () => {
    const seconds = Math.floor(fixture.clock.now() / 1000);
    const authorization = `Bearer ${await signed({ exp: seconds + 60 })}`;
    assert.equal((await verify(authorization)).kind, 'verified');
    fixture.clock.move(64_999);
    assert.equal((await verify(authorization)).kind, 'verified');
    fixture.clock.move(1);
    assert.deepEqual(await verify(authorization), EXPIRED);
  });

  test('verify: checks nbf at each use, with 5 s leeway', async () => {
    const seconds = Math.floor(fixture.clock.now() / 1000);
    const authorization = `Bearer ${await signed({ nbf: seconds + 60 })}`;
    assert.deepEqual(await verify(authorization), NOT_YET);
    fixture.clock.move(54_999);
    assert.deepEqual(await verify(authorization), NOT_YET);
    fixture.clock.move(1);
    assert.equal((await verify(authorization)).kind, 'verified');
  });

  test('verify: rejects a missing or malformed exp and a malformed nbf', async () => {
    for (const times of [
      { exp: undefined },
      { exp: null },
      { exp: '9999999999' },
      { exp: {} },
      { nbf: '0' },
      { nbf: null },
    ]) {
      const token = await signed(times);
      assert.deepEqual(await verify(`Bearer ${token}`), MALFORMED, JSON.stringify(times));
    }
  });

  test('verify: a tiny or negative exp is expired', async () => {
    for (const exp of [0, -1, -1e300, 1]) {
      assert.deepEqual(await verify(`Bearer ${await signed({ exp })}`), EXPIRED, String(exp));
    }
  });

  test('verify: of a repeated claim the last value is the one that is checked', async () => {
    const { key } = await fixture.keyring.signer(fixture.tenant.id, fixture.clock.now());
    const claims = JSON.stringify(await goodClaims());
    const twice = `${claims.slice(0, -1)},"iss":"https://evil.example.com/"}`;
    const token = await forged({ alg: 'RS256', kid: await ownKid() }, twice, (data) =>
      sign('sha256', Buffer.from(data), key).toString('base64url'),
    );
    assert.deepEqual(await verify(`Bearer ${token}`), ISSUER);
  });

  test('verify: returns no scopes when scope is not a string', async () => {
    for (const scope of [undefined, 7, ['read:users'], { 'read:users': true }, '']) {
      const authentication = await verify(`Bearer ${await signed({ scope })}`);
      assert.ok(authentication.kind === 'verified');
      assert.deepEqual(authentication.token.scopes, []);
    }
  });
});

describe('client of a token', () => {
  async function isGlobal(authorization: string): Promise<boolean | undefined> {
    const authentication = await verify(authorization);
    return authentication.kind === 'verified' ? authentication.token.global : undefined;
  }

  test('verify: a deleted client is not global from the next request on', async () => {
    const authorization = `Bearer ${await fixture.token()}`;
    assert.equal(await isGlobal(authorization), true);
    await fixture.store.clients.delete(fixture.tenant.id, fixture.manager.clientId);
    assert.equal(await isGlobal(authorization), false);
  });

  test('verify: a client registered after its first request is global from the next one on', async () => {
    const token = `Bearer ${await signed({ azp: 'late' })}`;
    assert.equal(await isGlobal(token), false);
    await fixture.client({ id: 'late', global: true });
    assert.equal(await isGlobal(token), true);
  });

  test('verify: a change of the global flag takes effect with the next request', async () => {
    const authorization = `Bearer ${await fixture.token()}`;
    assert.equal(await isGlobal(authorization), true);
    for (const global of [false, true]) {
      await fixture.store.clients.update(fixture.tenant.id, fixture.manager.clientId, (client) => ({
        after: { ...client, global },
      }));
      assert.equal(await isGlobal(authorization), global);
    }
  });

  test('verify: a client without the flag, without an id, or unknown is not global', async () => {
    const plain = await fixture.client({ global: false }, ['read:users']);
    assert.equal(await isGlobal(`Bearer ${await fixture.token(plain)}`), false);
    for (const azp of [undefined, '', 'nobody', 7, '__proto__', 'a\u0000']) {
      assert.equal(await isGlobal(`Bearer ${await signed({ azp })}`), false, String(azp));
    }
  });

  test('verify: a client of an external issuer is not global with a token of Leat', async () => {
    await fixture.client({
      id: 'external',
      issuer: 'https://login.example.net/',
      secretHash: undefined,
    });
    assert.equal(await isGlobal(`Bearer ${await signed({ azp: 'external' })}`), false);
  });

  async function tokenNow(authorization: string): Promise<VerifiedToken | undefined> {
    const authentication = await verify(authorization);
    return authentication.kind === 'verified' ? authentication.token : undefined;
  }

  test('scopes: those that the grant of the client holds now, and never more than the token has', async () => {
    const { store, tenant } = fixture;
    const reader = await fixture.client({ id: 'reader' }, ['read:users', 'read:roles']);
    const authorization = `Bearer ${await fixture.token(reader)}`;
    const scopesNow = async (): Promise<unknown> => (await tokenNow(authorization))?.scopes;
    assert.deepEqual(await scopesNow(), ['read:users', 'read:roles']);
    const { id = '' } = (await store.grants.of(tenant.id, 'reader', managementApiId)) ?? {};
    await store.grants.update(tenant.id, id, () => ({ scope: ['read:roles', 'delete:users'] }));
    assert.deepEqual(await scopesNow(), ['read:roles']);
    await store.grants.delete(tenant.id, id);
    assert.deepEqual(await scopesNow(), []);
    const grant = { tenant: tenant.id, id, client: 'reader', api: managementApiId };
    await store.grants.create({ ...grant, scope: ['read:users'] });
    assert.deepEqual(await scopesNow(), ['read:users']);
  });

  test('scopes: none for a client without a grant', async () => {
    await fixture.client({ id: 'bare' });
    assert.deepEqual((await tokenNow(`Bearer ${await signed({ azp: 'bare' })}`))?.scopes, []);
  });

  test('revoked: a token from before the secret was replaced, until the next one', async () => {
    const { store, tenant } = fixture;
    const client = await fixture.client({ id: 'rotated' }, ['read:users']);
    const former = `Bearer ${await fixture.token(client)}`;
    assert.equal((await tokenNow(former))?.revoked, false);
    const clientSecret = 'the-secret-of-now';
    await store.clients.update(tenant.id, 'rotated', (current) => ({
      after: { ...current, secretHash: hashSecret(clientSecret) },
    }));
    assert.equal((await tokenNow(former))?.revoked, true);
    const next = `Bearer ${await fixture.token({ ...client, clientSecret })}`;
    assert.equal((await tokenNow(next))?.revoked, false);
    await store.clients.update(tenant.id, 'rotated', (current) => ({
      after: { ...current, secretHash: undefined },
    }));
    assert.equal((await tokenNow(next))?.revoked, true);
  });

  test('revoked: a token whose version of the credentials is not the one stored, in any form', async () => {
    await fixture.client({ id: 'second', credentialsVersion: 2 }, ['read:users']);
    const isRevoked = async (claims: object): Promise<boolean | undefined> =>
      (await tokenNow(`Bearer ${await signed({ azp: 'second', ...claims })}`))?.revoked;
    assert.equal(await isRevoked({ credentials_version: 2 }), false);
    for (const version of [1, 3, '2', [2], null, undefined]) {
      assert.equal(await isRevoked({ credentials_version: version }), true, String(version));
    }
  });

  test('verify: rejects a token of another tenant', async () => {
    const other = await secondTenant(fixture);
    const token = await fixture.token();
    assert.equal((await verify(`Bearer ${token}`)).kind, 'verified');
    const elsewhere = fixture.verifier.verify(other.tenant, `Bearer ${token}`, fixture.clock.now());
    const { message } = { message: '', ...(await elsewhere) };
    assert.match(message, /^Invalid token: its issuer is neither https:/);
  });
});

describe('verifier', () => {
  test('verify: sees changes of a client within 2 s without hints', async () => {
    const withoutHints = await openAuthFixture({ around: counting });
    const authorization = `Bearer ${await withoutHints.token()}`;
    const isGlobal = async (): Promise<boolean> => {
      const authentication = await withoutHints.verifier.verify(
        withoutHints.tenant,
        authorization,
        withoutHints.clock.now(),
      );
      return authentication.kind === 'verified' && authentication.token.global;
    };
    assert.equal(await isGlobal(), true);
    await withoutHints.store.clients.delete(withoutHints.tenant.id, withoutHints.manager.clientId);
    withoutHints.clock.move(1_999);
    assert.equal(await isGlobal(), false);
    await withoutHints.close();
  });

  test('verify: a verified token can be judged by what its client may do now', async () => {
    const { tenant, manager, store, verifier, clock } = fixture;
    const authorization = `Bearer ${await fixture.token()}`;
    const authentication = await verifier.verify(tenant, authorization, clock.now());
    assert.ok(authentication.kind === 'verified');
    const access = await store.clients.access(tenant.id, manager.clientId);
    assert.ok(access);
    assert.deepEqual(authentication.tokenFor(access), authentication.token);
    const { scopes } = authentication.tokenFor({ ...access, scopes: ['read:users'] });
    assert.deepEqual(scopes, ['read:users']);
    const rotated = { ...access, credentialsVersion: access.credentialsVersion + 1 };
    assert.equal(authentication.tokenFor(rotated).revoked, true);
    assert.equal(authentication.tokenFor(undefined).global, false);
  });

  test('verify: concurrent requests of one client share one read', async () => {
    const counted = await openAuthFixture({ around: counting });
    const authorization = `Bearer ${await counted.token()}`;
    const verifyOnce = (): unknown =>
      counted.verifier.verify(counted.tenant, authorization, counted.clock.now());
    reads = 0;
    await Promise.all(Array.from({ length: 50 }, verifyOnce));
    await verifyOnce();
    assert.equal(reads, 1);
    await counted.close();
  });

  test('verify: rejects a flood of forged tokens and still accepts the valid one', async () => {
    const good = await fixture.token();
    await verify(`Bearer ${good}`);
    const forgeries = Array.from({ length: 500 }, () => {
      const signature = randomBytes(256).toString('base64url');
      return verify(`Bearer ${good.slice(0, good.lastIndexOf('.'))}.${signature}`);
    });
    for (const authentication of await Promise.all(forgeries))
      assert.deepEqual(authentication, BAD_SIGNATURE);
    const again = fixture.verifier.verify(fixture.tenant, `Bearer ${good}`, fixture.clock.now());
    assert.ok(!(again instanceof Promise) && again.kind === 'verified');
  });
});
