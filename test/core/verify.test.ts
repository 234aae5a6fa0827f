import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes, sign as signWith } from 'node:crypto';
import { describe, test } from 'node:test';
import { makeSecret, sign } from '../../src/core/sign.ts';
import {
  hasAsymmetric,
  publicKeysOf,
  type VerificationKeys,
  verify,
} from '../../src/core/verify.ts';

const id = 'evt_U4ud8Fhhe4deS4F3cw9KTA';
const timestamp = 1_772_357_400;
const body = Buffer.from('{"a":"é"}');

const secret = makeSecret(randomBytes);
const v1 = sign([secret], id, timestamp, body.toString());

const [own, other] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
const publicKeys = new Map([['own', own.publicKey]]);

function asymmetric({ privateKey }: typeof own): string {
  const text = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  return `v1a,${signWith(null, text, privateKey).toString('base64')}`;
}

const v1a = asymmetric(own);
const keys = { secrets: [secret], publicKeys };
const headers = { id, timestamp: String(timestamp), signature: v1, keyId: 'own' };

function check(changes: object = {}, known: Partial<VerificationKeys> = {}, now = timestamp) {
  return verify({ ...keys, ...known }, { ...headers, ...changes }, body, now);
}

describe('verify: v1', () => {
  test('verify: accepts a v1 of one of its secrets, also among others', () => {
    assert.equal(check(), 'valid');
    assert.equal(check({}, { secrets: [makeSecret(randomBytes), secret] }), 'valid');
    assert.equal(check({ signature: `v1,AAAA v2,x ${v1}` }), 'valid');
  });

  test('verify: rejects another secret, id, time or body', () => {
    assert.equal(check({}, { secrets: [makeSecret(randomBytes)] }), 'wrong');
    assert.equal(check({ id: 'evt_other' }), 'wrong');
    assert.equal(check({ timestamp: String(timestamp + 1) }), 'wrong');
    assert.equal(verify(keys, headers, Buffer.from('{"a":"e"}'), timestamp), 'wrong');
    for (const signature of ['', 'v1,', 'v1', 'x', v1.slice(0, -4)]) {
      assert.equal(check({ signature }), 'wrong', signature);
    }
  });

  test('verify: rejects a time more than five minutes off, and missing headers', () => {
    for (const signature of [v1, v1a]) {
      assert.equal(check({ signature }, {}, timestamp + 300), 'valid');
      assert.equal(check({ signature }, {}, timestamp + 301), 'too old');
      assert.equal(check({ signature }, {}, timestamp - 300), 'valid');
      assert.equal(check({ signature }, {}, timestamp - 301), 'too new');
    }
    for (const name of ['id', 'timestamp', 'signature']) {
      assert.equal(check({ [name]: undefined }), 'missing');
    }
  });
});

describe('verify: v1a', () => {
  test('verify: accepts a v1a of the named key, alone and along with a v1', () => {
    assert.equal(check({ signature: v1a }), 'valid');
    assert.equal(check({ signature: v1a }, { secrets: [] }), 'valid');
    assert.equal(check({ signature: `${v1} ${v1a}` }), 'valid');
    assert.equal(check({ signature: `v1,AAAA ${v1a}` }), 'valid');
    assert.equal(check({ signature: `${v1} v1a,AAAA` }), 'valid');
  });

  test('verify: rejects a v1a of another key, id, time or body', () => {
    const signature = v1a;
    assert.equal(check({ signature: asymmetric(other) }), 'wrong');
    assert.equal(check({ signature, id: 'evt_other' }), 'wrong');
    assert.equal(check({ signature, timestamp: String(timestamp + 1) }), 'wrong');
    const changed = Buffer.from('{"a":"e"}');
    assert.equal(verify(keys, { ...headers, signature }, changed, timestamp), 'wrong');
    for (const value of ['v1a,', 'v1a', v1a.slice(0, -4), v1a.replace('v1a', 'v1')]) {
      assert.equal(check({ signature: value }), 'wrong', value);
    }
  });

  test('verify: an unknown key unless a v1 says more', () => {
    assert.equal(check({ signature: v1a, keyId: undefined }), 'unknown key');
    assert.equal(check({ signature: v1a, keyId: 'other' }), 'unknown key');
    assert.equal(check({ signature: `${v1} ${v1a}`, keyId: 'other' }), 'valid');
    assert.equal(check({ signature: `v1,AAAA ${v1a}`, keyId: 'other' }), 'wrong');
  });

  test('verify: unchecked where there is no key for any of the versions', () => {
    assert.equal(check({ signature: v1a }, { publicKeys: undefined }), 'unchecked');
    assert.equal(check({ signature: v1 }, { secrets: [] }), 'unchecked');
    assert.equal(check({ signature: 'v2,AAAA v9,x' }), 'unchecked');
    assert.equal(check({ signature: `${v1} ${v1a}` }, { publicKeys: undefined }), 'valid');
  });

  test('hasAsymmetric: true only for a value of the version v1a', () => {
    for (const signature of [v1a, `${v1} ${v1a}`]) assert.ok(hasAsymmetric(signature));
    for (const signature of [undefined, '', v1, 'v1ab,x', 'xv1a,x']) {
      assert.equal(hasAsymmetric(signature), false);
    }
  });

  test('publicKeysOf: returns the Ed25519 keys of a key set, and leaves others out', () => {
    const jwk = own.publicKey.export({ format: 'jwk' });
    const rsa = { kid: 'rsa', kty: 'RSA', n: 'AQAB', e: 'AQAB' };
    const broken = { kid: 'broken', kty: 'OKP', crv: 'Ed25519', x: 'AA' };
    const found = publicKeysOf({
      keys: [
        { ...jwk, kid: 'encrypts', use: 'enc' },
        { ...jwk, kid: 'signs', key_ops: ['sign'] },
        { ...jwk, kid: 'own', use: 'sig', alg: 'EdDSA', key_ops: ['sign', 'verify'] },
        rsa,
        broken,
        jwk,
        null,
        'x',
        7,
      ],
    });
    assert.deepEqual([...(found?.keys() ?? [])], ['own']);
    assert.ok(found?.get('own')?.equals(own.publicKey));
    assert.deepEqual(publicKeysOf({ keys: [] }), new Map());
    for (const none of [undefined, null, 'text', 1, {}, { keys: {} }, []]) {
      assert.equal(publicKeysOf(none), undefined);
    }
  });
});
