import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { exportJWK, SignJWT } from 'jose';
import type { Authentication } from '../../src/auth/verify.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import type { Store } from '../../src/store/port/store.ts';
import { type House, openHouse, secondTenant } from './fixture.ts';

const INVALID = { kind: 'invalid', message: 'Invalid token' };
const BAD_SIGNATURE = {
  kind: 'invalid',
  message: 'Invalid signature received for JSON Web Token validation',
};
const EXPIRED = {
  kind: 'invalid',
  message: 'Expired token received for JSON Web Token validation',
};

let house: House;
let stranger: KeyObject;

before(() => {
  stranger = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
});
beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => house.close());

/** What the verifier says of an `Authorization` header. */
async function verify(authorization: string | undefined): Promise<Authentication> {
  return house.verifier.verify(house.tenant, authorization, house.clock.now());
}

/** A token signed by the tenant's own key, with whatever claims and header. */
async function signed(claims: object, header: object = {}): Promise<string> {
  const { kid, key } = await house.keyring.signer(house.tenant.id, house.clock.now());
  return new SignJWT({ ...(await goodClaims()), ...claims })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid, ...header })
    .sign(key);
}

/** A token in any shape: `signature` makes the third part of the first two. */
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
  const seconds = Math.floor(house.clock.now() / 1000);
  return {
    iss: 'https://leat.example.com/',
    aud: 'https://leat.example.com/api/v2/',
    azp: house.manager.clientId,
    exp: seconds + 3600,
    scope: 'read:users',
  };
}

async function ownKid(): Promise<string> {
  return (await house.keyring.signer(house.tenant.id, house.clock.now())).kid;
}

describe('a bearer token', () => {
  test('of the token endpoint is verified, with its client, scopes and end', async () => {
    const verdict = await verify(`Bearer ${await house.token()}`);
    assert.deepEqual(verdict, {
      kind: 'verified',
      token: {
        clientId: house.manager.clientId,
        scopes: managementScopes,
        expiresAt: house.clock.now() + 86_400_000,
        global: true,
        bucket: house.manager.clientId,
      },
    });
  });

  test('is answered without a promise once it is known', async () => {
    const authorization = `Bearer ${await house.token()}`;
    const first = await verify(authorization);
    const again = house.verifier.verify(house.tenant, authorization, house.clock.now());
    assert.ok(!(again instanceof Promise));
    assert.deepEqual(again, first);
  });

  test('may come with the scheme in any case and with blanks around it', async () => {
    const token = await house.token();
    for (const header of [`bearer ${token}`, `BEARER ${token}`, `Bearer   ${token} `]) {
      assert.equal((await verify(header)).kind, 'verified', header.slice(0, 12));
    }
  });

  test('is missing when the header holds none', async () => {
    const token = await house.token();
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

  test('is refused when it is no JWT', async () => {
    const good = await house.token();
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
      assert.deepEqual(await verify(`Bearer ${token}`), INVALID, token.slice(0, 40));
    }
  });

  test('longer than 8 KiB is refused unread, even with a good signature', async () => {
    const token = await signed({ filler: 'x'.repeat(8192) });
    assert.deepEqual(await verify(`Bearer ${token}`), INVALID);
  });
});

describe('an attack on the algorithm', () => {
  test('alg none is refused, with and without a signature', async () => {
    const claims = await goodClaims();
    for (const alg of ['none', 'None', 'NONE', 'nOnE']) {
      const header = { alg, kid: await ownKid() };
      assert.deepEqual(await verify(`Bearer ${await forged(header, claims, () => '')}`), INVALID);
      assert.deepEqual(await verify(`Bearer ${await forged(header, claims)}`), INVALID);
    }
  });

  test('HS256 with the public key as its secret is refused', async () => {
    const jwks = await house.keyring.jwks(house.tenant.id, house.clock.now());
    const publicKey = await house.keyring.keyFor(
      house.tenant.id,
      await ownKid(),
      house.clock.now(),
    );
    const pem = publicKey?.export({ type: 'spki', format: 'pem' }) ?? '';
    for (const secret of [pem, pem.trim(), JSON.stringify(jwks.keys[0])]) {
      const header = { alg: 'HS256', typ: 'JWT', kid: await ownKid() };
      const token = await forged(header, await goodClaims(), (data) =>
        createHmac('sha256', secret).update(data).digest('base64url'),
      );
      assert.deepEqual(await verify(`Bearer ${token}`), INVALID);
    }
  });

  test('any other algorithm is refused, also with a good signature of the right key', async () => {
    for (const alg of ['RS384', 'RS512', 'PS256']) {
      assert.deepEqual(await verify(`Bearer ${await signed({}, { alg })}`), INVALID, alg);
    }
    for (const alg of ['ES256', 'EdDSA', 'rs256', '', 256, null, ['RS256']]) {
      const token = await forged({ alg, kid: await ownKid() }, await goodClaims());
      assert.deepEqual(await verify(`Bearer ${token}`), INVALID, String(alg));
    }
  });

  test('crit is refused, whatever it names', async () => {
    for (const crit of [['exp'], ['b64'], ['x'], []]) {
      const token = await forged({ alg: 'RS256', kid: await ownKid(), crit }, await goodClaims());
      assert.deepEqual(await verify(`Bearer ${token}`), INVALID, JSON.stringify(crit));
    }
  });
});

describe('an attack on the key', () => {
  async function byStranger(header: object): Promise<string> {
    return new SignJWT(await goodClaims())
      .setProtectedHeader({ alg: 'RS256', ...header })
      .sign(stranger);
  }

  test('a signature of another key is refused', async () => {
    assert.deepEqual(
      await verify(`Bearer ${await byStranger({ kid: await ownKid() })}`),
      BAD_SIGNATURE,
    );
  });

  test('a kid that is unknown, missing or no text is refused', async () => {
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

  test('a key that the token brings along is not looked at', async () => {
    const jwk = { ...(await exportJWK(stranger)), d: undefined };
    for (const header of [
      { jwk },
      { jwk, kid: await ownKid() },
      { jku: 'https://evil.example.com/jwks.json', kid: 'evil' },
      { x5u: 'https://evil.example.com/cert.pem', kid: await ownKid() },
      { x5c: ['MIIB'], kid: await ownKid() },
    ]) {
      const verdict = await verify(`Bearer ${await byStranger(header)}`);
      assert.deepEqual(verdict, BAD_SIGNATURE, Object.keys(header).join());
    }
  });

  test('a good token with another payload, header or signature is refused', async () => {
    const token = await house.token();
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

  test('the key of another tenant does not sign for this one', async () => {
    const other = await secondTenant(house);
    const { kid: otherKid, key } = await house.keyring.signer(other.tenant.id, house.clock.now());
    const token = await new SignJWT(await goodClaims())
      .setProtectedHeader({ alg: 'RS256', kid: otherKid })
      .sign(key);
    assert.deepEqual(await verify(`Bearer ${token}`), BAD_SIGNATURE);
  });
});

describe('the claims', () => {
  test('of another issuer are refused, however alike it looks', async () => {
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
      assert.deepEqual(await verify(`Bearer ${await signed({ iss })}`), INVALID, String(iss));
    }
  });

  test('of another audience are refused, which the message quotes', async () => {
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
      const verdict = await verify(`Bearer ${await signed({ aud })}`);
      assert.deepEqual(verdict, { kind: 'invalid', message });
    }
  });

  test('may name the audience among others', async () => {
    const aud = ['https://other.example.com', 'https://leat.example.com/api/v2/'];
    assert.equal((await verify(`Bearer ${await signed({ aud })}`)).kind, 'verified');
  });

  test('are judged by the clock at each use, with 5 s leeway', async () => {
    const seconds = Math.floor(house.clock.now() / 1000);
    const authorization = `Bearer ${await signed({ exp: seconds + 60 })}`;
    assert.equal((await verify(authorization)).kind, 'verified');
    house.clock.move(64_999);
    assert.equal((await verify(authorization)).kind, 'verified');
    house.clock.move(1);
    assert.deepEqual(await verify(authorization), EXPIRED);
  });

  test('that are not valid yet become so, with 5 s leeway', async () => {
    const seconds = Math.floor(house.clock.now() / 1000);
    const authorization = `Bearer ${await signed({ nbf: seconds + 60 })}`;
    assert.deepEqual(await verify(authorization), INVALID);
    house.clock.move(54_999);
    assert.deepEqual(await verify(authorization), INVALID);
    house.clock.move(1);
    assert.equal((await verify(authorization)).kind, 'verified');
  });

  test('without a time that means something are refused', async () => {
    for (const times of [
      { exp: undefined },
      { exp: null },
      { exp: '9999999999' },
      { exp: {} },
      { nbf: '0' },
      { nbf: null },
    ]) {
      const token = await signed(times);
      assert.deepEqual(await verify(`Bearer ${token}`), INVALID, JSON.stringify(times));
    }
  });

  test('that expired long ago or with a strange number are expired', async () => {
    for (const exp of [0, -1, -1e300, 1]) {
      assert.deepEqual(await verify(`Bearer ${await signed({ exp })}`), EXPIRED, String(exp));
    }
  });

  test('written twice count once, for the check and for what is checked', async () => {
    const { key } = await house.keyring.signer(house.tenant.id, house.clock.now());
    const claims = JSON.stringify(await goodClaims());
    const twice = `${claims.slice(0, -1)},"iss":"https://evil.example.com/"}`;
    const token = await forged({ alg: 'RS256', kid: await ownKid() }, twice, (data) =>
      sign('sha256', Buffer.from(data), key).toString('base64url'),
    );
    assert.deepEqual(await verify(`Bearer ${token}`), INVALID);
  });

  test('give no scope when scope is no text', async () => {
    for (const scope of [undefined, 7, ['read:users'], { 'read:users': true }, '']) {
      const verdict = await verify(`Bearer ${await signed({ scope })}`);
      assert.ok(verdict.kind === 'verified');
      assert.deepEqual(verdict.token.scopes, []);
    }
  });
});

describe('the client of a token', () => {
  async function isGlobal(authorization: string): Promise<boolean | undefined> {
    const verdict = await verify(authorization);
    return verdict.kind === 'verified' ? verdict.token.global : undefined;
  }

  test('that is deleted is not global from the next request on', async () => {
    const authorization = `Bearer ${await house.token()}`;
    assert.equal(await isGlobal(authorization), true);
    await house.store.clients.delete(house.tenant.id, house.manager.clientId);
    assert.equal(await isGlobal(authorization), false);
  });

  test('that is registered after its first request is known from the next one on', async () => {
    const token = `Bearer ${await signed({ azp: 'late' })}`;
    assert.equal(await isGlobal(token), false);
    await house.client({ id: 'late', global: true });
    assert.equal(await isGlobal(token), true);
  });

  test('that loses its flag is not global from the next request on, and again when it is back', async () => {
    const authorization = `Bearer ${await house.token()}`;
    assert.equal(await isGlobal(authorization), true);
    for (const global of [false, true]) {
      await house.store.clients.update(house.tenant.id, house.manager.clientId, (client) => ({
        after: { ...client, global },
      }));
      assert.equal(await isGlobal(authorization), global);
    }
  });

  test('is not global without the flag, without a name, or when nobody knows it', async () => {
    const plain = await house.client({ global: false }, ['read:users']);
    assert.equal(await isGlobal(`Bearer ${await house.token(plain)}`), false);
    for (const azp of [undefined, '', 'nobody', 7, '__proto__']) {
      assert.equal(await isGlobal(`Bearer ${await signed({ azp })}`), false, String(azp));
    }
  });

  test('of an external issuer is not global with a token of Leat', async () => {
    await house.client({
      id: 'external',
      issuer: 'https://login.example.net/',
      secretHash: undefined,
    });
    assert.equal(await isGlobal(`Bearer ${await signed({ azp: 'external' })}`), false);
  });

  test('of one tenant means nothing to another', async () => {
    const other = await secondTenant(house);
    const token = await house.token();
    assert.equal((await verify(`Bearer ${token}`)).kind, 'verified');
    const elsewhere = house.verifier.verify(other.tenant, `Bearer ${token}`, house.clock.now());
    assert.deepEqual(await elsewhere, INVALID);
  });
});

describe('the verifier', () => {
  let reads = 0;
  const counting = (store: Store): Store => ({
    ...store,
    watch: () => () => {},
    clients: {
      ...store.clients,
      get: (tenant, id) => {
        reads += 1;
        return store.clients.get(tenant, id);
      },
    },
  });

  test('follows changes it hears nothing of within 2 s', async () => {
    const deaf = await openHouse({ around: counting });
    const authorization = `Bearer ${await deaf.token()}`;
    const isGlobal = async (): Promise<boolean> => {
      const verdict = await deaf.verifier.verify(deaf.tenant, authorization, deaf.clock.now());
      return verdict.kind === 'verified' && verdict.token.global;
    };
    assert.equal(await isGlobal(), true);
    await deaf.store.clients.delete(deaf.tenant.id, deaf.manager.clientId);
    deaf.clock.move(1_999);
    assert.equal(await isGlobal(), false);
    await deaf.close();
  });

  test('asks the store once for many requests of one client', async () => {
    const counted = await openHouse({ around: counting });
    const authorization = `Bearer ${await counted.token()}`;
    const ask = (): unknown =>
      counted.verifier.verify(counted.tenant, authorization, counted.clock.now());
    reads = 0;
    await Promise.all(Array.from({ length: 50 }, ask));
    await ask();
    assert.equal(reads, 1);
    await counted.close();
  });

  test('refuses a flood of forged tokens and goes on serving the good one', async () => {
    const good = await house.token();
    await verify(`Bearer ${good}`);
    const forgeries = Array.from({ length: 500 }, () => {
      const signature = randomBytes(256).toString('base64url');
      return verify(`Bearer ${good.slice(0, good.lastIndexOf('.'))}.${signature}`);
    });
    for (const verdict of await Promise.all(forgeries)) assert.deepEqual(verdict, BAD_SIGNATURE);
    const again = house.verifier.verify(house.tenant, `Bearer ${good}`, house.clock.now());
    assert.ok(!(again instanceof Promise) && again.kind === 'verified');
  });
});
