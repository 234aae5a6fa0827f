import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { decodeProtectedHeader } from 'jose';
import { createFirstKey, createKeyring, revokeKey, rotateKey } from '../../src/auth/keys.ts';
import type { Store } from '../../src/store/port/store.ts';
import { type House, openHouse, secondTenant } from './fixture.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const LIFETIME_MAX_MS = 30 * DAY_MS;

let house: House;

beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => house.close());

async function published(): Promise<string[]> {
  const { keys } = await house.keyring.jwks(house.tenant.id, house.clock.now());
  return keys.map((key) => key.kid);
}

/** The key that a token made now is signed with. */
async function signing(): Promise<string | undefined> {
  return decodeProtectedHeader(await house.token()).kid;
}

async function isGood(token: string): Promise<boolean> {
  const { verifier, tenant, clock } = house;
  return (await verifier.verify(tenant, `Bearer ${token}`, clock.now())).kind === 'verified';
}

function rotate(immediately = false): Promise<string> {
  return rotateKey(house.store, house.tenant.id, { now: house.clock.now(), immediately });
}

function revoke(kid: string | undefined): Promise<'revoked' | 'unknown'> {
  return revokeKey(house.store, house.tenant.id, kid ?? '', house.clock.now());
}

describe('the key set', () => {
  test('has the public members of an RSA key and no others', async () => {
    const { keys } = await house.keyring.jwks(house.tenant.id, house.clock.now());
    const [key] = keys;
    assert.equal(keys.length, 1);
    assert.deepEqual(Object.keys(key ?? {}).toSorted(), ['alg', 'e', 'kid', 'kty', 'n', 'use']);
    const { kty, use, alg } = key ?? {};
    assert.deepEqual({ kty, use, alg }, { kty: 'RSA', use: 'sig', alg: 'RS256' });
    assert.equal(Buffer.from(key?.n ?? '', 'base64url').length, 256);
  });

  test('is that of one tenant alone', async () => {
    const other = await secondTenant(house);
    const { keys } = await house.keyring.jwks(other.tenant.id, house.clock.now());
    assert.equal(keys.length, 1);
    assert.notDeepEqual([keys[0]?.kid], await published());
  });

  test('gets one first key, however often it is asked for', async () => {
    await createFirstKey(house.store, house.tenant.id, house.clock.now());
    assert.equal((await published()).length, 1);
  });
});

describe('a rotation', () => {
  test('publishes the new key at once and signs with it 10 minutes later', async () => {
    const former = await signing();
    const kid = await rotate();
    assert.deepEqual(await published(), [kid, former]);
    assert.equal(await signing(), former);
    house.clock.move(10 * MINUTE_MS - 1);
    assert.equal(await signing(), former);
    house.clock.move(1);
    assert.equal(await signing(), kid);
  });

  test('at once signs with the new key from the next token on', async () => {
    const kid = await rotate(true);
    assert.equal(await signing(), kid);
  });

  test('keeps tokens of the former key good, also those of the last minutes', async () => {
    const before = await house.token();
    await rotate();
    house.clock.move(10 * MINUTE_MS - 1);
    const last = await house.token();
    house.clock.move(1);
    const first = await house.token();
    assert.deepEqual(await Promise.all([before, last, first].map(isGood)), [true, true, true]);
    house.clock.move(DAY_MS - 10 * MINUTE_MS);
    assert.deepEqual(await Promise.all([last, first].map(isGood)), [true, true]);
  });

  test('unpublishes the former key once the longest token it signed has ended', async () => {
    const former = await signing();
    const kid = await rotate();
    house.clock.move(10 * MINUTE_MS + LIFETIME_MAX_MS);
    assert.deepEqual(await published(), [kid, former]);
    house.clock.move(5_000);
    assert.deepEqual(await published(), [kid]);
  });

  test('twice in ten minutes leaves no moment without a key that signs', async () => {
    const first = await signing();
    const second = await rotate();
    house.clock.move(5 * MINUTE_MS);
    const third = await rotate();
    assert.equal(await signing(), first);
    house.clock.move(5 * MINUTE_MS);
    assert.equal(await signing(), second);
    house.clock.move(5 * MINUTE_MS);
    assert.equal(await signing(), third);
  });
});

describe('a revocation', () => {
  test('ends the tokens of the key with the next request, and a new key signs', async () => {
    const token = await house.token();
    assert.equal(await isGood(token), true);
    const kid = await signing();
    assert.equal(await revoke(kid), 'revoked');
    assert.equal(await isGood(token), false);
    assert.notEqual(await signing(), kid);
    assert.equal(await isGood(await house.token()), true);
    assert.equal((await published()).length, 1);
  });

  test('of the signing key lets the newest other key sign at once', async () => {
    const former = await signing();
    const kid = await rotate();
    await revoke(former);
    assert.equal(await signing(), kid);
    assert.deepEqual(await published(), [kid]);
  });

  test('of the newest key gives the one before its future back', async () => {
    const former = await signing();
    const token = await house.token();
    await revoke(await rotate(true));
    assert.equal(await signing(), former);
    house.clock.move(2 * LIFETIME_MAX_MS);
    assert.deepEqual(await published(), [former]);
    assert.equal(await signing(), former);
    assert.equal(await isGood(token), false, 'the token itself has ended');
  });

  test('of a key that does not sign yet changes nothing else', async () => {
    const former = await signing();
    const second = await rotate();
    house.clock.move(MINUTE_MS);
    await revoke(await rotate());
    assert.deepEqual(await published(), [second, former]);
    assert.equal(await signing(), former);
    house.clock.move(9 * MINUTE_MS);
    assert.equal(await signing(), second);
  });

  test('of a key that nobody knows, or of another tenant, does nothing', async () => {
    const other = await secondTenant(house);
    const [foreign] = await house.store.keys.list(other.tenant.id, house.clock.now());
    assert.equal(await revoke('unknown'), 'unknown');
    assert.equal(await revoke(foreign?.kid), 'unknown');
    assert.equal((await house.store.keys.list(other.tenant.id, house.clock.now())).length, 1);
  });
});

describe('the keyring', () => {
  let reads = 0;
  const deaf = (store: Store): Parameters<typeof createKeyring>[0] => ({
    keys: {
      list: (tenant, now) => {
        reads += 1;
        return store.keys.list(tenant, now);
      },
    },
    watch: () => () => {},
    clock: house.clock,
  });

  test('follows rotation and revocation it hears nothing of within 10 s', async () => {
    const keyring = createKeyring(deaf(house.store));
    const { kid: former } = await keyring.signer(house.tenant.id, house.clock.now());
    const kid = await rotate(true);
    await revoke(former);
    house.clock.move(9_999);
    const { tenant, clock } = house;
    assert.equal((await keyring.signer(tenant.id, clock.now())).kid, kid);
    assert.equal(await keyring.keyFor(tenant.id, former, clock.now()), undefined);
  });

  test('reads again for a kid it does not know, but not for each invented one', async () => {
    const keyring = createKeyring(deaf(house.store));
    const { tenant, clock } = house;
    await keyring.signer(tenant.id, clock.now());
    const kid = await rotate(true);
    clock.move(1_000);
    assert.ok(await keyring.keyFor(tenant.id, kid, clock.now()));
    reads = 0;
    for (let number = 0; number < 1_000; number += 1) {
      await keyring.keyFor(tenant.id, `invented ${number}`, clock.now());
    }
    assert.equal(reads, 0);
  });

  test('shares one read among those who ask at the same time', async () => {
    const keyring = createKeyring(deaf(house.store));
    const { tenant, clock } = house;
    reads = 0;
    await Promise.all(Array.from({ length: 20 }, () => keyring.jwks(tenant.id, clock.now())));
    assert.equal(reads, 1);
  });

  test('answers the same object as long as a key is published', async () => {
    const { tenant, clock, keyring } = house;
    const { kid } = await keyring.signer(tenant.id, clock.now());
    const key = await keyring.keyFor(tenant.id, kid, clock.now());
    await rotate();
    assert.equal(await keyring.keyFor(tenant.id, kid, clock.now()), key);
    clock.move(MINUTE_MS);
    assert.equal(await keyring.keyFor(tenant.id, kid, clock.now()), key);
  });

  test('signs with a key that a node whose clock is ahead has just made', async () => {
    const { keyring, tenant, clock } = house;
    const [kid] = await published();
    assert.equal((await keyring.signer(tenant.id, clock.now() - 50_000)).kid, kid);
  });

  test('says clearly that a tenant has no key', async () => {
    await assert.rejects(
      house.keyring.signer(99, house.clock.now()),
      /tenant 99 has no signing key/,
    );
  });
});
