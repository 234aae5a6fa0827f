import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { SignJWT } from 'jose';
import {
  createTokenVerifier,
  type Expected,
  type FoundKey,
  type TokenVerification,
} from '../../src/auth/signature.ts';

const ISSUER = 'https://issuer.example.com/';
const AUDIENCE = 'https://messages.example.com';
const now = Date.parse('2026-03-01T09:30:00.000Z');

let issuerKeys: { privateKey: KeyObject; publicKey: KeyObject };
let foreignKeys: { privateKey: KeyObject; publicKey: KeyObject };
before(() => {
  issuerKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
  foreignKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
});

function sign(claims: object = {}, key = issuerKeys.privateKey): Promise<string> {
  const good = { iss: ISSUER, aud: AUDIENCE, exp: now / 1000 + 60, jti: randomUUID() };
  return new SignJWT({ ...good, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'own' })
    .sign(key);
}

/** Accepts one issuer, whose keys `keyFor` returns. */
function expecting(keyFor: () => FoundKey | Promise<FoundKey>, issuer = ISSUER): Expected {
  return { audience: AUDIENCE, keysOf: (iss) => (iss === issuer ? { keyFor } : undefined) };
}

const ownKey = (): FoundKey => issuerKeys.publicKey;

function reasonOf(verification: TokenVerification): string {
  return verification.kind === 'valid' ? 'valid' : verification.reason;
}

describe('token verifier', () => {
  test('token verifier: caches at most its limit, and the newest tokens', async () => {
    const verifier = createTokenVerifier(20);
    const tokens = await Promise.all(Array.from({ length: 60 }, () => sign()));
    for (const token of tokens) {
      assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
      assert.ok(verifier.size <= 20);
    }
    const newest = verifier.verify(tokens.at(-1) ?? '', expecting(ownKey), now);
    assert.ok(!(newest instanceof Promise));
  });

  test('token verifier: keeps a used token cached while others are dropped', async () => {
    const verifier = createTokenVerifier(4);
    const used = await sign();
    await verifier.verify(used, expecting(ownKey), now);
    const others = await Promise.all(Array.from({ length: 20 }, () => sign()));
    for (const token of others) {
      await verifier.verify(token, expecting(ownKey), now);
      assert.ok(!(verifier.verify(used, expecting(ownKey), now) instanceof Promise));
    }
  });

  test('token verifier: does not cache a token with an invalid signature', async () => {
    const verifier = createTokenVerifier();
    const forged = await Promise.all(
      Array.from({ length: 30 }, () => sign({}, foreignKeys.privateKey)),
    );
    for (const token of [...forged, 'x', '..', 'x'.repeat(9_000)]) {
      const verification = await verifier.verify(token, expecting(ownKey), now);
      assert.notEqual(reasonOf(verification), 'valid');
    }
    assert.equal(verifier.size, 0);
  });

  test('token verifier: looks the key up at each use; a removed key invalidates its tokens', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
    const gone = expecting(() => undefined);
    assert.equal(reasonOf(await verifier.verify(token, gone, now)), 'signature');
    const replaced = expecting(() => foreignKeys.publicKey);
    assert.equal(reasonOf(await verifier.verify(token, replaced, now)), 'signature');
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
  });

  test('token verifier: checks issuer and audience of a cached token at each use', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
    const elsewhere = expecting(ownKey, 'https://other.example.com/');
    assert.equal(reasonOf(await verifier.verify(token, elsewhere, now)), 'issuer');
    const other = { ...expecting(ownKey), audience: 'https://other.example.com' };
    assert.equal(reasonOf(await verifier.verify(token, other, now)), 'audience');
  });

  test('token verifier: waits for a key that is being refreshed', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    await verifier.verify(token, expecting(ownKey), now);
    const refreshing = expecting(() => Promise.resolve(issuerKeys.publicKey));
    assert.equal(reasonOf(await verifier.verify(token, refreshing, now)), 'valid');
  });

  test('token verifier: reports unavailable keys only for tokens that have no other error', async () => {
    const away = expecting(() => 'unavailable');
    const cases: [claims: object, reason: string][] = [
      [{}, 'unavailable'],
      [{ exp: 1 }, 'expired'],
      [{ nbf: now / 1000 + 60 }, 'not_yet'],
      [{ aud: 'other' }, 'audience'],
      [{ iss: 'https://other.example.com/' }, 'issuer'],
      [{ exp: 'soon' }, 'malformed'],
    ];
    for (const [claims, reason] of cases) {
      const verification = await createTokenVerifier().verify(await sign(claims), away, now);
      assert.equal(reasonOf(verification), reason);
    }
  });

  test('token verifier: rejects with the error of a key source', async () => {
    const broken = expecting(() => Promise.reject(new Error('no store')));
    const verification = createTokenVerifier().verify(await sign(), broken, now);
    await assert.rejects(Promise.resolve(verification), /no store/);
  });

  test('token verifier: reads permissions from an array of strings only', async () => {
    const cases: [permissions: unknown, read: readonly string[] | undefined][] = [
      [['read:admin-messages'], ['read:admin-messages']],
      [[], []],
      ['read:admin-messages', undefined],
      [['read:admin-messages', 7], undefined],
      [{ 0: 'read:admin-messages' }, undefined],
      [undefined, undefined],
    ];
    for (const [permissions, read] of cases) {
      const token = await sign({ permissions });
      const verification = await createTokenVerifier().verify(token, expecting(ownKey), now);
      assert.ok(verification.kind === 'valid');
      assert.deepEqual(verification.claims.permissions, read);
    }
  });
});
