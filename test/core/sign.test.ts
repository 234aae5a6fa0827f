import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { decodeSecret, isSecret, makeSecret, sign, verify } from '../../src/core/sign.ts';

const id = 'evt_U4ud8Fhhe4deS4F3cw9KTA';
/** Now, because the verifier refuses what is five minutes off. */
const timestamp = Math.floor(Date.now() / 1000);

function referenceVerify(secret: string, signature: string, body: string): void {
  new Webhook(secret).verify(
    body,
    {
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signature,
    },
    { jsonParse: false },
  );
}

describe('the signature of a webhook', () => {
  test('is the one the published example of Standard Webhooks shows', () => {
    const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
    assert.equal(
      sign([key], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}'),
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    );
  });

  test('is the one computed by hand', () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const expected = createHmac('sha256', Buffer.alloc(32, 7))
      .update(`${id}.1614265330.{"test": "Ünïcode"}`, 'utf8')
      .digest('base64');
    assert.equal(sign([secret], id, 1614265330, '{"test": "Ünïcode"}'), `v1,${expected}`);
  });

  test('is accepted by the reference library, whatever the body', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (body) => {
        const secret = makeSecret(randomBytes);
        referenceVerify(secret, sign([secret], id, timestamp, body), body);
      }),
      { numRuns: 100 },
    );
  });

  test('of two secrets is accepted under either, newest first', () => {
    const [newer, older] = [makeSecret(randomBytes), makeSecret(randomBytes)];
    const signature = sign([newer, older], id, timestamp, '{}');
    referenceVerify(newer, signature, '{}');
    referenceVerify(older, signature, '{}');
    assert.equal(
      signature,
      `${sign([newer], id, timestamp, '{}')} ${sign([older], id, timestamp, '{}')}`,
    );
  });

  test('is refused when the body, the key or the id is another', () => {
    const secret = makeSecret(randomBytes);
    const signature = sign([secret], id, timestamp, '{"a":1}');
    assert.throws(() => referenceVerify(secret, signature, '{"a":2}'), /No matching signature/);
    assert.throws(
      () => referenceVerify(makeSecret(randomBytes), signature, '{"a":1}'),
      /No matching/,
    );
    const other = sign([secret], 'evt_other', timestamp, '{"a":1}');
    assert.throws(() => referenceVerify(secret, other, '{"a":1}'), /No matching/);
  });

  test('comes out the same with keys decoded once', () => {
    const secrets = [makeSecret(randomBytes), makeSecret(randomBytes)];
    const keys = secrets.map(decodeSecret);
    assert.equal(sign(keys, id, 1, 'x'), sign(secrets, id, 1, 'x'));
    assert.equal(sign([], id, 1, 'x'), '');
  });
});

describe('a signing secret', () => {
  test('is whsec_ and the base64 of 32 random bytes', () => {
    assert.equal(
      makeSecret((count) => Uint8Array.from({ length: count }, (_, index) => index)),
      'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
    );
  });

  const malformed = [
    '',
    'whsec_',
    'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
    'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8',
    'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh=',
    'whpk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  ];
  for (const secret of malformed) {
    test(`of another form is no key and is not repeated in the error: ${secret}`, () => {
      assert.throws(
        () => decodeSecret(secret),
        (error) =>
          error instanceof assert.AssertionError &&
          error.message === 'a signing secret is not whsec_ and the base64 of 32 bytes',
      );
    });
  }
});

describe('a receiver of webhooks', () => {
  const secret = makeSecret(randomBytes);
  const body = Buffer.from('{"a":"é"}');
  const headers = {
    id,
    timestamp: String(timestamp),
    signature: sign([secret], id, timestamp, body.toString()),
  };
  const judged = (changes: object = {}, now = timestamp) =>
    verify(secret, { ...headers, ...changes }, body, now);

  test('believes a signature of its secret, also beside another', () => {
    assert.equal(judged(), 'valid');
    assert.equal(judged({ signature: `v1,AAAA v2,x ${headers.signature}` }), 'valid');
  });

  test('believes no other secret, id, time or body', () => {
    assert.equal(
      judged({ signature: sign([makeSecret(randomBytes)], id, timestamp, '{}') }),
      'wrong',
    );
    assert.equal(judged({ id: 'evt_other' }), 'wrong');
    assert.equal(judged({ timestamp: String(timestamp + 1) }), 'wrong');
    assert.equal(verify(secret, headers, Buffer.from('{"a":"e"}'), timestamp), 'wrong');
    for (const signature of ['', 'v1,', 'v1', 'x', headers.signature.replace('v1', 'v2')]) {
      assert.equal(judged({ signature }), 'wrong', signature);
    }
  });

  test('believes nothing that is more than five minutes off, or without its headers', () => {
    assert.equal(judged({}, timestamp + 300), 'valid');
    assert.equal(judged({}, timestamp + 301), 'too old');
    assert.equal(judged({}, timestamp - 300), 'valid');
    assert.equal(judged({}, timestamp - 301), 'too new');
    for (const name of ['id', 'timestamp', 'signature']) {
      assert.equal(judged({ [name]: undefined }), 'missing');
    }
  });

  test('tells a secret from what is none', () => {
    assert.equal(isSecret(secret), true);
    for (const text of ['', 'whsec_', 'whsec_AAAA', secret.slice(6), `${secret}=`]) {
      assert.equal(isSecret(text), false, text);
    }
  });
});
