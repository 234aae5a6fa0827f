import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Claims, LEEWAY_MS } from '../../src/auth/claims.ts';
import { createTokenVerifier } from '../../src/auth/signature.ts';
import {
  audience,
  compact,
  countedKeys,
  expecting,
  goodClaims,
  goodHeader,
  issuer,
  now,
  nowSeconds,
  type Part,
  reasonOf,
} from './token-forge.ts';

/** All of these are signed by the issuer: what counts is how they are read. */

function withClaims(claims: object): string {
  return compact(goodHeader, { ...goodClaims, ...claims });
}

/** What is read of a token that is good. */
async function claimsOf(payload: Part): Promise<Claims> {
  const token = compact(goodHeader, payload);
  const verdict = await createTokenVerifier().verify(token, expecting(countedKeys()), now);
  return verdict.kind === 'valid' ? verdict.claims : assert.fail(verdict.reason);
}

function textWith(member: string): string {
  return `${JSON.stringify(goodClaims).slice(0, -1)},${member}}`;
}

describe('the audience', () => {
  test('is good as a text, and as an array of texts that has it', async () => {
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

  test('is no other text, however alike', async () => {
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

  test('is nothing but a text or an array of texts', async () => {
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

describe('the issuer', () => {
  test('is that text letter by letter; no key of another is asked for', async () => {
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
      const keys = countedKeys();
      assert.equal(await reasonOf(withClaims({ iss }), { keys }), 'issuer', JSON.stringify(iss));
      assert.deepEqual(keys.asked, []);
    }
  });

  test('is a text', async () => {
    for (const iss of [undefined, null, 0, true, {}, [], [issuer], [[issuer]], { iss: issuer }]) {
      const keys = countedKeys();
      assert.equal(await reasonOf(withClaims({ iss }), { keys }), 'malformed', JSON.stringify(iss));
      assert.deepEqual(keys.asked, []);
    }
  });
});

describe('the times', () => {
  test('that are no finite numbers make a token that means nothing', async () => {
    const strange = ['null', '"soon"', `"${nowSeconds + 60}"`, '""', 'true', '[]', '{}', '1e999'];
    strange.push(`[${nowSeconds + 60}]`, '-1e999', `{"valueOf":${nowSeconds + 60}}`);
    // These are no JSON.
    strange.push('NaN', 'Infinity', '-Infinity', '0x7fffffff', '+1', '01', '1_000', `${now}n`);
    for (const value of strange) {
      for (const name of ['exp', 'nbf']) {
        const token = compact(goodHeader, textWith(`"${name}":${value}`));
        assert.equal(await reasonOf(token), 'malformed', `${name} ${value}`);
      }
    }
    assert.equal(await reasonOf(withClaims({ exp: undefined })), 'malformed');
  });

  test('a token ends 5 s after exp, to the millisecond', async () => {
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

  test('a token begins 5 s before nbf, to the millisecond', async () => {
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

  test('a number is a number, be it negative, tiny or huge', async () => {
    for (const exp of [0, -0, -1, 1, -1e300, 1e-300, nowSeconds / 1000]) {
      assert.equal(await reasonOf(withClaims({ exp })), 'expired', String(exp));
    }
    // How long its tokens live is the issuer's business, also when it counts in milliseconds.
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

  test('iat decides nothing, not even in the future', async () => {
    // RFC 7519 section 4.1.6 gives it no say: who wants a later beginning writes nbf.
    for (const iat of [nowSeconds + 1e6, 0, -1, 'yesterday', null, [], 1e300]) {
      assert.equal(await reasonOf(withClaims({ iat })), 'valid', JSON.stringify(iat));
    }
  });
});

describe('the payload', () => {
  test('is a JSON object in UTF-8', async () => {
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
      // A byte too many for a character, and a half of a surrogate pair.
      Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
      Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
    ];
    for (const payload of others) {
      const keys = countedKeys();
      const reason = await reasonOf(compact(goodHeader, payload), { keys });
      assert.equal(reason, 'malformed', payload.toString().slice(0, 40));
      assert.deepEqual(keys.asked, []);
    }
  });

  test('reads the same with what JSON and its decoder overlook', async () => {
    const plain = await claimsOf(goodClaims);
    const text = JSON.stringify(goodClaims);
    const escaped = text.replace('client', String.raw`\u0063lient`).replace('"iss"', '"\\u0069ss"');
    // The byte order mark is dropped by the decoder (RFC 8259 section 8.1 allows it).
    for (const payload of [`\ufeff${text}`, ` \t\r\n${text} `, escaped]) {
      assert.deepEqual(await claimsOf(payload), plain, payload.slice(0, 20));
    }
  });

  test('written with a claim twice counts the last, for the check and for what is checked', async () => {
    // There is one reading, by JSON.parse, and what was judged is what is handed out. An issuer
    // that writes so has signed both; nobody else can add a second one to its tokens.
    const last: readonly [member: string, reason: string][] = [
      ['"iss":"https://evil.example.com/"', 'issuer'],
      ['"aud":"https://evil.example.com"', 'audience'],
      [`"exp":${nowSeconds - 60}`, 'expired'],
      [`"nbf":${nowSeconds + 60}`, 'not_yet'],
      ['"iss":null', 'malformed'],
      [String.raw`"\u0069ss":"https://evil.example.com/"`, 'issuer'],
    ];
    for (const [member, reason] of last) {
      assert.equal(await reasonOf(compact(goodHeader, textWith(member))), reason, member);
    }
    const evil = '{"iss":"https://evil.example.com/","aud":"x","exp":1,"azp":"evil",';
    const first = evil + JSON.stringify(goodClaims).slice(1);
    assert.deepEqual(await claimsOf(first), await claimsOf(goodClaims));
    const twice = await claimsOf(textWith('"permissions":["all"],"permissions":[],"azp":"other"'));
    assert.deepEqual([twice.permissions, twice.clientId], [[], 'other']);
  });

  test('inherits nothing: a claim is its own member or absent', async () => {
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

describe('the permissions', () => {
  const wanted = 'read:messages';
  test('are an array of texts or nothing', async () => {
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

  test('are not found in scope, nor under any other name', async () => {
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
