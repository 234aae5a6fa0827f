import assert from 'node:assert/strict';
import {
  constants,
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  privateEncrypt,
  verify,
} from 'node:crypto';
import { describe, test } from 'node:test';
import type { FoundKey } from '../../src/auth/signature.ts';
import {
  byIssuer,
  compact,
  recordedKeys,
  goodClaims,
  goodHeader,
  kid,
  now,
  issuerKeys,
  published,
  reasonOf,
  rs256,
  type Signing,
  toText,
} from './token-forge.ts';

/**
 * Signatures that a careless implementation of RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2.2) accepts.
 * Most are made with the issuer's own key over a wrongly encoded message.
 */

const BYTES = 256;
const { n: modulusText = '' } = issuerKeys.publicKey.export({ format: 'jwk' });
const modulus = numberOf(Buffer.from(modulusText, 'base64url'));

function numberOf(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex') || '0'}`);
}

function bytesOf(value: bigint, length = 0): Buffer {
  const hex = value.toString(16);
  const even = hex.length % 2 === 0 ? hex : `0${hex}`;
  return Buffer.from(even.padStart(length * 2, '0'), 'hex');
}

function sha(name: string, text: string): Buffer {
  return createHash(name).update(text).digest();
}

/** DER: a value with its tag and its length. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  assert.ok(content.length < 128, 'the short form of a length');
  return Buffer.concat([Buffer.from([tag, content.length]), content]);
}

const SHA256_ID = Buffer.from('608648016503040201', 'hex');
const NULL = Buffer.from([0x05, 0x00]);

/** DigestInfo (RFC 8017 appendix A.2.4). */
function digestInfo(
  digest: Buffer,
  {
    id = SHA256_ID,
    parameters = NULL,
  }: { readonly id?: Buffer; readonly parameters?: Buffer } = {},
): Buffer {
  return der(0x30, der(0x30, der(0x06, id), parameters), der(0x04, digest));
}

/** The encoded message: 00 01, the padding up to the length of the modulus, 00, the rest. */
function encoded(
  rest: Uint8Array,
  { type = 1, fill = 0xff, separator = 0, first = 0 } = {},
): Buffer {
  const padding = Buffer.alloc(BYTES - 3 - rest.length, fill);
  return Buffer.concat([
    Buffer.from([first, type]),
    padding,
    Buffer.from([separator]),
    Buffer.from(rest),
  ]);
}

/** Applies the private key to a message without any padding. */
function raised(message: Buffer, key: KeyObject = issuerKeys.privateKey): Buffer {
  return privateEncrypt({ key, padding: constants.RSA_NO_PADDING }, message);
}

/** Signs the message that `make` builds from the digest. */
function signing(make: (digest: Buffer, text: string) => Buffer): Signing {
  return (text) => raised(make(sha('sha256', text), text));
}

function reasonFor(by: Signing): Promise<string> {
  return reasonOf(compact(goodHeader, goodClaims, by));
}

test('the signature that the attacks change is valid before they change it', async () => {
  const valid = signing((digest) => encoded(digestInfo(digest)));
  assert.equal(await reasonFor(valid), 'valid');
  assert.deepEqual(valid('text'), Buffer.from(byIssuer('text')));
});

describe('encoded message', () => {
  const garbage = Buffer.alloc(16, 0xa5);
  const shortened = (rest: Buffer, length: number, fill: Buffer): Buffer =>
    Buffer.concat([
      Buffer.from([0, 1]),
      Buffer.alloc(length, 0xff),
      Buffer.from([0]),
      rest,
      fill.subarray(0, BYTES - 3 - length - rest.length),
    ]);
  const filler = Buffer.alloc(BYTES, 0xa5);
  const zeros = Buffer.alloc(BYTES);
  const longForm = (digest: Buffer): Buffer => {
    const inner = Buffer.concat([der(0x30, der(0x06, SHA256_ID), NULL), der(0x04, digest)]);
    return Buffer.concat([Buffer.from([0x30, 0x81, inner.length]), inner]);
  };
  const indefinite = (digest: Buffer): Buffer => {
    const inner = Buffer.concat([der(0x30, der(0x06, SHA256_ID), NULL), der(0x04, digest)]);
    return Buffer.concat([Buffer.from([0x30, 0x80]), inner, Buffer.from([0, 0])]);
  };
  const badFill = (position: number, value: number) => (digest: Buffer) => {
    const message = encoded(digestInfo(digest));
    message.writeUInt8(value, position);
    return message;
  };

  const forms: Readonly<Record<string, (digest: Buffer, text: string) => Buffer>> = {
    'the digest alone': (digest) => encoded(digest),
    'the text of the digest': (digest) => encoded(Buffer.from(digest.toString('hex'))),
    'no padding at all': (digest) => Buffer.concat([Buffer.alloc(BYTES - 32), digest]),
    'block type 0': (digest) => encoded(digestInfo(digest), { type: 0, fill: 0 }),
    'block type 2': (digest) => encoded(digestInfo(digest), { type: 2, fill: 0x5a }),
    'another padding byte': (digest) => encoded(digestInfo(digest), { fill: 0xfe }),
    'one padding byte changed, the first': badFill(2, 0xfe),
    'one padding byte changed, the last': badFill(BYTES - 53, 0x7f),
    'a zero in the padding': badFill(20, 0),
    'no separator': (digest) => encoded(digestInfo(digest), { separator: 0xff }),
    'short padding and garbage after it': (digest) => shortened(digestInfo(digest), 8, filler),
    'short padding and zeros after it': (digest) => shortened(digestInfo(digest), 8, zeros),
    'no padding and garbage after it': (digest) => shortened(digestInfo(digest), 0, filler),
    'one byte after it': (digest) => encoded(Buffer.concat([digestInfo(digest), Buffer.alloc(1)])),
    'no parameters': (digest) => encoded(digestInfo(digest, { parameters: Buffer.alloc(0) })),
    'a NULL that is not empty': (digest) =>
      encoded(digestInfo(digest, { parameters: Buffer.from([0x05, 0x01, 0x00]) })),
    'two NULLs': (digest) =>
      encoded(digestInfo(digest, { parameters: Buffer.concat([NULL, NULL]) })),
    'garbage as parameters': (digest) =>
      encoded(digestInfo(digest, { parameters: der(0x04, garbage) })),
    'a NULL with the long form of its length': (digest) =>
      encoded(digestInfo(digest, { parameters: Buffer.from([0x05, 0x81, 0x00]) })),
    'the long form of a length': (digest) => encoded(longForm(digest)),
    'an indefinite length': (digest) => encoded(indefinite(digest)),
    'a set for a sequence': (digest) => {
      const info = digestInfo(digest);
      info.writeUInt8(0x31, 0);
      return encoded(info);
    },
    'the identifier of SHA-1': (digest) =>
      encoded(digestInfo(digest, { id: Buffer.from('2b0e03021a', 'hex') })),
    'the identifier of SHA-512/256': (digest) =>
      encoded(digestInfo(digest, { id: Buffer.from('608648016503040206', 'hex') })),
    'the identifier of SHA-384': (digest) =>
      encoded(digestInfo(digest, { id: Buffer.from('608648016503040202', 'hex') })),
    'a digest of SHA-1 with its identifier': (_digest, text) =>
      encoded(digestInfo(sha('sha1', text), { id: Buffer.from('2b0e03021a', 'hex') })),
    'a digest of SHA-1 with the identifier of SHA-256': (_digest, text) =>
      encoded(digestInfo(sha('sha1', text))),
    'a truncated digest': (digest) => encoded(digestInfo(digest.subarray(0, 31))),
    'a digest that is too long': (digest) =>
      encoded(digestInfo(Buffer.concat([digest, Buffer.alloc(1)]))),
    'an empty digest': () => encoded(digestInfo(Buffer.alloc(0))),
    'the digest of another text': (_digest, text) => encoded(digestInfo(sha('sha256', `${text}.`))),
    'the digest of the claims alone': (_digest, text) =>
      encoded(digestInfo(sha('sha256', text.split('.')[1] ?? ''))),
  };
  for (const [name, make] of Object.entries(forms)) {
    test(`a signature of the right key over a wrong encoding is rejected: ${name}`, async () => {
      assert.equal(await reasonFor(signing(make)), 'signature');
    });
  }
});

describe('signature value', () => {
  const numbers: Readonly<Record<string, bigint>> = {
    zero: 0n,
    one: 1n,
    two: 2n,
    'the modulus less one': modulus - 1n,
    'the modulus': modulus,
    'the modulus and one': modulus + 1n,
    'the largest of its length': 2n ** 2048n - 1n,
    half: modulus >> 1n,
  };
  for (const [name, value] of Object.entries(numbers)) {
    test(`${name} is rejected as a signature`, async () => {
      assert.equal(await reasonFor(() => bytesOf(value, BYTES)), 'signature');
      assert.equal(await reasonFor(() => bytesOf(value)), 'signature');
    });
  }

  test('a signature plus the modulus, or negated, is rejected', async () => {
    const goodOf = (text: string): bigint => numberOf(Buffer.from(byIssuer(text)));
    const negated: Signing = (text) => bytesOf(modulus - goodOf(text), BYTES);
    assert.equal(await reasonFor(negated), 'signature');
    const beyond: Signing = (text) => bytesOf(goodOf(text) + modulus);
    assert.equal(await reasonFor(beyond), 'signature');
    // With a sum as long as a signature, the length is not the reason.
    const token = tokenWhose((signature) => numberOf(signature) + modulus < 2n ** 2048n);
    const [header, claims, signature = ''] = token.split('.');
    const sum = numberOf(Buffer.from(signature, 'base64url')) + modulus;
    assert.equal(await reasonOf(token), 'valid');
    assert.equal(await reasonOf(`${header}.${claims}.${toText(bytesOf(sum, BYTES))}`), 'signature');
  });

  test('a signature with another length than the modulus is rejected', async () => {
    const changes: ((signature: Buffer) => Buffer)[] = [
      (signature) => Buffer.concat([Buffer.alloc(1), signature]),
      (signature) => Buffer.concat([Buffer.alloc(256), signature]),
      (signature) => Buffer.concat([signature, Buffer.alloc(1)]),
      (signature) => Buffer.concat([signature, signature]),
      (signature) => signature.subarray(1),
      (signature) => signature.subarray(0, -1),
      (signature) => signature.subarray(0, 128),
      (signature) => Buffer.from(signature.toReversed()),
      () => Buffer.alloc(0),
      () => Buffer.alloc(1),
      () => Buffer.alloc(BYTES),
      () => Buffer.alloc(4_000, 1),
    ];
    for (const [index, change] of changes.entries()) {
      const by: Signing = (text) => change(Buffer.from(byIssuer(text)));
      assert.equal(await reasonFor(by), 'signature', String(index));
    }
  });

  test('a signature that begins with zeros is rejected without them', async () => {
    const token = tokenWhose((signature) => signature[0] === 0);
    assert.equal(await reasonOf(token), 'valid');
    const [header, claims, signature = ''] = token.split('.');
    const bare = toText(bytesOf(numberOf(Buffer.from(signature, 'base64url'))));
    assert.equal(await reasonOf(`${header}.${claims}.${bare}`), 'signature');
  });

  /** Issues tokens until the signature of one fulfils the condition. */
  function tokenWhose(isWanted: (signature: Buffer) => boolean): string {
    for (let number = 0; number < 20_000; number += 1) {
      const token = compact(goodHeader, { ...goodClaims, jti: String(number) });
      if (isWanted(Buffer.from(token.slice(token.lastIndexOf('.') + 1), 'base64url'))) return token;
    }
    throw new Error('no such signature');
  }
});

describe('exponent 3', () => {
  const small = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 });
  const keys = recordedKeys({ [kid]: small.publicKey });

  test('a key with the exponent 3 verifies its signatures', async () => {
    const token = compact(goodHeader, goodClaims, rs256(small.privateKey));
    assert.equal(await reasonOf(token, { keys }), 'valid');
  });

  test('exponent 3: a cube root whose cube begins like an encoded message is rejected', async () => {
    const rightBeginning = (text: string): Buffer =>
      Buffer.concat([
        Buffer.from([0, 1]),
        Buffer.alloc(8, 0xff),
        Buffer.from([0]),
        digestInfo(sha('sha256', text)),
      ]);
    const byCubeRoot: Signing = (text) => {
      const beginning = rightBeginning(text);
      const rest = Buffer.alloc(BYTES - beginning.length);
      const root = cubeRoot(numberOf(Buffer.concat([beginning, rest]))) + 1n;
      const cube = bytesOf(root ** 3n, BYTES);
      assert.deepEqual(
        cube.subarray(0, beginning.length),
        beginning,
        'the cube begins as intended',
      );
      return bytesOf(root, BYTES);
    };
    const token = compact(goodHeader, goodClaims, byCubeRoot);
    assert.equal(await reasonOf(token, { keys }), 'signature');
  });

  /** Returns the cube root, rounded down; found by bisection. */
  function cubeRoot(value: bigint): bigint {
    let low = 0n;
    let high = 1n << 700n;
    while (low < high) {
      const middle = (low + high + 1n) >> 1n;
      if (middle ** 3n <= value) low = middle;
      else high = middle - 1n;
    }
    return low;
  }
});

describe('published key', () => {
  const good = { kty: 'RSA', n: modulusText, e: 'AQAB', kid };
  const exponent = (value: bigint): object => ({ ...good, e: toText(bytesOf(value)) });
  const modulusOf = (value: bigint): object => ({ ...good, n: toText(bytesOf(value)) });

  async function find(jwk: unknown): Promise<FoundKey> {
    return published([jwk]).keyFor(kid, now);
  }

  test('a published RSA key is used', async () => {
    const key = await find(good);
    assert.ok(typeof key === 'object' && key.equals(issuerKeys.publicKey));
    assert.equal(typeof (await find(exponent(3n))), 'object');
  });

  test('a published key with the exponent 1, with which anybody can sign, is ignored', async () => {
    const open = exponent(1n);
    const byAnybody: Signing = (text) => encoded(digestInfo(sha('sha256', text)));
    const key = createPublicKey({ key: { ...open }, format: 'jwk' });
    assert.ok(verify('sha256', Buffer.from('text'), key, Buffer.from(byAnybody('text'))));
    assert.equal(await find(open), undefined);
    const token = compact(goodHeader, goodClaims, byAnybody);
    assert.equal(await reasonOf(token, { keys: published([open]) }), 'signature');
  });

  test('a published key with numbers that no RSA key has is ignored', async () => {
    const others = [
      exponent(0n),
      exponent(2n),
      exponent(4n),
      exponent(65_536n),
      exponent(2n ** 32n + 1n),
      modulusOf(modulus - 1n),
      modulusOf(2n ** 2047n),
      modulusOf(0n),
      modulusOf(1n),
      { ...good, n: '' },
      { ...good, e: '' },
      { ...good, n: undefined },
      { ...good, e: 65_537 },
      { ...good, n: [modulusText] },
    ];
    for (const jwk of others) assert.equal(await find(jwk), undefined, JSON.stringify(jwk));
  });

  test('a published key of fewer than 2048 or more than 8192 bits is ignored', async () => {
    for (const bits of [512n, 1024n, 2047n, 8193n, 20_000n]) {
      assert.equal(await find(modulusOf(2n ** (bits - 1n) + 1n)), undefined, String(bits));
    }
    for (const bits of [2048n, 8192n]) {
      assert.equal(typeof (await find(modulusOf(2n ** (bits - 1n) + 1n))), 'object', String(bits));
    }
    const padded = toText(Buffer.concat([Buffer.alloc(128), bytesOf(2n ** 1023n + 1n)]));
    assert.equal(await find({ ...good, n: padded }), undefined, 'leading zeros do not count');
  });

  test('a published key for another use, algorithm or type is ignored', async () => {
    const others = [
      { ...good, use: 'enc' },
      { ...good, use: ['sig'] },
      { ...good, alg: 'RS512' },
      { ...good, alg: 'PS256' },
      { ...good, alg: 'none' },
      { ...good, kty: 'oct', k: modulusText },
      { ...good, kty: 'rsa' },
      { ...good, kid: [kid] },
    ];
    for (const jwk of others) assert.equal(await find(jwk), undefined, JSON.stringify(jwk));
  });

  test('a published private key is used as a public key', async () => {
    const key = await find({ ...issuerKeys.privateKey.export({ format: 'jwk' }), kid });
    assert.ok(typeof key === 'object' && key.type === 'public');
  });
});
