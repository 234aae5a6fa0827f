import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { decodeProtectedHeader } from 'jose';
import { createFirstKey, createKeyring, revokeKey, rotateKey } from '../../src/auth/keys.ts';
import { entryOfCommand } from '../../src/operator/audit-log.ts';
import type { Store } from '../../src/store/port/store.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { type AuthFixture, openAuthFixture, secondTenant } from './fixture.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const LIFETIME_MAX_MS = 30 * DAY_MS;

let fixture: AuthFixture;

beforeEach(async () => {
  fixture = await openAuthFixture();
});
afterEach(() => fixture.close());

async function published(): Promise<string[]> {
  const { keys } = await fixture.keyring.jwks(fixture.tenant.id, fixture.clock.now());
  return keys.map((key) => key.kid);
}

/** Returns the kid that signs a token issued now. */
async function signing(): Promise<string | undefined> {
  return decodeProtectedHeader(await fixture.token()).kid;
}

async function isValid(token: string): Promise<boolean> {
  const { verifier, tenant, clock } = fixture;
  return (await verifier.verify(tenant, `Bearer ${token}`, clock.now())).kind === 'verified';
}

async function rotate(immediately = false): Promise<string> {
  const { store, tenant, clock } = fixture;
  const rotated = await rotateKey(store, tenant.id, { now: clock.now(), immediately });
  return rotated.kid;
}

function revoke(kid: string | undefined): Promise<'revoked' | 'unknown'> {
  return revokeKey(fixture.store, fixture.tenant.id, kid ?? '', { now: fixture.clock.now() });
}

describe('key set', () => {
  test('the key set has the public fields of an RSA key and no others', async () => {
    const { keys } = await fixture.keyring.jwks(fixture.tenant.id, fixture.clock.now());
    const [key] = keys;
    assert.equal(keys.length, 1);
    assert.deepEqual(Object.keys(key ?? {}).toSorted(), ['alg', 'e', 'kid', 'kty', 'n', 'use']);
    const { kty, use, alg } = key ?? {};
    assert.deepEqual({ kty, use, alg }, { kty: 'RSA', use: 'sig', alg: 'RS256' });
    assert.equal(Buffer.from(key?.n ?? '', 'base64url').length, 256);
  });

  test('the key set contains keys of one tenant only', async () => {
    const other = await secondTenant(fixture);
    const { keys } = await fixture.keyring.jwks(other.tenant.id, fixture.clock.now());
    assert.equal(keys.length, 1);
    assert.notDeepEqual([keys[0]?.kid], await published());
  });

  test('revokeKey: the key that replaces the only one has an entry in the audit log', async () => {
    const { store, tenant, clock } = fixture;
    const [only = ''] = await published();
    const entry = entryOfCommand({ clock, random: randomBytes }, 'keys revoke');
    await revokeKey(store, tenant.id, only, { now: clock.now(), entry });
    const [successor] = await published();
    const entries = await allEntries(store, tenant.id);
    const targets = entries.flatMap(({ details }) => details.targets);
    assert.deepEqual(new Set(targets), new Set([only, successor]));
  });

  test('createFirstKey: repeated calls create one key', async () => {
    await createFirstKey(fixture.store.keys, fixture.tenant.id, fixture.clock.now());
    assert.equal((await published()).length, 1);
  });
});

describe('rotation', () => {
  test('a rotation publishes the new key at once and signs with it 10 minutes later', async () => {
    const former = await signing();
    const kid = await rotate();
    assert.deepEqual(await published(), [kid, former]);
    assert.equal(await signing(), former);
    fixture.clock.move(10 * MINUTE_MS - 1);
    assert.equal(await signing(), former);
    fixture.clock.move(1);
    assert.equal(await signing(), kid);
  });

  test('an immediate rotation signs the next token with the new key', async () => {
    const kid = await rotate(true);
    assert.equal(await signing(), kid);
  });

  test('a rotation leaves all tokens of the former key valid', async () => {
    const before = await fixture.token();
    await rotate();
    fixture.clock.move(10 * MINUTE_MS - 1);
    const last = await fixture.token();
    fixture.clock.move(1);
    const first = await fixture.token();
    assert.deepEqual(await Promise.all([before, last, first].map(isValid)), [true, true, true]);
    fixture.clock.move(50 * MINUTE_MS);
    assert.deepEqual(await Promise.all([last, first].map(isValid)), [true, true]);
  });

  test('a rotation unpublishes the former key when the longest token signed with it has expired', async () => {
    const former = await signing();
    const kid = await rotate();
    fixture.clock.move(10 * MINUTE_MS + LIFETIME_MAX_MS);
    assert.deepEqual(await published(), [kid, former]);
    fixture.clock.move(5_000);
    assert.deepEqual(await published(), [kid]);
  });

  test('two rotations within ten minutes leave a signing key at every moment', async () => {
    const first = await signing();
    const second = await rotate();
    fixture.clock.move(5 * MINUTE_MS);
    const third = await rotate();
    assert.equal(await signing(), first);
    fixture.clock.move(5 * MINUTE_MS);
    assert.equal(await signing(), second);
    fixture.clock.move(5 * MINUTE_MS);
    assert.equal(await signing(), third);
  });
});

describe('revocation', () => {
  test('a revocation invalidates the tokens of the key at once, and a new key signs', async () => {
    const token = await fixture.token();
    assert.equal(await isValid(token), true);
    const kid = await signing();
    assert.equal(await revoke(kid), 'revoked');
    assert.equal(await isValid(token), false);
    assert.notEqual(await signing(), kid);
    assert.equal(await isValid(await fixture.token()), true);
    assert.equal((await published()).length, 1);
  });

  test('a revocation of the signing key makes the newest other key sign at once', async () => {
    const former = await signing();
    const kid = await rotate();
    await revoke(former);
    assert.equal(await signing(), kid);
    assert.deepEqual(await published(), [kid]);
  });

  test('a revocation of the newest key removes the expiry of the key before it', async () => {
    const former = await signing();
    const token = await fixture.token();
    await revoke(await rotate(true));
    assert.equal(await signing(), former);
    fixture.clock.move(2 * LIFETIME_MAX_MS);
    assert.deepEqual(await published(), [former]);
    assert.equal(await signing(), former);
    assert.equal(await isValid(token), false, 'the token itself has expired');
  });

  test('a revocation of a key that does not sign yet changes nothing else', async () => {
    const former = await signing();
    const second = await rotate();
    fixture.clock.move(MINUTE_MS);
    await revoke(await rotate());
    assert.deepEqual(await published(), [second, former]);
    assert.equal(await signing(), former);
    fixture.clock.move(9 * MINUTE_MS);
    assert.equal(await signing(), second);
  });

  test('a revocation of an unknown key, or one of another tenant, does nothing', async () => {
    const other = await secondTenant(fixture);
    const [foreign] = await fixture.store.keys.list(other.tenant.id, fixture.clock.now());
    assert.equal(await revoke('unknown'), 'unknown');
    assert.equal(await revoke(foreign?.kid), 'unknown');
    assert.equal((await fixture.store.keys.list(other.tenant.id, fixture.clock.now())).length, 1);
  });
});

describe('keyring', () => {
  let reads = 0;
  const depsWithoutHints = (store: Store): Parameters<typeof createKeyring>[0] => ({
    keys: {
      list: (tenant, now) => {
        reads += 1;
        return store.keys.list(tenant, now);
      },
    },
    watch: () => () => {},
    clock: fixture.clock,
  });

  test('keyring: sees rotation and revocation within 10 s without hints', async () => {
    const keyring = createKeyring(depsWithoutHints(fixture.store));
    const { kid: former } = await keyring.signer(fixture.tenant.id, fixture.clock.now());
    const kid = await rotate(true);
    await revoke(former);
    fixture.clock.move(9_999);
    const { tenant, clock } = fixture;
    assert.equal((await keyring.signer(tenant.id, clock.now())).kid, kid);
    assert.equal(await keyring.keyFor(tenant.id, former, clock.now()), undefined);
  });

  test('keyring: reads again for an unknown kid, but not for each of many', async () => {
    const keyring = createKeyring(depsWithoutHints(fixture.store));
    const { tenant, clock } = fixture;
    await keyring.signer(tenant.id, clock.now());
    const kid = await rotate(true);
    clock.move(1_000);
    assert.ok(await keyring.keyFor(tenant.id, kid, clock.now()));
    reads = 0;
    for (let index = 0; index < 1_000; index += 1) {
      await keyring.keyFor(tenant.id, `invented ${index}`, clock.now());
    }
    assert.equal(reads, 0);
  });

  test('keyring: concurrent callers share one read', async () => {
    const keyring = createKeyring(depsWithoutHints(fixture.store));
    const { tenant, clock } = fixture;
    reads = 0;
    await Promise.all(Array.from({ length: 20 }, () => keyring.jwks(tenant.id, clock.now())));
    assert.equal(reads, 1);
  });

  test('keyring: returns the same object as long as a key is published', async () => {
    const { tenant, clock, keyring } = fixture;
    const { kid } = await keyring.signer(tenant.id, clock.now());
    const key = await keyring.keyFor(tenant.id, kid, clock.now());
    await rotate();
    assert.equal(await keyring.keyFor(tenant.id, kid, clock.now()), key);
    clock.move(MINUTE_MS);
    assert.equal(await keyring.keyFor(tenant.id, kid, clock.now()), key);
  });

  test('keyring: signs with a new key of a node whose clock is ahead', async () => {
    const { keyring, tenant, clock } = fixture;
    const [kid] = await published();
    assert.equal((await keyring.signer(tenant.id, clock.now() - 50_000)).kid, kid);
  });

  test('keyring: throws an error that names a tenant without a key', async () => {
    await assert.rejects(
      fixture.keyring.signer(99, fixture.clock.now()),
      /tenant 99 has no key that signs tokens/,
    );
  });
});
