import assert from 'node:assert/strict';
import { createPrivateKey, sign, verify } from 'node:crypto';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { importJWK } from 'jose';
import { webhookKeys } from '../../src/auth/key-use.ts';
import { createFirstKey, revokeKey, rotateKey } from '../../src/auth/keys.ts';
import { type AuthFixture, openAuthFixture, secondTenant } from './fixture.ts';

const MINUTE_MS = 60_000;
const WEEK_MS = 7 * 86_400_000;

let fixture: AuthFixture;

beforeEach(async () => {
  fixture = await openAuthFixture();
});
afterEach(() => fixture.close());

async function published(): Promise<string[]> {
  const { keys } = await fixture.webhookKeyring.jwks(fixture.tenant.id, fixture.clock.now());
  return keys.map((key) => key.kid);
}

async function signing(): Promise<string> {
  return (await fixture.webhookKeyring.signer(fixture.tenant.id, fixture.clock.now())).kid;
}

async function first(): Promise<void> {
  const { store, tenant, clock } = fixture;
  await createFirstKey(store.webhookKeys, tenant.id, clock.now(), webhookKeys);
}

async function rotate(immediately = false): Promise<string> {
  const { store, tenant, clock } = fixture;
  const change = { now: clock.now(), immediately, use: webhookKeys };
  const rotated = await rotateKey(store, tenant.id, change);
  return rotated.kid;
}

function revoke(kid: string): Promise<'revoked' | 'unknown'> {
  const { store, tenant, clock } = fixture;
  return revokeKey(store, tenant.id, kid, { now: clock.now(), use: webhookKeys });
}

describe('webhook keys', () => {
  test('webhook keys: a tenant has none at first', async () => {
    assert.deepEqual(await published(), []);
    await assert.rejects(signing(), /has no key that signs webhooks/);
  });

  test('webhook keys: the published key has the public fields of RFC 8037 and no others', async () => {
    await first();
    const { tenant, clock, webhookKeyring } = fixture;
    const { keys } = await webhookKeyring.jwks(tenant.id, clock.now());
    assert.deepEqual(
      keys.map((key) => Object.keys(key).toSorted()),
      [['alg', 'crv', 'kid', 'kty', 'use', 'x']],
    );
    const { kty, crv, use, alg, x = '' } = keys[0] ?? {};
    assert.deepEqual(
      { kty, crv, use, alg },
      { kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA' },
    );
    assert.equal(Buffer.from(x, 'base64url').length, 32);
  });

  test('webhook keys: the published key verifies what the signing key signs', async () => {
    await first();
    const { tenant, clock, webhookKeyring } = fixture;
    const { key, kid } = await webhookKeyring.signer(tenant.id, clock.now());
    const { keys } = await webhookKeyring.jwks(tenant.id, clock.now());
    const jwk = keys.find((one) => one.kid === kid) ?? assert.fail();
    const imported = await importJWK({ ...jwk }, 'EdDSA');
    assert.ok(!(imported instanceof Uint8Array));
    const text = Buffer.from('evt_1.1772357401.{}');
    const signature = sign(null, text, key);
    assert.equal(await crypto.subtle.verify('Ed25519', imported, signature, text), true);
    assert.equal(verify(null, text, { key: { ...jwk }, format: 'jwk' }, signature), true);
  });

  test('webhook keys: nodes that need the first key at the same time get the same one', async () => {
    await Promise.all([first(), first(), first()]);
    assert.equal((await published()).length, 1);
    assert.deepEqual(await published(), [await signing()]);
  });

  test('webhook keys: a key set without keys is read again at once', async () => {
    assert.deepEqual(await published(), []);
    await first();
    assert.equal((await published()).length, 1);
  });

  test('webhook keys: each tenant has its own', async () => {
    const other = await secondTenant(fixture);
    await first();
    const { store, clock } = fixture;
    assert.deepEqual(await store.webhookKeys.list(other.tenant.id, clock.now()), []);
  });

  test('webhook keys: are no keys of access tokens', async () => {
    await first();
    const { tenant, clock, keyring } = fixture;
    const kid = await signing();
    assert.equal(await keyring.keyFor(tenant.id, kid, clock.now()), undefined);
    const { keys } = await keyring.jwks(tenant.id, clock.now());
    assert.ok(!keys.some((key) => key.kid === kid));
  });

  test('webhook keys: the store has the private key as a JWK that signs', async () => {
    await first();
    const { store, tenant, clock } = fixture;
    const [key] = await store.webhookKeys.list(tenant.id, clock.now());
    const jwk = JSON.parse(key?.privateJwk ?? '') as Record<string, string>;
    assert.equal(createPrivateKey({ key: jwk, format: 'jwk' }).asymmetricKeyType, 'ed25519');
  });
});

describe('rotation of webhook keys', () => {
  test('webhook keys: a rotation publishes the new key at once and signs with it 10 minutes later', async () => {
    await first();
    const former = await signing();
    const kid = await rotate();
    assert.deepEqual(await published(), [kid, former]);
    fixture.clock.move(10 * MINUTE_MS - 1);
    assert.equal(await signing(), former);
    fixture.clock.move(1);
    assert.equal(await signing(), kid);
  });

  test('webhook keys: a former key stays published for 7 days after the new one signs', async () => {
    await first();
    const former = await signing();
    const kid = await rotate();
    fixture.clock.move(10 * MINUTE_MS + WEEK_MS - 1);
    assert.deepEqual(await published(), [kid, former]);
    fixture.clock.move(1);
    assert.deepEqual(await published(), [kid]);
  });

  test('webhook keys: an immediate rotation signs at once with the new key', async () => {
    await first();
    const kid = await rotate(true);
    assert.equal(await signing(), kid);
    assert.ok((await published()).includes(kid));
  });

  test('webhook keys: a rotation without a key before it signs at once', async () => {
    const kid = await rotate();
    assert.equal(await signing(), kid);
  });

  test('webhook keys: a revoked key is no longer published, and another one signs', async () => {
    await first();
    const former = await signing();
    assert.equal(await revoke(former), 'revoked');
    assert.notEqual(await signing(), former);
    assert.deepEqual(await published(), [await signing()]);
    assert.equal(await revoke(former), 'unknown');
  });
});
