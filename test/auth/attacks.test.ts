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
  countedKeys,
  expecting,
  goodClaims,
  goodHeader,
  issuer,
  kid,
  now,
  own,
  published,
  reasonOf,
  rs256,
  type Signing,
  stranger,
  toText,
} from './token-forge.ts';

test('the token that the attacks change is good before they do', async () => {
  assert.equal(await reasonOf(compact()), 'valid');
});

describe('an attack on the algorithm', () => {
  /** Refused by what the header says, before any key is asked for. */
  async function refusedUnasked(token: string, name: string, reason = 'algorithm'): Promise<void> {
    const keys = countedKeys();
    assert.equal(await reasonOf(token, { keys }), reason, name);
    assert.deepEqual(keys.asked, [], name);
  }

  test('none is no algorithm, in whatever spelling and with whatever signature', async () => {
    for (const alg of ['none', 'None', 'NONE', 'nOnE', ' none', 'none ', 'none\0', 'n\u043ene']) {
      for (const signing of [() => '', () => 'c2ln', byIssuer]) {
        await refusedUnasked(compact({ ...goodHeader, alg }, goodClaims, signing), alg);
      }
    }
    const escaped = String.raw`{"alg":"\u006eone","kid":"own"}`;
    await refusedUnasked(
      compact(escaped, goodClaims, () => ''),
      escaped,
    );
  });

  /** Whatever form a secret could take where someone mistakes a public key for one. */
  const secrets = ((): Buffer[] => {
    const pem = own.publicKey.export({ type: 'spki', format: 'pem' });
    const pkcs1 = own.publicKey.export({ type: 'pkcs1', format: 'pem' });
    const jwk = own.publicKey.export({ format: 'jwk' });
    const texts = [pem, pem.trim(), pem.replaceAll('\n', '\r\n'), pkcs1, JSON.stringify(jwk)];
    return [
      ...texts,
      JSON.stringify({ ...jwk, kid, alg: 'RS256' }),
      jwk.n ?? '',
      kid,
      '',
      own.publicKey.export({ type: 'spki', format: 'der' }),
      own.publicKey.export({ type: 'pkcs1', format: 'der' }),
      Buffer.from(jwk.n ?? '', 'base64url'),
    ].map((secret) => Buffer.from(secret));
  })();

  test('a MAC with the public key as its secret is refused', async () => {
    for (const [index, secret] of secrets.entries()) {
      for (const size of ['256', '384', '512']) {
        const signing: Signing = (text) => createHmac(`sha${size}`, secret).update(text).digest();
        const token = compact({ ...goodHeader, alg: `HS${size}` }, goodClaims, signing);
        await refusedUnasked(token, `HS${size} ${index}`);
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
    RS384: (data) => sign('sha384', data, own.privateKey),
    RS512: (data) => sign('sha512', data, own.privateKey),
    PS256: (data) => sign('sha256', data, { key: own.privateKey, ...pss }),
    PS512: (data) => sign('sha512', data, { key: own.privateKey, ...pss }),
    RS1: (data) => sign('sha1', data, own.privateKey),
    ES256: (data) => sign('sha256', data, { key: ec, dsaEncoding: 'ieee-p1363' }),
    'ES256 in DER': (data) => sign('sha256', data, ec),
    EdDSA: (data) => sign(null, data, ed),
  };
  for (const [name, make] of Object.entries(others)) {
    test(`${name} is refused, under its own name and under that of RS256`, async () => {
      const signing: Signing = (text) => make(Buffer.from(text));
      const [alg] = name.split(' ');
      await refusedUnasked(compact({ ...goodHeader, alg }, goodClaims, signing), name);
      assert.equal(await reasonOf(compact(goodHeader, goodClaims, signing)), 'signature');
    });
  }

  test('a good signature does not help what is not RS256 to the letter', async () => {
    const names = ['rs256', 'Rs256', 'RS256 ', ' RS256', 'RS256\0', 'RS2560', 'R\u0405256', ''];
    const things = [null, 256, true, ['RS256'], { toString: 'RS256' }, undefined];
    for (const alg of [...names, ...things]) {
      await refusedUnasked(compact({ ...goodHeader, alg }), JSON.stringify(alg) ?? 'absent');
    }
    await refusedUnasked(compact('{"__proto__":{"alg":"RS256"},"kid":"own"}'), 'inherited');
  });

  test('the last of two members of one name counts, and both were signed', async () => {
    // Every reading of a token here is by JSON.parse, where the last one wins, so that no check can
    // see another value than what is used. What is refused is decided by the signature of the
    // issuer over both: nobody else can add a member.
    const twice = (first: string, last: string): string =>
      `{"alg":"${first}","kid":"own","alg":"${last}"}`;
    await refusedUnasked(compact(twice('RS256', 'none')), 'none last');
    await refusedUnasked(compact(twice('RS256', 'HS256')), 'HS256 last');
    assert.equal(await reasonOf(compact(twice('none', 'RS256'))), 'valid');
    const unsigned = compact(twice('none', 'RS256'), goodClaims, () => '');
    assert.equal(await reasonOf(unsigned), 'signature');
    const kids = `{"alg":"RS256","kid":"own","kid":"other"}`;
    assert.equal(await reasonOf(compact(kids)), 'signature');
  });

  test('crit is refused before any key: nothing is understood that it could name', async () => {
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
      await refusedUnasked(compact({ ...goodHeader, crit }), name, 'malformed');
      await refusedUnasked(compact({ ...goodHeader, crit, b64: true, exp: 1 }), name, 'malformed');
    }
  });

  test('an unencoded payload (RFC 7797) is refused', async () => {
    const header = { ...goodHeader, b64: false, crit: ['b64'] };
    await refusedUnasked(compact(header), 'encoded after all', 'malformed');
    const first = toText(Buffer.from(JSON.stringify(header)));
    const signed = `${first}.${JSON.stringify(goodClaims).replaceAll('.', '')}`;
    await refusedUnasked(`${signed}.${toText(Buffer.from(byIssuer(signed)))}`, 'raw', 'malformed');
    // Without `crit` it means nothing (RFC 7515 section 4.1.11): the payload is read as ever.
    assert.equal(await reasonOf(compact({ ...goodHeader, b64: false })), 'valid');
  });
});

describe('an attack on the key', () => {
  const certificate = selfSigned.cert.replaceAll(/-----.*-----|\s/g, '');
  const jwk = { ...stranger.publicKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' };

  test('a key that the token brings along is not looked at, and nobody is asked for it', async (t) => {
    const visits: string[] = [];
    const server = createServer((request, reply) => {
      visits.push(request.url ?? '');
      reply.end(JSON.stringify({ keys: [jwk] }));
    });
    server.on('connection', () => visits.push('connected')).listen(0, '127.0.0.1');
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
    for (const [header, signing = rs256(stranger.privateKey)] of embedded) {
      const name = JSON.stringify(header).slice(0, 60);
      const token = compact({ ...goodHeader, ...header }, goodClaims, signing);
      assert.equal(await reasonOf(token), 'signature', name);
    }
    assert.deepEqual(visits, []);
    // Nor does any of it disturb a token that the issuer signed.
    assert.equal(await reasonOf(compact({ ...goodHeader, jwk, jku: url, x5u: url })), 'valid');
    assert.deepEqual(visits, []);
  });

  test('a kid opens nothing but the key of that name', async () => {
    const keys = published([{ ...own.publicKey.export({ format: 'jwk' }), kid }]);
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
      undefined,
    ];
    for (const wanted of kids) {
      const name = JSON.stringify(wanted)?.slice(0, 60) ?? 'absent';
      // Even the issuer's own signature: a key is found by its kid or not at all.
      assert.equal(
        await reasonOf(compact({ ...goodHeader, kid: wanted }), { keys }),
        'signature',
        name,
      );
    }
    assert.equal(keys.fetches, 1, 'a kid that nobody knows does not fetch the set each time');
  });

  test('a kid that is no text is never handed on', async () => {
    const keys = countedKeys();
    for (const wanted of [0, null, [kid], { kid }, undefined, true]) {
      await reasonOf(compact({ ...goodHeader, kid: wanted }), { keys });
    }
    assert.deepEqual(new Set(keys.asked), new Set(['']));
  });

  test('the key of one issuer does not sign for another', async () => {
    const theirs = countedKeys({ [kid]: stranger.publicKey });
    const ours = countedKeys();
    const keysOf = (iss: string) =>
      new Map([
        [issuer, ours],
        ['https://theirs.example.com/', theirs],
      ]).get(iss);
    const verifier = createTokenVerifier();
    const verdictOf = async (iss: string, signing: Signing): Promise<string> => {
      const token = compact(goodHeader, { ...goodClaims, iss }, signing);
      const verdict = await verifier.verify(token, { ...expecting(ours), keysOf }, now);
      return verdict.kind === 'valid' ? 'valid' : verdict.reason;
    };
    const byThem = rs256(stranger.privateKey);
    assert.equal(await verdictOf('https://theirs.example.com/', byThem), 'valid');
    assert.equal(await verdictOf('https://theirs.example.com/', byIssuer), 'signature');
    assert.equal(await verdictOf(issuer, byThem), 'signature');
    assert.equal(await verdictOf(issuer, byIssuer), 'valid');
  });
});
