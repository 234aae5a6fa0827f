import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { decodeSecret, isSecret, makeSecret, sign } from '../../src/core/sign.ts';

const id = 'evt_U4ud8Fhhe4deS4F3cw9KTA';
/** The current time, because the reference library rejects a time five minutes off. */
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

describe('sign', () => {
  test('sign: matches the published example of Standard Webhooks', () => {
    const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
    assert.equal(
      sign([key], 'msg_p5jXN8AQM9LWM0D4loKWxJek', 1614265330, '{"test": 2432232314}'),
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    );
  });

  test('sign: matches an HMAC computed in the test', () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const expected = createHmac('sha256', Buffer.alloc(32, 7))
      .update(`${id}.1614265330.{"test": "Ünïcode"}`, 'utf8')
      .digest('base64');
    assert.equal(sign([secret], id, 1614265330, '{"test": "Ünïcode"}'), `v1,${expected}`);
  });

  test('sign: the reference library accepts it for any body', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (body) => {
        const secret = makeSecret(randomBytes);
        referenceVerify(secret, sign([secret], id, timestamp, body), body);
      }),
      { numRuns: 100 },
    );
  });

  test('sign: with two secrets either verifies, newest first', () => {
    const [newer, older] = [makeSecret(randomBytes), makeSecret(randomBytes)];
    const signature = sign([newer, older], id, timestamp, '{}');
    referenceVerify(newer, signature, '{}');
    referenceVerify(older, signature, '{}');
    assert.equal(
      signature,
      `${sign([newer], id, timestamp, '{}')} ${sign([older], id, timestamp, '{}')}`,
    );
  });

  test('sign: the reference library rejects another body, key or id', () => {
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

  test('sign: decoded keys give the same result as secrets', () => {
    const secrets = [makeSecret(randomBytes), makeSecret(randomBytes)];
    const keys = secrets.map(decodeSecret);
    assert.equal(sign(keys, id, 1, 'x'), sign(secrets, id, 1, 'x'));
    assert.equal(sign([], id, 1, 'x'), '');
  });
});

describe('signing secret', () => {
  test('makeSecret: whsec_ and the base64 of 32 random bytes', () => {
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
    test(`decodeSecret: throws for another form without quoting it: ${secret}`, () => {
      assert.throws(
        () => decodeSecret(secret),
        (error) =>
          error instanceof assert.AssertionError &&
          error.message === 'a signing secret is not whsec_ and the base64 of 32 bytes',
      );
    });
  }

  test('isSecret: true only for a signing secret', () => {
    const secret = makeSecret(randomBytes);
    assert.equal(isSecret(secret), true);
    for (const text of ['', 'whsec_', 'whsec_AAAA', secret.slice(6), `${secret}=`]) {
      assert.equal(isSecret(text), false, text);
    }
  });
});
