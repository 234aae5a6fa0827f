import assert from 'node:assert/strict';
import { constants, createHmac, createPrivateKey, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { createTokenVerifier } from '../../src/auth/signature.ts';
import { selfSigned } from '../helpers/certificates.ts';
import {
  byIssuer,
  compact,
  recordedKeys,
  expecting,
  goodClaims,
  goodHeader,
  issuer,
  kid,
  now,
  issuerKeys,
  published,
  reasonOf,
  rs256,
  type Signing,
  foreignKeys,
  toText,
} from './token-forge.ts';

test('the token that the attacks change is valid before they change it', async () => {
  assert.equal(await reasonOf(compact()), 'valid');
});

describe('alg', () => {
  /** Asserts that a token is rejected by its header, before any key lookup. */
  async function assertRejectedByHeader(
    token: string,
    name: string,
    reason = 'algorithm',
  ): Promise<void> {
    const keys = recordedKeys();
    assert.equal(await reasonOf(token, { keys }), reason, name);
    assert.deepEqual(keys.lookups, [], name);
  }

  test('alg none is rejected in any spelling, with any signature', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', ' none', 'none ', 'none\0', 'n\u043ene']) {
      for (const signing of [() => '', () => 'c2ln', byIssuer]) {
        await assertRejectedByHeader(compact({ ...goodHeader, alg }, goodClaims, signing), alg);
      }
    }
    const escaped = String.raw`{"alg":"\u006eone","kid":"own"}`;
    await assertRejectedByHeader(
      compact(escaped, goodClaims, () => ''),
      escaped,
    );
  });

  /** All encodings of the public key that an implementation could take for a MAC secret. */
  const secrets = ((): Buffer[] => {
    const pem = issuerKeys.publicKey.export({ type: 'spki', format: 'pem' });
    const pkcs1 = issuerKeys.publicKey.export({ type: 'pkcs1', format: 'pem' });
    const jwk = issuerKeys.publicKey.export({ format: 'jwk' });
    const texts = [pem, pem.trim(), pem.replaceAll('\n', '\r\n'), pkcs1, JSON.stringify(jwk)];
    return [
      ...texts,
      JSON.stringify({ ...jwk, kid, alg: 'RS256' }),
      jwk.n ?? '',
      kid,
      '',
      issuerKeys.publicKey.export({ type: 'spki', format: 'der' }),
      issuerKeys.publicKey.export({ type: 'pkcs1', format: 'der' }),
      Buffer.from(jwk.n ?? '', 'base64url'),
    ].map((secret) => Buffer.from(secret));
  })();

  test('a MAC with the public key as its secret is rejected', async () => {
    for (const [index, secret] of secrets.entries()) {
      for (const size of ['256', '384', '512']) {
        const signing: Signing = (text) => createHmac(`sha${size}`, secret).update(text).digest();
        const token = compact({ ...goodHeader, alg: `HS${size}` }, goodClaims, signing);
        await assertRejectedByHeader(token, `HS${size} ${index}`);
        assert.equal(await reasonOf(compact(goodHeader, goodClaims, signing)), 'signature');
      }
    }
  });

  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const ed = generateKeyPairSync('ed25519').privateKey;
  const pss = {
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
  };
  const others: Readonly<Record<string, (data: Buffer) => Buffer>> = {
    RS384: (data) => sign('sha384', data, issuerKeys.privateKey),
    RS512: (data) => sign('sha512', data, issuerKeys.privateKey),
    PS256: (data) => sign('sha256', data, { key: issuerKeys.privateKey, ...pss }),
    PS512: (data) => sign('sha512', data, { key: issuerKeys.privateKey, ...pss }),
    RS1: (data) => sign('sha1', data, issuerKeys.privateKey),
    ES256: (data) => sign('sha256', data, { key: ec, dsaEncoding: 'ieee-p1363' }),
    'ES256 in DER': (data) => sign('sha256', data, ec),
    EdDSA: (data) => sign(null, data, ed),
  };
  for (const [name, make] of Object.entries(others)) {
    test(`a signature by ${name} is rejected, with its own alg and with RS256`, async () => {
      const signing: Signing = (text) => make(Buffer.from(text));
      const [alg] = name.split(' ');
      await assertRejectedByHeader(compact({ ...goodHeader, alg }, goodClaims, signing), name);
      assert.equal(await reasonOf(compact(goodHeader, goodClaims, signing)), 'signature');
    });
  }

  test('alg: rejects anything but RS256, even with a valid signature', async () => {
    const names = ['rs256', 'Rs256', 'RS256 ', ' RS256', 'RS256\0', 'RS2560', 'R\u0405256', ''];
    const otherTypes = [null, 256, true, ['RS256'], { toString: 'RS256' }, undefined];
    for (const alg of [...names, ...otherTypes]) {
      await assertRejectedByHeader(
        compact({ ...goodHeader, alg }),
        JSON.stringify(alg) ?? 'absent',
      );
    }
    await assertRejectedByHeader(compact('{"__proto__":{"alg":"RS256"},"kid":"own"}'), 'inherited');
  });

  test('of a repeated header field the last value counts', async () => {
    // Tokens are parsed by JSON.parse alone, so the checked value is the one that is used. Only the
    // issuer can repeat a field: its signature covers both.
    const twice = (first: string, last: string): string =>
      `{"alg":"${first}","kid":"own","alg":"${last}"}`;
    await assertRejectedByHeader(compact(twice('RS256', 'none')), 'none last');
    await assertRejectedByHeader(compact(twice('RS256', 'HS256')), 'HS256 last');
    assert.equal(await reasonOf(compact(twice('none', 'RS256'))), 'valid');
    const unsigned = compact(twice('none', 'RS256'), goodClaims, () => '');
    assert.equal(await reasonOf(unsigned), 'signature');
    const kids = `{"alg":"RS256","kid":"own","kid":"other"}`;
    assert.equal(await reasonOf(compact(kids)), 'signature');
  });

  test('crit is rejected before any key lookup', async () => {
    const values = [
      ['exp'],
      ['b64'],
      ['alg'],
      ['x'],
      ['crit'],
      [],
      null,
      'b64',
      {},
      0,
      ['b64', 'b64'],
    ];
    for (const crit of values) {
      const name = JSON.stringify(crit);
      await assertRejectedByHeader(compact({ ...goodHeader, crit }), name, 'malformed');
      await assertRejectedByHeader(
        compact({ ...goodHeader, crit, b64: true, exp: 1 }),
        name,
        'malformed',
      );
    }
  });

  test('an unencoded payload (RFC 7797) is rejected', async () => {
    const header = { ...goodHeader, b64: false, crit: ['b64'] };
    await assertRejectedByHeader(compact(header), 'encoded nevertheless', 'malformed');
    const first = toText(Buffer.from(JSON.stringify(header)));
    const signed = `${first}.${JSON.stringify(goodClaims).replaceAll('.', '')}`;
    await assertRejectedByHeader(
      `${signed}.${toText(Buffer.from(byIssuer(signed)))}`,
      'raw',
      'malformed',
    );
    // Without `crit` the parameter is ignored (RFC 7515 section 4.1.11).
    assert.equal(await reasonOf(compact({ ...goodHeader, b64: false })), 'valid');
  });
});

describe('key lookup', () => {
  const certificate = selfSigned.cert.replaceAll(/-----.*-----|\s/g, '');
  const jwk = { ...foreignKeys.publicKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' };

  test('jwk, jku, x5u and x5c in a header are ignored, and nothing is fetched', async (t) => {
    const requests: string[] = [];
    const server = createServer((request, response) => {
      requests.push(request.url ?? '');
      response.end(JSON.stringify({ keys: [jwk] }));
    });
    server.on('connection', () => requests.push('connected')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;

    const certified = createPrivateKey(selfSigned.key);
    const byCertified: Signing = (text) =>
      sign('sha256', Buffer.from(text), { key: certified, dsaEncoding: 'ieee-p1363' });
    const embedded: readonly [header: object, signing?: Signing][] = [
      [{ jwk }],
      [{ jwk, kid: undefined }],
      [{ jwk, kid: '' }],
      [{ jwk: { ...jwk, kid: 'theirs' }, kid: 'theirs' }],
      [{ jku: url }],
      [{ jku: url, kid: 'theirs' }],
      [{ jku: url, jwk, x5u: url, x5c: [certificate] }],
      [{ x5u: url, 'x5t#S256': 'AAAA' }],
      [{ x5c: [certificate] }, byCertified],
      [{ x5c: certificate, kid: 'theirs' }, byCertified],
      [{ keys: [jwk], epk: jwk, iss: url }],
      [{ kid: url }],
    ];
    for (const [header, signing = rs256(foreignKeys.privateKey)] of embedded) {
      const name = JSON.stringify(header).slice(0, 60);
      const token = compact({ ...goodHeader, ...header }, goodClaims, signing);
      assert.equal(await reasonOf(token), 'signature', name);
    }
    assert.deepEqual(requests, []);
    // A token that the issuer signed stays valid with them.
    assert.equal(await reasonOf(compact({ ...goodHeader, jwk, jku: url, x5u: url })), 'valid');
    assert.deepEqual(requests, []);
  });

  test('a kid selects only the key with exactly that kid', async () => {
    const keys = published([{ ...issuerKeys.publicKey.export({ format: 'jwk' }), kid }]);
    assert.equal(await reasonOf(compact(), { keys }), 'valid');
    const kids: unknown[] = [
      '../own',
      './own',
      'own/',
      '/dev/null',
      '../../../../etc/passwd',
      'file:///dev/null',
      "own' OR '1'='1",
      "' UNION SELECT 'x' --",
      'own; DROP TABLE keys',
      '%6Fwn',
      'own%00',
      '__proto__',
      'constructor',
      'prototype',
      'toString',
      'hasOwnProperty',
      'size',
      'get',
      '',
      ' ',
      'OWN',
      'own ',
      ' own',
      'own\0',
      '\ufeffown',
      'o\u200bwn',
      '\u043ewn',
      '$(own)',
      'x'.repeat(4_000),
      0,
      1,
      -1,
      true,
      null,
      [],
      [kid],
      [[kid]],
      { kid },
      { toString: kid },
    ];
    for (const wanted of kids) {
      const name = JSON.stringify(wanted).slice(0, 60);
      // Signed by the issuer: without the right kid no key is found.
      assert.equal(
        await reasonOf(compact({ ...goodHeader, kid: wanted }), { keys }),
        'signature',
        name,
      );
    }
    assert.equal(keys.fetches, 1, 'unknown kids do not fetch the key set each time');
  });

  test('a kid that is not a string is looked up as an empty one', async () => {
    const keys = recordedKeys();
    for (const wanted of [0, null, [kid], { kid }, undefined, true]) {
      await reasonOf(compact({ ...goodHeader, kid: wanted }), { keys });
    }
    assert.deepEqual(new Set(keys.lookups), new Set(['']));
  });

  test('a token signed with the key of another issuer is rejected', async () => {
    const theirs = recordedKeys({ [kid]: foreignKeys.publicKey });
    const ours = recordedKeys();
    const keysOf = (iss: string) =>
      new Map([
        [issuer, ours],
        ['https://theirs.example.com/', theirs],
      ]).get(iss);
    const verifier = createTokenVerifier();
    const resultOf = async (iss: string, signing: Signing): Promise<string> => {
      const token = compact(goodHeader, { ...goodClaims, iss }, signing);
      const verification = await verifier.verify(token, { ...expecting(ours), keysOf }, now);
      return verification.kind === 'valid' ? 'valid' : verification.reason;
    };
    const byThem = rs256(foreignKeys.privateKey);
    assert.equal(await resultOf('https://theirs.example.com/', byThem), 'valid');
    assert.equal(await resultOf('https://theirs.example.com/', byIssuer), 'signature');
    assert.equal(await resultOf(issuer, byThem), 'signature');
    assert.equal(await resultOf(issuer, byIssuer), 'valid');
  });
});
