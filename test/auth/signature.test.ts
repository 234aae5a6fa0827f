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

let own: { privateKey: KeyObject; publicKey: KeyObject };
let stranger: { privateKey: KeyObject; publicKey: KeyObject };
before(() => {
  own = generateKeyPairSync('rsa', { modulusLength: 2048 });
  stranger = generateKeyPairSync('rsa', { modulusLength: 2048 });
});

function sign(claims: object = {}, key = own.privateKey): Promise<string> {
  const good = { iss: ISSUER, aud: AUDIENCE, exp: now / 1000 + 60, jti: randomUUID() };
  return new SignJWT({ ...good, ...claims })
    .setProtectedHeader({ alg: 'RS256', kid: 'own' })
    .sign(key);
}

/** Accepts one issuer, of which `keyFor` answers the keys. */
function expecting(keyFor: () => FoundKey | Promise<FoundKey>, issuer = ISSUER): Expected {
  return { audience: AUDIENCE, keysOf: (iss) => (iss === issuer ? { keyFor } : undefined) };
}

const ownKey = (): FoundKey => own.publicKey;

function reasonOf(verdict: TokenVerification): string {
  return verdict.kind === 'valid' ? 'valid' : verdict.reason;
}

describe('the token verifier', () => {
  test('keeps no more tokens than it may, and the newest among them', async () => {
    const verifier = createTokenVerifier(20);
    const tokens = await Promise.all(Array.from({ length: 60 }, () => sign()));
    for (const token of tokens) {
      assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
      assert.ok(verifier.size <= 20);
    }
    const newest = verifier.verify(tokens.at(-1) ?? '', expecting(ownKey), now);
    assert.ok(!(newest instanceof Promise));
  });

  test('keeps a token in use while others come and go', async () => {
    const verifier = createTokenVerifier(4);
    const used = await sign();
    await verifier.verify(used, expecting(ownKey), now);
    const others = await Promise.all(Array.from({ length: 20 }, () => sign()));
    for (const token of others) {
      await verifier.verify(token, expecting(ownKey), now);
      assert.ok(!(verifier.verify(used, expecting(ownKey), now) instanceof Promise));
    }
  });

  test('keeps nothing of a token whose signature does not hold', async () => {
    const verifier = createTokenVerifier();
    const forged = await Promise.all(
      Array.from({ length: 30 }, () => sign({}, stranger.privateKey)),
    );
    for (const token of [...forged, 'x', '..', 'x'.repeat(9_000)]) {
      const verdict = await verifier.verify(token, expecting(ownKey), now);
      assert.notEqual(reasonOf(verdict), 'valid');
    }
    assert.equal(verifier.size, 0);
  });

  test('asks for the key at each use: a verdict ends with its key', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
    const gone = expecting(() => undefined);
    assert.equal(reasonOf(await verifier.verify(token, gone, now)), 'signature');
    const replaced = expecting(() => stranger.publicKey);
    assert.equal(reasonOf(await verifier.verify(token, replaced, now)), 'signature');
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
  });

  test('does not let a verdict for one issuer or audience serve another', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    assert.equal(reasonOf(await verifier.verify(token, expecting(ownKey), now)), 'valid');
    const elsewhere = expecting(ownKey, 'https://other.example.com/');
    assert.equal(reasonOf(await verifier.verify(token, elsewhere, now)), 'issuer');
    const other = { ...expecting(ownKey), audience: 'https://other.example.com' };
    assert.equal(reasonOf(await verifier.verify(token, other, now)), 'audience');
  });

  test('reads the key once more while it is being refreshed, not the signature', async () => {
    const verifier = createTokenVerifier();
    const token = await sign();
    await verifier.verify(token, expecting(ownKey), now);
    const refreshing = expecting(() => Promise.resolve(own.publicKey));
    assert.equal(reasonOf(await verifier.verify(token, refreshing, now)), 'valid');
  });

  test('says that keys are unavailable only of a token that would be good otherwise', async () => {
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
      const verdict = await createTokenVerifier().verify(await sign(claims), away, now);
      assert.equal(reasonOf(verdict), reason);
    }
  });

  test('hands on what a key source throws', async () => {
    const broken = expecting(() => Promise.reject(new Error('no store')));
    const verdict = createTokenVerifier().verify(await sign(), broken, now);
    await assert.rejects(Promise.resolve(verdict), /no store/);
  });

  test('reads permissions as an array of texts and as nothing else', async () => {
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
      const verdict = await createTokenVerifier().verify(token, expecting(ownKey), now);
      assert.ok(verdict.kind === 'valid');
      assert.deepEqual(verdict.claims.permissions, read);
    }
  });
});
