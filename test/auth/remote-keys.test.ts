import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import { exportJWK, type JWK, SignJWT } from 'jose';
import { createRemoteKeys, createTrustedIssuers, keySetAt } from '../../src/auth/remote-keys.ts';
import type { FoundKey, KeySource } from '../../src/auth/signature.ts';
import type { Authentication } from '../../src/auth/verify.ts';
import { waitFor } from '../helpers/wait.ts';
import { openAuthFixture } from './fixture.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** An authorization server whose responses a test can replace. */
interface RemoteServer {
  readonly issuer: string;
  /** Requested paths, oldest first. */
  readonly requests: string[];
  handlers: Record<string, (response: ServerResponse) => void>;
  close(): Promise<void>;
}

let pairs: { privateKey: KeyObject; publicKey: KeyObject }[];
let jwks: JWK[];
let remote: RemoteServer;
let clock: ManualClock;
let reported: unknown[];

before(async () => {
  pairs = [1, 2].map(() => generateKeyPairSync('rsa', { modulusLength: 2048 }));
  jwks = await Promise.all(
    pairs.map(async ({ publicKey }, index) => ({
      ...(await exportJWK(publicKey)),
      kid: `key ${index}`,
    })),
  );
});
beforeEach(async () => {
  remote = await openRemoteServer();
  clock = createManualClock();
  reported = [];
});
afterEach(() => remote.close());

async function openRemoteServer(): Promise<RemoteServer> {
  const requests: string[] = [];
  const server: Server = createServer((request, response) => {
    requests.push(request.url ?? '');
    const handler = opened.handlers[request.url ?? ''];
    if (handler === undefined) response.writeHead(404).end();
    else handler(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const issuer = `http://127.0.0.1:${port}/`;
  const opened: RemoteServer = {
    issuer,
    requests,
    handlers: {
      '/.well-known/openid-configuration': json({ issuer, jwks_uri: `${issuer}keys` }),
      '/keys': json({ keys: jwks.slice(0, 1) }),
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
  return opened;
}

function json(value: unknown): (response: ServerResponse) => void {
  return (response) =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
}

function deps(): Parameters<typeof createRemoteKeys>[0] {
  return { fetch, clock, report: (error) => reported.push(error) };
}

function keysAt(): KeySource {
  return createRemoteKeys(deps(), keySetAt(`${remote.issuer}keys`));
}

/** Returns the index of the key that was found, or why there is none. */
async function find(
  source: KeySource,
  kid: string,
): Promise<number | Exclude<FoundKey, KeyObject>> {
  const key = await source.keyFor(kid, clock.now());
  if (key === undefined || key === 'unavailable') return key;
  return pairs.findIndex(({ publicKey }) => publicKey.equals(key));
}

const breakKeys = (): void => {
  remote.handlers['/keys'] = (response) => void response.writeHead(500).end();
};

describe('remote keys', () => {
  test('remote keys: fetched for the first token, then cached', async () => {
    const source = keysAt();
    assert.deepEqual(remote.requests, []);
    assert.equal(await find(source, 'key 0'), 0);
    assert.equal(await find(source, 'key 0'), 0);
    assert.deepEqual(remote.requests, ['/keys']);
    assert.ok(!(source.keyFor('key 0', clock.now()) instanceof Promise));
  });

  test('remote keys: concurrent callers share one fetch', async () => {
    const source = keysAt();
    await Promise.all(Array.from({ length: 50 }, () => find(source, 'key 0')));
    assert.deepEqual(remote.requests, ['/keys']);
  });

  test('remote keys: refreshed in the background when older than 10 minutes', async () => {
    const source = keysAt();
    await find(source, 'key 0');
    clock.move(10 * MINUTE_MS - 1);
    await find(source, 'key 0');
    assert.equal(remote.requests.length, 1);
    remote.handlers['/keys'] = json({ keys: [jwks[1]] });
    clock.move(1);
    assert.ok(
      !(source.keyFor('key 0', clock.now()) instanceof Promise),
      'returned without a promise',
    );
    await waitFor('the key', () => source.keyFor('key 1', clock.now()) !== undefined);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(await find(source, 'key 0'), undefined);
  });

  test('remote keys: a key that is not for verifying is ignored', async () => {
    const [key] = jwks;
    const cases: [fields: object, found: number | undefined][] = [
      [{ key_ops: ['encrypt'] }, undefined],
      [{ key_ops: [] }, undefined],
      [{ key_ops: 'verify' }, undefined],
      [{ key_ops: ['sign', 'verify'] }, 0],
      [{ use: 'enc' }, undefined],
      [{ use: 'sig', key_ops: ['verify'], x5c: ['x'], further: 1 }, 0],
    ];
    for (const [fields, found] of cases) {
      remote.handlers['/keys'] = json({ keys: [{ ...key, ...fields }] });
      assert.equal(await find(keysAt(), 'key 0'), found, JSON.stringify(fields));
    }
  });

  test('remote keys: a token without kid has the key without one, or the only key', async () => {
    const [first = {}, second = {}] = jwks;
    const unnamed = { ...second, kid: undefined };
    const sets: [keys: object[], found: number | undefined][] = [
      [[first], 0],
      [[first, { ...second, use: 'enc' }], 0],
      [[first, second], undefined],
      [[first, unnamed], 1],
      [[unnamed, { ...first, kid: undefined }], 1],
    ];
    for (const [keys, found] of sets) {
      remote.handlers['/keys'] = json({ keys });
      assert.equal(await find(keysAt(), ''), found, JSON.stringify(keys.length));
    }
  });

  test('remote keys: an unchanged key keeps its object after a refresh', async () => {
    const source = keysAt();
    const key = await source.keyFor('key 0', clock.now());
    remote.handlers['/keys'] = json({ keys: jwks.toReversed() });
    clock.move(30_000);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(source.keyFor('key 0', clock.now()), key);
  });

  test('remote keys: used for 24 hours while fetching fails, and not longer', async () => {
    const source = keysAt();
    await find(source, 'key 0');
    breakKeys();
    clock.move(24 * HOUR_MS - 1);
    assert.equal(await find(source, 'key 0'), 0);
    await waitFor('the report', () => reported.length === 1);
    clock.move(30_000);
    assert.equal(await find(source, 'key 0'), 'unavailable');
    assert.match(String(reported.at(-1)), /\/keys: status 500/);
  });

  test('remote keys: unknown kids trigger at most one fetch in 30 s', async () => {
    const source = keysAt();
    await find(source, 'key 0');
    for (let index = 0; index < 100; index += 1) {
      assert.equal(await find(source, `invented ${index}`), undefined);
    }
    assert.equal(remote.requests.length, 1);
    remote.handlers['/keys'] = json({ keys: jwks });
    clock.move(29_999);
    assert.equal(await find(source, 'key 1'), undefined);
    clock.move(1);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(remote.requests.length, 2);
  });

  test('remote keys: unavailable, not unknown, while the server cannot be reached', async () => {
    const source = keysAt();
    breakKeys();
    assert.equal(await find(source, 'key 0'), 'unavailable');
    assert.equal(await find(source, 'key 0'), 'unavailable');
    assert.equal(remote.requests.length, 1, 'one fetch per second');
    remote.handlers['/keys'] = json({ keys: jwks });
    clock.move(1_000);
    assert.equal(await find(source, 'key 0'), 0);
    breakKeys();
    clock.move(30_000);
    assert.equal(await find(source, 'unknown'), 'unavailable');
    assert.equal(await find(source, 'key 0'), 0);
  });
});

describe('bad key set', () => {
  const filler = 'x'.repeat(300_000);
  const bad: [name: string, handler: (response: ServerResponse) => void, why: RegExp][] = [
    ['is not JSON', (response) => response.end('<html>'), /JSON/],
    ['has no keys', json({}), /no keys/],
    ['is null', json(null), /no keys/],
    [
      'has too many keys',
      json({ keys: Array.from({ length: 101 }, Object) }),
      /more than 100 keys/,
    ],
    ['is too large', json({ keys: [], filler }), /more than 262144 bytes/],
    ['is not UTF-8', (response) => response.end(Buffer.from([0x22, 0xff, 0x22])), /keys: /],
    [
      'redirects',
      (response) => response.writeHead(302, { location: '/elsewhere' }).end(),
      /keys: /,
    ],
    ['is missing (404)', (response) => response.writeHead(404).end(), /status 404/],
    ['breaks off', (response) => void response.write('{', () => response.destroy()), /keys: /],
  ];
  for (const [name, handler, why] of bad) {
    test(`a key set that ${name}: no key of it is used`, async () => {
      remote.handlers['/keys'] = handler;
      assert.equal(await find(keysAt(), 'key 0'), 'unavailable');
      assert.equal(reported.length, 1);
      assert.match(String(reported[0]), why);
      assert.deepEqual(remote.requests, ['/keys'], 'no other path is requested');
    });
  }

  test('a key set that never ends, or never begins, times out after 5 s', async () => {
    for (const handler of [
      () => {},
      (response: ServerResponse) => void response.write('{"keys":['),
    ]) {
      remote.handlers['/keys'] = handler;
      const requestsBefore = remote.requests.length;
      const found = find(keysAt(), 'key 0');
      await waitFor('the request', () => remote.requests.length > requestsBefore);
      clock.move(5_000);
      assert.equal(await found, 'unavailable');
      assert.match(String(reported.at(-1)), /no response within 5000 ms/);
    }
  });

  test('a key set with keys that cannot verify RS256: only the others are used', async () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
    const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
    const [good = {}] = jwks;
    remote.handlers['/keys'] = json({
      keys: [
        null,
        7,
        { kid: 'empty' },
        { ...(await exportJWK(small)), kid: 'small' },
        { ...(await exportJWK(ec)), kid: 'ec' },
        { kty: 'oct', k: 'c2VjcmV0', kid: 'oct' },
        { ...good, kid: 'encrypts', use: 'enc' },
        { ...good, kid: 'other alg', alg: 'RS512' },
        { ...good, kid: 'broken', n: '!!' },
        { ...good, kid: 7 },
        good,
        { ...jwks[1], kid: 'key 0' },
      ],
    });
    const source = keysAt();
    assert.equal(await find(source, 'key 0'), 0, 'the first key with a kid counts');
    for (const kid of ['empty', 'small', 'ec', 'oct', 'encrypts', 'other alg', 'broken', '7']) {
      assert.equal(await find(source, kid), undefined, kid);
    }
  });
});

describe('trusted issuer', () => {
  const sourceOf = (issuer: string): KeySource => {
    const source = createTrustedIssuers(deps(), [issuer]).get(issuer);
    return source ?? assert.fail('no such issuer');
  };

  test('trusted issuer: the discovery document locates its keys', async () => {
    assert.equal(await find(sourceOf(remote.issuer), 'key 0'), 0);
    assert.deepEqual(remote.requests, ['/.well-known/openid-configuration', '/keys']);
  });

  test('trusted issuer: a document of another issuer or without a valid URL makes keys unavailable', async () => {
    const { issuer } = remote;
    for (const document of [
      { issuer: issuer.slice(0, -1), jwks_uri: `${issuer}keys` },
      { issuer: 'https://other.example.com/', jwks_uri: `${issuer}keys` },
      { issuer },
      { issuer, jwks_uri: '/keys' },
      { issuer, jwks_uri: 'file:///etc/passwd' },
      { issuer, jwks_uri: [`${issuer}keys`] },
      { issuer, jwks_uri: `${issuer}keys?${'x'.repeat(2048)}` },
      null,
      [],
    ]) {
      remote.handlers['/.well-known/openid-configuration'] = json(document);
      assert.equal(await find(sourceOf(issuer), 'key 0'), 'unavailable', JSON.stringify(document));
    }
    assert.ok(!remote.requests.includes('/keys'));
  });
});

describe('token of a trusted issuer', () => {
  let fixture: Awaited<ReturnType<typeof openAuthFixture>>;
  beforeEach(async () => {
    const trusted = createTrustedIssuers(deps(), [remote.issuer]);
    fixture = await openAuthFixture({ trusted });
    await fixture.client({ id: 'partner', issuer: remote.issuer, secretHash: undefined });
  });
  afterEach(() => fixture.close());

  async function send(claims: object, header: object = {}): Promise<Authentication> {
    const { privateKey } = pairs[0] ?? assert.fail('no key');
    const token = await new SignJWT({
      iss: remote.issuer,
      aud: 'https://leat.example.com/api/v2/',
      azp: 'partner',
      exp: Math.floor(fixture.clock.now() / 1000) + 60,
      scope: 'read:users',
      ...claims,
    })
      .setProtectedHeader({ alg: 'RS256', kid: 'key 0', ...header })
      .sign(privateKey);
    return fixture.verifier.verify(fixture.tenant, `Bearer ${token}`, fixture.clock.now());
  }
  const globalOf = (authentication: Authentication): boolean | string =>
    authentication.kind === 'verified' ? authentication.token.global : authentication.kind;

  test('a token of a trusted issuer authenticates a client registered with that issuer', async () => {
    const authentication = await send({});
    assert.ok(authentication.kind === 'verified');
    const { clientId, scopes, global, bucket } = authentication.token;
    assert.deepEqual([clientId, scopes, global], ['partner', ['read:users'], true]);
    assert.notEqual(bucket, 'partner', 'shares no bucket with a client of Leat');
  });

  test('a token of a trusted issuer may name its client by client_id when azp is missing', async () => {
    assert.equal(globalOf(await send({ azp: undefined, client_id: 'partner' })), true);
    assert.equal(globalOf(await send({ azp: 'other', client_id: 'partner' })), false);
  });

  test('a token of a trusted issuer never authenticates a client of Leat or another issuer', async () => {
    await fixture.client({ id: 'elsewhere', issuer: 'https://other.example.com/' });
    for (const azp of [fixture.manager.clientId, 'elsewhere', 'nobody']) {
      assert.equal(globalOf(await send({ azp })), false, azp);
    }
  });

  test('a token of a trusted issuer is rejected with another audience, issuer or key', async () => {
    assert.match(JSON.stringify(await send({ aud: 'other' })), /Bad audience: other, expected/);
    assert.match(
      JSON.stringify(await send({ iss: 'https://unknown.example.com/' })),
      /"Invalid token: its issuer is neither https:\/\/leat\.example\.com\/ nor one that is trusted;/,
    );
    const message = 'Invalid signature received for JSON Web Token validation';
    assert.deepEqual(await send({}, { kid: 'key 1' }), { kind: 'invalid', message });
    assert.deepEqual(await send({ iss: 'https://leat.example.com/' }), {
      kind: 'invalid',
      message,
    });
  });

  test('a token of a trusted issuer cannot be verified while keys are unavailable; an expired one is expired', async () => {
    breakKeys();
    assert.deepEqual(await send({}), { kind: 'unverifiable' });
    assert.match(JSON.stringify(await send({ exp: 1 })), /Expired token/);
  });
});
