import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { Agent, get, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { after, before, beforeEach, describe, test } from 'node:test';
import { hasAll } from '../../src/messages/messages.ts';
import { createMessageServer, type MessageServer } from '../../src/messages/server.ts';
import {
  audience,
  compact,
  type RecordedKeys,
  recordedKeys,
  goodClaims,
  goodHeader,
  issuer,
  nowSeconds,
  issuerKeys,
  type Part,
  rs256,
  type Signing,
  foreignKeys,
} from '../auth/token-forge.ts';
import { createManualClock } from '../helpers/clock.ts';
import { connections } from './fixture.ts';
import { type RawResponse, exchange } from '../helpers/exchange.ts';

const permission = 'read:admin-messages';
const adminClaims = { ...goodClaims, permissions: [permission] };
const token = adminToken();

let server: MessageServer;
let port: number;
let keys: RecordedKeys;
let reported: unknown[];

before(async () => {
  keys = recordedKeys();
  reported = [];
  server = createMessageServer({
    origin: 'http://localhost:4040',
    trust: { issuer, audience, keys },
    connections,
    keepAliveSeconds: 650,
    log: { warn: (fields) => assert.fail(JSON.stringify(fields)) },
    clock: createManualClock(),
    report: (error) => reported.push(error),
  });
  port = await server.listen({ host: '127.0.0.1', port: 0 });
});
after(async () => {
  await server.close();
  assert.deepEqual(reported, [], 'no attack causes a failure');
});
beforeEach(() => {
  keys.lookups.length = 0;
});

function adminToken(claims: object = {}, header: object = {}, signing?: Signing): string {
  return compact({ ...goodHeader, ...header }, { ...adminClaims, ...claims }, signing);
}

/** The responses by kind: status, challenge and message. */
type Kind = keyof typeof responses;
const responses = {
  accepted: '200  This is an admin message.',
  missing: '401 Bearer Requires authentication',
  malformed: '401 Bearer error="invalid_request" Bad credentials (invalid_request)',
  otherScheme: '401 Bearer error="invalid_request" Bad credentials',
  badToken: '401 Bearer error="invalid_token" Bad credentials',
  denied: `403 Bearer error="insufficient_scope", scope="${permission}" Permission denied`,
  invalidRequest: '400  Bad Request',
};

function kindOf({ status, headers, body }: RawResponse): string {
  const content = JSON.parse(body) as Readonly<Record<string, string>>;
  const error = content['error'] === undefined ? '' : ` (${content['error']})`;
  const challenge = headers['www-authenticate'] ?? '';
  const line = `${status} ${challenge} ${content['message'] ?? content['text']}${error}`;
  return Object.entries(responses).find(([, known]) => known === line)?.[0] ?? line;
}

/**
 * Requests the admin message with these header lines, each character a byte, in both ways: as it is,
 * which the fast path may parse, and with two blanks before a value, which Node's server parses.
 */
async function send(lines: string, target = '/api/messages/admin'): Promise<string> {
  const ways = ['', 'A:  b\r\n'].map((unusual) => {
    const request = `GET ${target} HTTP/1.1\r\nHost: x\r\n${unusual}${lines}\r\n\r\n`;
    return exchange(port, Buffer.from(request, 'latin1'));
  });
  const kinds = (await Promise.all(ways)).map(kindOf);
  assert.equal(kinds[0], kinds[1], 'both ways respond alike');
  return kinds[0] ?? '';
}

function bearer(sent: string): Promise<string> {
  return send(`Authorization: Bearer ${sent}`);
}

/** Returns the UTF-8 bytes of a text, each as one character. */
function utf8(characters: string): string {
  return Buffer.from(characters).toString('latin1');
}

/** Asserts the kind of response to each request. */
async function expectAll(kind: Kind, requests: readonly string[]): Promise<void> {
  const kinds = await Promise.all(requests.map((lines) => send(lines)));
  for (const [index, lines] of requests.entries()) {
    assert.equal(kinds[index], kind, JSON.stringify(lines.replaceAll(token, '<token>')));
  }
}

describe('Authorization header', () => {
  test('a valid token is accepted with blanks where they are allowed', () =>
    expectAll('accepted', [
      `Authorization: Bearer ${token}`,
      `AUTHORIZATION:bEARER ${token}`,
      `authorization: bearer    ${token}   `,
      // Blanks and tabs around a value are not part of it (RFC 9110 section 5.5).
      `Authorization:\tBearer ${token}\t`,
      `Authorization: \t BEARER ${token} \t `,
    ]));

  const blanks = [
    '\t',
    '\xa0',
    '\x85',
    '\xad',
    ...['\u00a0', '\u2003', '\u3000', '\u200b', '\ufeff'].map(utf8),
  ];

  test('an Authorization header with another blank than U+0020 is malformed', () =>
    expectAll(
      'malformed',
      blanks.map((blank) => `Authorization: Bearer${blank}${token}`),
    ));

  test('an Authorization header with more or fewer than two parts is malformed', () =>
    expectAll('malformed', [
      `Authorization: Bearer \t ${token}`,
      `Authorization: Bearer ${token} x`,
      `Authorization: Bearer ${token} ${token}`,
      `Authorization: Bearer ${token}, Bearer ${token}`,
      `Authorization: Bearer ${token} , `,
      `Authorization: ${token}`,
      `Authorization: Bearer=${token}`,
      `Authorization: Bearer${token}`,
      'Authorization: Bearer',
      'Authorization: bearer   ',
      'Authorization: ,',
    ]));

  test('a valid token with anything added to it is rejected', () => {
    const within = blanks.flatMap((blank) => [
      `${blank}${token}`,
      token.slice(0, -9) + blank + token.slice(-9),
      `x${token}${blank}x`,
    ]);
    const around = [
      `${token}=`,
      `${token},`,
      `${token},${token}`,
      `"${token}"`,
      `<${token}>`,
      `token=${token}`,
      `${token}.`,
      `%20${token}`,
      `${token}%00`,
      `${token}\xa0`,
    ];
    return expectAll(
      'badToken',
      [...within, ...around].map((other) => `Authorization: Bearer ${other}`),
    );
  });

  test('any other scheme is rejected', () => {
    const schemes = ['Basic', 'DPoP', 'Digest', 'Token', 'JWT', 'OAuth', 'Bearer:', 'Bearers'];
    const alike = ['Bear', '"Bearer"', 'Bearer,', '\xa0Bearer', utf8('B\u0435arer')];
    return expectAll(
      'otherScheme',
      [...schemes, ...alike].map((scheme) => `Authorization: ${scheme} ${token}`),
    );
  });

  test('two Authorization headers are malformed, in any order and spelling', () => {
    const good = `Authorization: Bearer ${token}`;
    const others = [good, 'Authorization:', 'authorization: Bearer x', 'AUTHORIZATION: Basic eDp5'];
    return expectAll(
      'malformed',
      others.flatMap((other) => [
        `${good}\r\n${other}`,
        `${other}\r\n${good}`,
        `${good}\r\nX: y\r\n${other}`,
      ]),
    );
  });

  test('a control character in the header makes the request invalid', () => {
    const controls = ['\0', '\x01', '\v', '\f', '\x1f', '\x7f', '\r', '\n'];
    return expectAll(
      'invalidRequest',
      controls.flatMap((control) => [
        `Authorization:${control}Bearer ${token}`,
        `Authorization: Bearer${control}${token}`,
        `Authorization: Bearer ${control}${token}`,
        `Authorization: Bearer ${token}${control}`,
        `Authorization${control}: Bearer ${token}`,
      ]),
    );
  });

  test('a folded line or a blank before the colon makes the request invalid', () =>
    expectAll('invalidRequest', [
      `Authorization: Bearer\r\n ${token}`,
      `Authorization:\r\n\tBearer ${token}`,
      `Authorization: Bearer ${token}\r\n `,
      `X: y\r\n Authorization: Bearer ${token}`,
      `Authorization : Bearer ${token}`,
      ` Authorization: Bearer ${token}`,
      `Authorization\r\n: Bearer ${token}`,
    ]));

  test('a token in another header, or an empty Authorization, counts as missing', () => {
    const names = ['Proxy-Authorization', 'X-Authorization', 'Authorization_', 'Authorizations'];
    const more = ['HTTP_AUTHORIZATION', 'X-Forwarded-Authorization', 'X-Access-Token', 'Bearer'];
    return expectAll('missing', [
      ...[...names, ...more].map((name) => `${name}: Bearer ${token}`),
      `Cookie: access_token=${token}; Authorization=Bearer ${token}`,
      'Authorization:',
      'Authorization:     ',
      'Authorization: \t ',
    ]);
  });
});

describe('token outside the header', () => {
  test('a token in the query is ignored, with and without an Authorization header', async () => {
    for (const query of [`access_token=${token}`, `Authorization=Bearer%20${token}`, token]) {
      assert.equal(await send('A: b', `/api/messages/admin?${query}`), 'missing');
      const authorization = 'Authorization: Bearer x';
      assert.equal(await send(authorization, `/api/messages/admin?${query}`), 'badToken');
    }
  });

  test('a token in the body is ignored (RFC 6750 section 2.2)', async () => {
    const body = `access_token=${token}`;
    const type = 'Content-Type: application/x-www-form-urlencoded';
    const length = `Content-Length: ${body.length}`;
    const request = `GET /api/messages/admin HTTP/1.1\r\nHost: x\r\n${type}\r\n${length}\r\n\r\n`;
    assert.equal(kindOf(await exchange(port, request + body)), 'missing');
  });

  test('headers cannot override path, method or host', async () => {
    for (const line of [
      'X-Original-URL: /api/messages/public',
      'X-Rewrite-URL: /api/messages/public',
      'X-HTTP-Method-Override: OPTIONS',
      'X-Forwarded-Path: /api/messages/public',
      'X-Forwarded-For: 127.0.0.1',
      'X-Forwarded-User: admin',
    ]) {
      assert.equal(await send(line), 'missing', line);
    }
    assert.equal(await send('A: b', '/api/messages/admin#/api/messages/public'), '404  Not Found');
  });
});

describe('forged token over HTTP', () => {
  const jwk = foreignKeys.publicKey.export({ format: 'jwk' });
  const pem = issuerKeys.publicKey.export({ type: 'spki', format: 'pem' });
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const mac: Signing = (signed) => createHmac('sha256', pem).update(signed).digest();
  const byCurve: Signing = (signed) =>
    sign('sha256', Buffer.from(signed), { key: ec, dsaEncoding: 'ieee-p1363' });
  const byForeignKey = rs256(foreignKeys.privateKey);
  const raw = (payload: Part): string => compact(goodHeader, payload);

  const forgeries: Readonly<Record<string, string>> = {
    'without an algorithm': adminToken({}, { alg: 'none' }, () => ''),
    'with a MAC': adminToken({}, { alg: 'HS256' }, mac),
    'with a MAC as a signature': adminToken({}, {}, mac),
    'with a signature of another kind': adminToken({}, {}, byCurve),
    'with the signature of another key': adminToken({}, {}, byForeignKey),
    'with its own key': adminToken({}, { jwk }, byForeignKey),
    'with the URL of its own key': adminToken({}, { jku: 'http://127.0.0.1:1/' }, byForeignKey),
    'with another kid': adminToken({}, { kid: '../own' }),
    'with no kid': adminToken({}, { kid: undefined }),
    'with crit': adminToken({}, { crit: ['exp'] }),
    'of another issuer': adminToken({ iss: issuer.slice(0, -1) }),
    'of several issuers': adminToken({ iss: [issuer] }),
    'for another audience': adminToken({ aud: `${audience}/` }),
    'for no audience': adminToken({ aud: [] }),
    'that has expired': adminToken({ exp: nowSeconds - 5 }),
    'without an expiry': adminToken({ exp: undefined }),
    'with an infinite expiry': raw(JSON.stringify(adminClaims).replace(/"exp":\d+/, '"exp":1e999')),
    'that is not valid yet': adminToken({ nbf: nowSeconds + 6 }),
    'without claims': raw('null'),
    'of two audiences, the wrong one last': raw(
      `${JSON.stringify(adminClaims).slice(0, -1)},"aud":"x"}`,
    ),
    'of five parts': `${token}.AA.AA`,
    'of two parts': token.slice(0, token.lastIndexOf('.')),
    'without a signature': token.slice(0, token.lastIndexOf('.') + 1),
    'of dots only': '..',
  };
  for (const [name, forged] of Object.entries(forgeries)) {
    test(`a token ${name} is rejected`, async () => {
      assert.equal(await bearer(forged), 'badToken');
    });
  }

  test('rejecting a forgery does not affect the token it was made from', async () => {
    assert.equal(await bearer(token), 'accepted');
    assert.equal(await bearer(`${token.slice(0, -8)}AAAAAAAA`), 'badToken');
    assert.equal(await bearer(token), 'accepted');
  });

  test(
    'thousands of forged tokens cause no key lookup, and the valid token stays valid',
    { tags: ['long'] },
    async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 8 });
      const statusOf = async (index: number): Promise<number | undefined> => {
        const bad = adminToken({}, { alg: 'none', index }, () => 'AAAA');
        const { statusCode } = await requestAdmin(`Bearer ${bad}`, agent);
        return statusCode;
      };
      const statuses = await Promise.all(
        Array.from({ length: 2_000 }, (_, index) => statusOf(index)),
      );
      agent.destroy();
      assert.deepEqual(new Set(statuses), new Set([401]));
      assert.deepEqual(keys.lookups, []);
      assert.equal(await bearer(token), 'accepted');
    },
  );
});

async function requestAdmin(authorization: string, agent: Agent): Promise<IncomingMessage> {
  const url = `http://127.0.0.1:${port}/api/messages/admin`;
  const httpRequest = get(url, { agent, headers: { authorization } });
  const [response] = (await once(httpRequest, 'response')) as [IncomingMessage];
  await text(response);
  return response;
}

describe('oversized token', () => {
  test('a token of more than 12,288 characters is rejected, and the connection stays open', async (t) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    const ports = new Set<number | undefined>();
    const filled = adminToken({ filler: 'x'.repeat(10_000) });
    for (const [sent, status] of [
      [token, 200],
      ['x'.repeat(12_289), 401],
      [token, 200],
      [filled, 401],
      ['.'.repeat(15_000), 401],
      [token, 200],
    ] as const) {
      const httpRequest = get(`http://127.0.0.1:${port}/api/messages/admin`, {
        agent,
        headers: { authorization: `Bearer ${sent}` },
      });
      const [response] = (await once(httpRequest, 'response')) as [IncomingMessage];
      ports.add(httpRequest.socket?.localPort);
      await text(response);
      assert.equal(response.statusCode, status, String(sent.length));
    }
    assert.ok(filled.length > 12_288);
    assert.equal(ports.size, 1, 'all requests used one connection');
  });

  test('a header over 16 KiB gets 431, and the server keeps working', async () => {
    for (const length of [16_384, 100_000, 1_000_000]) {
      const line = `Authorization: Bearer ${'x'.repeat(length)}`;
      const request = `GET /api/messages/admin HTTP/1.1\r\nHost: x\r\n${line}\r\n\r\n`;
      const { status, headers } = await exchange(port, request);
      assert.deepEqual([status, headers['connection']], [431, 'close'], String(length));
      assert.equal(await bearer(token), 'accepted');
    }
  });
});

describe('permission', () => {
  const lookalikes = [
    '',
    ' ',
    '*',
    'read:*',
    'admin',
    'read:messages',
    permission.toUpperCase(),
    'Read:admin-messages',
    'read:Admin-Messages',
    ` ${permission}`,
    `${permission} `,
    `${permission}\0`,
    `${permission}\n`,
    `${permission}s`,
    `x${permission}`,
    permission.slice(0, -1),
    permission.slice(1),
    permission.replace('-', '_'),
    permission.replace('-', '\u2010'),
    permission.replace('-', '\u00ad-'),
    permission.replace(':', '\uff1a'),
    permission.replace(':', '.'),
    permission.replace('a', '\u0430'),
    permission.replace('e', '\u0435'),
    permission.replace('r', '\u{1d42b}'),
    permission.replace('e', 'e\u0301'),
    permission.replace(':', ':\u200b'),
    `\ufeff${permission}`,
    `${permission},other`,
    `other ${permission}`,
    JSON.stringify([permission]),
    'read%3Aadmin-messages',
  ];

  test('similar permissions are denied', async () => {
    for (const one of lookalikes) {
      const name = JSON.stringify(one);
      assert.equal(await bearer(adminToken({ permissions: [one] })), 'denied', name);
    }
    assert.equal(await bearer(adminToken({ permissions: lookalikes })), 'denied');
    assert.equal(
      await bearer(adminToken({ permissions: [...lookalikes, permission] })),
      'accepted',
    );
  });

  test('a permission counts only in an array of strings', async () => {
    const others = [
      undefined,
      null,
      [],
      permission,
      `x ${permission}`,
      true,
      1,
      {},
      { [permission]: true },
      { 0: permission, length: 1 },
      { permissions: [permission] },
      [[permission]],
      [{ name: permission }],
      [permission, 7],
      [permission, null],
      [permission, [permission]],
    ];
    for (const permissions of others) {
      const weak = adminToken({ permissions });
      assert.equal(await bearer(weak), 'denied', JSON.stringify(permissions));
    }
  });

  test('a permission in scope or another claim does not count', async () => {
    const elsewhere = {
      scope: permission,
      scp: [permission],
      scopes: [permission],
      Permissions: [permission],
      permission: [permission],
      roles: ['messages-admin', permission],
      [`${issuer}permissions`]: [permission],
    };
    for (const permissions of [undefined, []]) {
      assert.equal(await bearer(adminToken({ ...elsewhere, permissions })), 'denied');
    }
    const { permissions, ...poor } = adminClaims;
    const inherited = JSON.stringify({ permissions });
    const payload = `${JSON.stringify(poor).slice(0, -1)},"__proto__":${inherited}}`;
    assert.equal(await bearer(compact(goodHeader, payload)), 'denied');
  });

  test('permission of a repeated permissions claim the last one counts', async () => {
    const first = `{"permissions":["${permission}"],"permissions":[],`;
    const claims = JSON.stringify({ ...adminClaims, permissions: undefined }).slice(1);
    assert.equal(await bearer(compact(goodHeader, first + claims)), 'denied');
  });

  test('hasAll: false for an empty list of required permissions', () => {
    for (const held of [undefined, [], [''], [permission], lookalikes]) {
      assert.equal(hasAll(held, []), false);
    }
    assert.equal(hasAll([permission], [permission]), true);
    assert.equal(hasAll([permission], [permission, 'other']), false);
    assert.equal(hasAll(lookalikes, [permission]), false);
  });
});
