import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Claims, LEEWAY_MS } from '../../src/auth/claims.ts';
import { createTokenVerifier } from '../../src/auth/signature.ts';
import {
  audience,
  compact,
  recordedKeys,
  expecting,
  goodClaims,
  goodHeader,
  issuer,
  now,
  nowSeconds,
  type Part,
  reasonOf,
} from './token-forge.ts';

/** All tokens here have a valid signature of the issuer; the tests are about how claims are read. */

function withClaims(claims: object): string {
  return compact(goodHeader, { ...goodClaims, ...claims });
}

/** Returns the claims of a valid token. */
async function claimsOf(payload: Part): Promise<Claims> {
  const token = compact(goodHeader, payload);
  const verification = await createTokenVerifier().verify(token, expecting(recordedKeys()), now);
  return verification.kind === 'valid' ? verification.claims : assert.fail(verification.reason);
}

/** Returns the JSON of valid claims with one more field, which may repeat a name. */
function textWith(field: string): string {
  return `${JSON.stringify(goodClaims).slice(0, -1)},${field}}`;
}

describe('aud', () => {
  test('aud: accepts a string, and an array of strings that contains it', async () => {
    for (const aud of [
      audience,
      [audience],
      [audience, audience],
      ['', audience],
      ['https://other.example.com', audience, 'x'],
    ]) {
      assert.equal(await reasonOf(withClaims({ aud })), 'valid', JSON.stringify(aud));
    }
  });

  test('aud: rejects any other string, however similar', async () => {
    const host = 'messages.example.com';
    const others = [
      '',
      ' ',
      '*',
      host,
      `${audience}/`,
      `${audience} `,
      ` ${audience}`,
      `${audience}\0`,
      `${audience}.evil.example`,
      `${audience}:443`,
      `${audience}#`,
      `${audience}?`,
      `x${audience}`,
      audience.slice(0, -1),
      audience.slice(1),
      audience.toUpperCase(),
      `https://Messages.example.com`,
      `http://${host}`,
      `https:${host}`,
      `https://user@${host}`,
      `${audience} https://other.example.com`,
      `https://other.example.com ${audience}`,
      `${audience},https://other.example.com`,
      audience.replace('a', '\u0430'),
      audience.replace('.', '\u3002'),
      audience.replace('s', '%73'),
      `${audience}\u200b`,
      audience.normalize('NFD').replace('e', 'e\u0301'),
    ];
    for (const aud of others) {
      assert.equal(await reasonOf(withClaims({ aud })), 'audience', JSON.stringify(aud));
      assert.equal(await reasonOf(withClaims({ aud: [aud] })), 'audience', JSON.stringify([aud]));
    }
    assert.equal(await reasonOf(withClaims({ aud: others })), 'audience', 'all of them');
  });

  test('aud: rejects anything but a string or an array of strings', async () => {
    const others = [
      undefined,
      null,
      0,
      true,
      {},
      { [audience]: true },
      { 0: audience, length: 1 },
      { includes: audience },
      [],
      [[]],
      [[audience]],
      [{ aud: audience }],
      [null, audience],
      [audience, 7],
      [audience, [audience]],
      [audience, null],
    ];
    for (const aud of others) {
      assert.equal(await reasonOf(withClaims({ aud })), 'audience', JSON.stringify(aud));
    }
  });
});

describe('iss', () => {
  test('iss: rejects any other string, however similar, before any key lookup', async () => {
    const host = 'login.example.com';
    const others = [
      '',
      issuer.slice(0, -1),
      `${issuer}/`,
      `${issuer} `,
      ` ${issuer}`,
      `${issuer}\0`,
      `${issuer}x`,
      `${issuer}?`,
      `${issuer}.`,
      `x${issuer}`,
      issuer.slice(1),
      issuer.toUpperCase(),
      issuer.replace('l', 'L'),
      issuer.replace('https', 'http'),
      issuer.replace('.com', '.com.evil.example'),
      issuer.replace('.com', '.com.'),
      issuer.replace('.com/', '.com:443/'),
      `https://${host}@evil.example/`,
      `https://evil.example/${host}/`,
      `https://user@${host}/`,
      issuer.replace('o', '\u043e'),
      issuer.replace('l', '%6c'),
      `${issuer}\u200b`,
      '__proto__',
      'constructor',
      'toString',
    ];
    for (const iss of others) {
      const keys = recordedKeys();
      assert.equal(await reasonOf(withClaims({ iss }), { keys }), 'issuer', JSON.stringify(iss));
      assert.deepEqual(keys.lookups, []);
    }
  });

  test('iss: rejects anything but a string, before any key lookup', async () => {
    for (const iss of [undefined, null, 0, true, {}, [], [issuer], [[issuer]], { iss: issuer }]) {
      const keys = recordedKeys();
      assert.equal(await reasonOf(withClaims({ iss }), { keys }), 'malformed', JSON.stringify(iss));
      assert.deepEqual(keys.lookups, []);
    }
  });
});

describe('exp, nbf and iat', () => {
  test('exp, nbf and iat: anything but a finite number makes a token malformed', async () => {
    const strange = ['null', '"soon"', `"${nowSeconds + 60}"`, '""', 'true', '[]', '{}', '1e999'];
    strange.push(`[${nowSeconds + 60}]`, '-1e999', `{"valueOf":${nowSeconds + 60}}`);
    // These are not JSON.
    strange.push('NaN', 'Infinity', '-Infinity', '0x7fffffff', '+1', '01', '1_000', `${now}n`);
    for (const value of strange) {
      for (const name of ['exp', 'nbf', 'iat']) {
        const token = compact(goodHeader, textWith(`"${name}":${value}`));
        assert.equal(await reasonOf(token), 'malformed', `${name} ${value}`);
      }
    }
    assert.equal(await reasonOf(withClaims({ exp: undefined })), 'malformed');
  });

  test('exp: a token expires 5 s after it, to the millisecond', async () => {
    const verifier = createTokenVerifier();
    const token = withClaims({ exp: nowSeconds });
    for (const [afterMs, reason] of [
      [-1, 'valid'],
      [0, 'valid'],
      [LEEWAY_MS - 1, 'valid'],
      [LEEWAY_MS, 'expired'],
      [LEEWAY_MS + 1, 'expired'],
      [1e15, 'expired'],
    ] as const) {
      assert.equal(await reasonOf(token, { verifier, at: now + afterMs }), reason, `${afterMs}`);
    }
    const half = withClaims({ exp: nowSeconds + 0.5 });
    assert.equal(await reasonOf(half, { at: now + 500 + LEEWAY_MS - 1 }), 'valid');
    assert.equal(await reasonOf(half, { at: now + 500 + LEEWAY_MS }), 'expired');
    assert.equal(LEEWAY_MS, 5_000);
  });

  test('nbf: a token is valid from 5 s before it, to the millisecond', async () => {
    const verifier = createTokenVerifier();
    const token = withClaims({ nbf: nowSeconds });
    for (const [beforeMs, reason] of [
      [LEEWAY_MS + 1, 'not_yet'],
      [LEEWAY_MS, 'valid'],
      [0, 'valid'],
      [LEEWAY_MS + 1, 'not_yet'],
    ] as const) {
      assert.equal(await reasonOf(token, { verifier, at: now - beforeMs }), reason, `${beforeMs}`);
    }
  });

  test('exp and nbf: may be negative, tiny or huge', async () => {
    for (const exp of [0, -0, -1, 1, -1e300, 1e-300, nowSeconds / 1000]) {
      assert.equal(await reasonOf(withClaims({ exp })), 'expired', String(exp));
    }
    // The issuer decides how long its tokens live, even if it writes milliseconds by mistake.
    for (const exp of [now, 2 ** 53, 1e300]) {
      assert.equal(await reasonOf(withClaims({ exp })), 'valid', String(exp));
    }
    for (const nbf of [now, 2 ** 53, 1e300]) {
      assert.equal(await reasonOf(withClaims({ nbf })), 'not_yet', String(nbf));
    }
    for (const nbf of [0, -1, -1e300]) {
      assert.equal(await reasonOf(withClaims({ nbf })), 'valid', String(nbf));
    }
    const contradictory = { exp: nowSeconds - 60, nbf: nowSeconds + 60 };
    assert.equal(await reasonOf(withClaims(contradictory)), 'expired');
  });

  test('iat: any finite number is accepted, even in the future', async () => {
    // RFC 7519 section 4.1.6 defines no check of it; a later start is expressed by nbf.
    for (const iat of [nowSeconds + 1e6, 0, -1, 1.5, 1e300]) {
      assert.equal(await reasonOf(withClaims({ iat })), 'valid', JSON.stringify(iat));
    }
  });
});

describe('sub and jti', () => {
  test('sub and jti: anything but a string makes a token malformed, before any key lookup', async () => {
    for (const name of ['sub', 'jti']) {
      for (const value of [null, 0, 7, true, [], ['x'], {}]) {
        const keys = recordedKeys();
        const token = withClaims({ [name]: value });
        assert.equal(
          await reasonOf(token, { keys }),
          'malformed',
          `${name} ${JSON.stringify(value)}`,
        );
        assert.deepEqual(keys.lookups, []);
      }
      for (const value of ['', 'x', undefined]) {
        assert.equal(await reasonOf(withClaims({ [name]: value })), 'valid', `${name} ${value}`);
      }
    }
  });
});

describe('payload', () => {
  test('payload: rejects anything but a JSON object in UTF-8', async () => {
    const text = JSON.stringify(goodClaims);
    const others: readonly (string | Buffer)[] = [
      'null',
      '7',
      'true',
      '""',
      JSON.stringify(text),
      '[]',
      `[${text}]`,
      '',
      ' ',
      text.slice(0, -1),
      `${text}}`,
      `${text}${text}`,
      `${text}\0`,
      text.replaceAll('"', "'"),
      text.replace('{', '{/**/'),
      text.replace('}', ',}'),
      Buffer.from(text, 'utf16le'),
      Buffer.from(text.replace('client', 'cli\u00e9nt'), 'latin1'),
      Buffer.from([0xff, 0xfe, 0xfd]),
      // An overlong encoding, and half of a surrogate pair.
      Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
      Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    ];
    for (const payload of others) {
      const keys = recordedKeys();
      const reason = await reasonOf(compact(goodHeader, payload), { keys });
      assert.equal(reason, 'malformed', payload.toString().slice(0, 40));
      assert.deepEqual(keys.lookups, []);
    }
  });

  test('payload: byte order mark, white space and escapes do not change the claims', async () => {
    const plain = await claimsOf(goodClaims);
    const text = JSON.stringify(goodClaims);
    const escaped = text.replace('client', String.raw`\u0063lient`).replace('"iss"', '"\\u0069ss"');
    // The decoder drops the byte order mark, as RFC 8259 section 8.1 allows.
    for (const payload of [`\ufeff${text}`, ` \t\r\n${text} `, escaped]) {
      assert.deepEqual(await claimsOf(payload), plain, payload.slice(0, 20));
    }
  });

  test('payload: of a repeated claim the last value is both checked and returned', async () => {
    // A token is parsed once, by JSON.parse, so the checked claims are the returned ones. Only the
    // issuer can write a claim twice: its signature covers both.
    const last: readonly [field: string, reason: string][] = [
      ['"iss":"https://evil.example.com/"', 'issuer'],
      ['"aud":"https://evil.example.com"', 'audience'],
      [`"exp":${nowSeconds - 60}`, 'expired'],
      [`"nbf":${nowSeconds + 60}`, 'not_yet'],
      ['"iss":null', 'malformed'],
      [String.raw`"\u0069ss":"https://evil.example.com/"`, 'issuer'],
    ];
    for (const [field, reason] of last) {
      assert.equal(await reasonOf(compact(goodHeader, textWith(field))), reason, field);
    }
    const evil = '{"iss":"https://evil.example.com/","aud":"x","exp":1,"azp":"evil",';
    const first = evil + JSON.stringify(goodClaims).slice(1);
    assert.deepEqual(await claimsOf(first), await claimsOf(goodClaims));
    const twice = await claimsOf(textWith('"permissions":["all"],"permissions":[],"azp":"other"'));
    assert.deepEqual([twice.permissions, twice.clientId], [[], 'other']);
  });

  test('payload: claims are never read from __proto__ or constructor', async () => {
    const { aud, permissions, ...rest } = goodClaims;
    const inherited = JSON.stringify({ aud, permissions, polluted: true });
    const payload = `${JSON.stringify(rest).slice(0, -1)},"__proto__":${inherited}}`;
    assert.equal(await reasonOf(compact(goodHeader, payload)), 'audience');
    const poor = JSON.stringify({ ...rest, aud }).slice(0, -1);
    const proto = await claimsOf(`${poor},"__proto__":${inherited},"constructor":${inherited}}`);
    assert.equal(proto.permissions, undefined);
    assert.equal('polluted' in {}, false);
  });
});

describe('permissions', () => {
  const wanted = 'read:messages';
  test('permissions: anything but an array of strings counts as absent', async () => {
    const nothing = [null, 0, true, wanted, '', {}, { 0: wanted, length: 1 }, [[wanted]], [7]];
    for (const permissions of [...nothing, [wanted, null], [{ [wanted]: 1 }], undefined]) {
      const claims = await claimsOf({ ...goodClaims, permissions });
      assert.equal(claims.permissions, undefined, JSON.stringify(permissions));
    }
    for (const permissions of [[], [''], [wanted], [wanted, wanted], [` ${wanted}`]]) {
      const claims = await claimsOf({ ...goodClaims, permissions });
      assert.deepEqual(claims.permissions, permissions);
    }
  });

  test('permissions: are not read from scope or any other claim', async () => {
    const claims = await claimsOf({
      ...goodClaims,
      permissions: undefined,
      Permissions: [wanted],
      permission: [wanted],
      'permissions ': [wanted],
      scope: wanted,
      scopes: [wanted],
      authorities: [wanted],
    });
    assert.equal(claims.permissions, undefined);
    assert.deepEqual(claims.scopes, [wanted]);
  });
});
