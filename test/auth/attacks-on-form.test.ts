import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createTokenVerifier } from '../../src/auth/signature.ts';
import {
  compact,
  recordedKeys,
  expecting,
  goodClaims,
  goodHeader,
  kid,
  now,
  issuerKeys,
  published,
  reasonOf,
  rs256,
  toText,
} from './token-forge.ts';

describe('token form', () => {
  const [header = '', claims = '', signature = ''] = compact().split('.');

  test('a token without exactly three parts is malformed', async () => {
    const others = [
      '',
      '.',
      '..',
      '...',
      '....',
      header,
      `${header}.${claims}`,
      `.${claims}.${signature}`,
      `${header}..${signature}`,
      `${header}.${claims}.${signature}.`,
      `.${compact()}`,
      `${compact()}.${signature}`,
      `${header}.${header}.${claims}.${claims}.${signature}`,
      `${compact()}.${compact()}`,
      `${header},${claims},${signature}`,
      'a.b.c',
      // RFC 7516: an encrypted token with five parts, the second one empty for "dir".
      `${toText(Buffer.from('{"alg":"dir","enc":"A128GCM"}'))}..AAAAAAAAAAAAAAAA.AAAA.${'A'.repeat(22)}`,
      // RFC 7515 section 7.2: the JSON forms are not bearer tokens.
      JSON.stringify({ protected: header, payload: claims, signature }),
      JSON.stringify({ payload: claims, signatures: [{ protected: header, signature }] }),
    ];
    for (const token of others) {
      const keys = recordedKeys();
      assert.equal(await reasonOf(token, { keys }), 'malformed', token.slice(0, 60));
      assert.deepEqual(keys.lookups, [], 'no key lookup');
    }
    assert.equal(await reasonOf(`${header}.${claims}.`), 'signature');
  });

  test('a signature is accepted in one encoding only', async () => {
    const verifier = createTokenVerifier();
    assert.equal(await reasonOf(compact(), { verifier }), 'valid');
    // 256 bytes leave four unused bits in the last character.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(signature.at(-1) ?? '');
    assert.equal(last % 16, 0);
    const unused = Array.from({ length: 15 }, (_, bits) => alphabet[last + bits + 1] ?? '');
    const standard = signature.replaceAll('-', '+').replaceAll('_', '/');
    const spellings = [
      ...unused.map((character) => signature.slice(0, -1) + character),
      `${signature}=`,
      `${signature}==`,
      `${signature}===`,
      ...[' ', '\t', '\n', '\r', '\f', '\v', '\0', '\u00a0', '\u2003', '\ufeff'].flatMap(
        (blank) => [
          `${blank}${signature}`,
          `${signature}${blank}`,
          `${signature.slice(0, 9)}${blank}${signature.slice(9)}`,
        ],
      ),
      ...(standard === signature ? [] : [standard]),
      signature.replaceAll(/./g, (character) => `%${character.charCodeAt(0).toString(16)}`),
    ];
    for (const spelling of spellings) {
      const keys = recordedKeys();
      const token = `${header}.${claims}.${spelling}`;
      assert.equal(await reasonOf(token, { keys, verifier }), 'signature', spelling.slice(-12));
      assert.deepEqual(keys.lookups, [], 'no key lookup');
    }
    assert.equal(verifier.size, 1, 'one token has one cache entry');
  });

  test('header and payload are rejected in any other encoding', async () => {
    const spellings = (part: string): string[] => [
      `${part}=`,
      `${part}==`,
      ` ${part}`,
      `${part}\t`,
      `${part.slice(0, 8)}\n${part.slice(8)}`,
      part.replace(/.$/, (character) => (character === 'Q' ? 'R' : 'Q')),
    ];
    for (const other of spellings(header)) {
      assert.notEqual(await reasonOf(`${other}.${claims}.${signature}`), 'valid', other);
    }
    for (const other of spellings(claims)) {
      assert.notEqual(await reasonOf(`${header}.${other}.${signature}`), 'valid', other);
    }
  });

  test('a token with one changed character is rejected', async () => {
    const good = compact();
    const change = fc.tuple(
      fc.nat(good.length - 1),
      fc.oneof(
        fc.constantFrom(...'AZaz09-_.=+/ \t\n\0~'.split('')),
        fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
        fc.constantFrom('\u0141', '\u2003', '\ud800', '\u212a'),
      ),
    );
    const verifier = createTokenVerifier();
    await reasonOf(good, { verifier });
    await fc.assert(
      fc.asyncProperty(change, async ([position, character]) => {
        const other = good.slice(0, position) + character + good.slice(position + 1);
        fc.pre(other !== good);
        assert.notEqual(await reasonOf(other, { verifier }), 'valid');
      }),
      { seed: 7519, numRuns: 400 },
    );
    assert.equal(verifier.size, 1);
  });

  test('a token with one flipped bit is rejected', async () => {
    const parts = [header, claims, signature].map((part) => Buffer.from(part, 'base64url'));
    const flip = fc.tuple(fc.nat(2), fc.nat(10_000));
    await fc.assert(
      fc.asyncProperty(flip, async ([which, bit]) => {
        const changed = parts.map((part, index) => {
          if (index !== which) return toText(part);
          const position = Math.floor(bit / 8) % part.length;
          const other = Buffer.from(part);
          other.writeUInt8(other.readUInt8(position) ^ (1 << (bit % 8)), position);
          return toText(other);
        });
        assert.notEqual(await reasonOf(changed.join('.')), 'valid');
      }),
      { seed: 7515, numRuns: 400 },
    );
  });

  test('a token combined from the parts of two others is rejected', async () => {
    const one = compact().split('.');
    const other = compact({ ...goodHeader, typ: 'at+jwt' }, { ...goodClaims, azp: 'x' }).split('.');
    for (let mixture = 1; mixture < 7; mixture += 1) {
      const parts = one.map((part, index) => ((mixture >> index) & 1 ? other[index] : part));
      assert.equal(await reasonOf(parts.join('.')), 'signature', String(mixture));
    }
  });

  test('a header that is not a JSON object is rejected before any key lookup', async () => {
    const broken = [
      'null',
      '[]',
      '7',
      '"RS256"',
      'true',
      '',
      ' ',
      '{',
      '{"alg":"RS256"',
      "{'alg':'RS256'}",
      '{"alg":"RS256",}',
      '[{"alg":"RS256"}]',
      '{"alg":"RS256"}{}',
      '{"alg":"RS256"}\0',
      Buffer.from([0xff, 0xfe]),
      Buffer.from('{"alg":"RS256","kid":"\xff"}', 'latin1'),
      Buffer.from('{"alg":"RS256","kid":"own"}', 'utf16le'),
    ];
    for (const part of broken) {
      const keys = recordedKeys();
      assert.equal(await reasonOf(compact(part), { keys }), 'malformed', String(part));
      assert.deepEqual(keys.lookups, []);
    }
  });
});

describe('cost of bad tokens', () => {
  test('a token longer than 12,288 characters is rejected unread, a shorter one is verified', async () => {
    const padded = (length: number): string => {
      const rest = length - compact(goodHeader, { ...goodClaims, filler: '' }).length;
      return compact(goodHeader, { ...goodClaims, filler: 'x'.repeat(Math.floor((rest * 3) / 4)) });
    };
    const keys = recordedKeys();
    const fits = padded(12_286);
    assert.ok(fits.length > 12_276 && fits.length <= 12_288, String(fits.length));
    assert.equal(await reasonOf(fits, { keys }), 'valid');
    assert.equal(keys.lookups.length, 1);
    for (const huge of [
      padded(12_292),
      padded(100_000),
      'x'.repeat(5_000_000),
      '.'.repeat(13_000),
    ]) {
      const verification = createTokenVerifier().verify(huge, expecting(keys), now);
      assert.ok(
        !(verification instanceof Promise) && verification.kind === 'rejected',
        'returned without a promise',
      );
      assert.equal(verification.reason, 'too_long');
    }
    assert.equal(keys.lookups.length, 1);
  });

  test('deeply nested JSON makes a token malformed, and nothing worse', async () => {
    const depth = 3_000;
    const keys = recordedKeys();
    const deep = '['.repeat(depth) + ']'.repeat(depth);
    for (const part of [
      deep,
      '['.repeat(6_000),
      `{"x":${'{"a":'.repeat(900)}0${'}'.repeat(900)}`,
    ]) {
      assert.equal(
        await reasonOf(
          compact(part, '{}', () => 'AA'),
          { keys },
        ),
        'malformed',
      );
      assert.equal(
        await reasonOf(
          compact('{}', part, () => 'AA'),
          { keys },
        ),
        'malformed',
      );
    }
    assert.deepEqual(keys.lookups, []);
    const nested = { ...goodClaims, x: JSON.parse('['.repeat(500) + ']'.repeat(500)) as unknown };
    assert.equal(await reasonOf(compact(goodHeader, nested)), 'valid');
  });

  test('a flood of bad tokens costs no cache entry and no second fetch', async () => {
    const remote = published([{ ...issuerKeys.publicKey.export({ format: 'jwk' }), kid }]);
    const verifier = createTokenVerifier();
    const good = compact();
    assert.equal(await reasonOf(good, { verifier, keys: remote }), 'valid');

    const random = (): string => randomBytes(256).toString('base64url');
    const floods: Readonly<Record<string, (index: number) => string>> = {
      malformed: (index) => `${index}.${random()}`,
      algorithm: (index) => compact({ ...goodHeader, alg: 'none', index }, goodClaims, () => ''),
      issuer: (index) => compact(goodHeader, { ...goodClaims, iss: `https://${index}/` }, random),
    };
    const keys = recordedKeys();
    for (const [reason, make] of Object.entries(floods)) {
      for (let index = 0; index < 1_000; index += 1) {
        assert.equal(await reasonOf(make(index), { verifier, keys }), reason);
      }
    }
    assert.deepEqual(keys.lookups, [], 'malformed tokens and other issuers cause no key lookup');
    for (let index = 0; index < 1_000; index += 1) {
      const token = compact({ ...goodHeader, kid: `invented ${index}` }, goodClaims, random);
      assert.equal(await reasonOf(token, { verifier, keys: remote }), 'signature');
    }
    const forgeries = Array.from({ length: 1_000 }, () =>
      reasonOf(compact(goodHeader, goodClaims, random), { verifier, keys: remote }),
    );
    assert.deepEqual(new Set(await Promise.all(forgeries)), new Set(['signature']));
    assert.equal(remote.fetches, 1);
    assert.equal(verifier.size, 1);
    const again = verifier.verify(good, expecting(remote), now);
    assert.ok(
      !(again instanceof Promise) && again.kind === 'valid',
      'the good token is still cached',
    );
  });

  test('tokens rejected for their time or audience are cached within the limit', async () => {
    const verifier = createTokenVerifier(10);
    for (let index = 0; index < 50; index += 1) {
      const late = compact(goodHeader, { ...goodClaims, exp: index });
      assert.equal(await reasonOf(late, { verifier }), 'expired');
      assert.ok(verifier.size <= 10);
    }
  });

  test('a key too weak for RS256 makes verification fail', async () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 });
    const weak: KeyObject = createPublicKey(small.privateKey);
    const token = compact(goodHeader, goodClaims, rs256(small.privateKey));
    const verification = reasonOf(token, { keys: recordedKeys({ [kid]: weak }) });
    // No key source returns such a key.
    await assert.rejects(verification, TypeError);
  });
});
