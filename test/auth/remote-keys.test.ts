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
import { type HandClock, handClock, openHouse } from './fixture.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** An authorization server of somebody else, as good or as bad as a test wants it. */
interface Stranger {
  readonly issuer: string;
  /** Paths that were asked for, oldest first. */
  readonly asked: string[];
  answers: Record<string, (reply: ServerResponse) => void>;
  close(): Promise<void>;
}

let pairs: { privateKey: KeyObject; publicKey: KeyObject }[];
let jwks: JWK[];
let stranger: Stranger;
let clock: HandClock;
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
  stranger = await openStranger();
  clock = handClock();
  reported = [];
});
afterEach(() => stranger.close());

async function openStranger(): Promise<Stranger> {
  const asked: string[] = [];
  const server: Server = createServer((request, reply) => {
    asked.push(request.url ?? '');
    const answer = opened.answers[request.url ?? ''];
    if (answer === undefined) reply.writeHead(404).end();
    else answer(reply);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const issuer = `http://127.0.0.1:${port}/`;
  const opened: Stranger = {
    issuer,
    asked,
    answers: {
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

function json(value: unknown): (reply: ServerResponse) => void {
  return (reply) => reply.setHeader('content-type', 'application/json').end(JSON.stringify(value));
}

function deps(): Parameters<typeof createRemoteKeys>[0] {
  return { fetch, clock, report: (error) => reported.push(error) };
}

function keysAt(): KeySource {
  return createRemoteKeys(deps(), keySetAt(`${stranger.issuer}keys`));
}

/** Which of the known keys was found. */
async function find(
  source: KeySource,
  kid: string,
): Promise<number | Exclude<FoundKey, KeyObject>> {
  const key = await source.keyFor(kid, clock.now());
  if (key === undefined || key === 'unavailable') return key;
  return pairs.findIndex(({ publicKey }) => publicKey.equals(key));
}

const breakKeys = (): void => {
  stranger.answers['/keys'] = (reply) => void reply.writeHead(500).end();
};

describe('the keys of another server', () => {
  test('are fetched with the first token and then kept', async () => {
    const source = keysAt();
    assert.deepEqual(stranger.asked, []);
    assert.equal(await find(source, 'key 0'), 0);
    assert.equal(await find(source, 'key 0'), 0);
    assert.deepEqual(stranger.asked, ['/keys']);
    assert.ok(!(source.keyFor('key 0', clock.now()) instanceof Promise));
  });

  test('are fetched once for all who wait', async () => {
    const source = keysAt();
    await Promise.all(Array.from({ length: 50 }, () => find(source, 'key 0')));
    assert.deepEqual(stranger.asked, ['/keys']);
  });

  test('are refreshed in the background when older than 10 minutes', async () => {
    const source = keysAt();
    await find(source, 'key 0');
    clock.move(10 * MINUTE_MS - 1);
    await find(source, 'key 0');
    assert.equal(stranger.asked.length, 1);
    stranger.answers['/keys'] = json({ keys: [jwks[1]] });
    clock.move(1);
    assert.ok(!(source.keyFor('key 0', clock.now()) instanceof Promise), 'nobody waits for it');
    await waitFor('the key', () => source.keyFor('key 1', clock.now()) !== undefined);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(await find(source, 'key 0'), undefined);
  });

  test('keep their objects through a refresh, so that verdicts last', async () => {
    const source = keysAt();
    const key = await source.keyFor('key 0', clock.now());
    stranger.answers['/keys'] = json({ keys: jwks.toReversed() });
    clock.move(30_000);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(source.keyFor('key 0', clock.now()), key);
  });

  test('stay in use for 24 hours while no new set can be had, and not longer', async () => {
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

  test('are asked for an unknown kid at most once in 30 s, however many are invented', async () => {
    const source = keysAt();
    await find(source, 'key 0');
    for (let number = 0; number < 100; number += 1) {
      assert.equal(await find(source, `invented ${number}`), undefined);
    }
    assert.equal(stranger.asked.length, 1);
    stranger.answers['/keys'] = json({ keys: jwks });
    clock.move(29_999);
    assert.equal(await find(source, 'key 1'), undefined);
    clock.move(1);
    assert.equal(await find(source, 'key 1'), 1);
    assert.equal(stranger.asked.length, 2);
  });

  test('are unavailable, and not unknown, while the server cannot be asked', async () => {
    const source = keysAt();
    breakKeys();
    assert.equal(await find(source, 'key 0'), 'unavailable');
    assert.equal(await find(source, 'key 0'), 'unavailable');
    assert.equal(stranger.asked.length, 1, 'one try a second');
    stranger.answers['/keys'] = json({ keys: jwks });
    clock.move(1_000);
    assert.equal(await find(source, 'key 0'), 0);
    breakKeys();
    clock.move(30_000);
    assert.equal(await find(source, 'unknown'), 'unavailable');
    assert.equal(await find(source, 'key 0'), 0);
  });
});

describe('a bad key set', () => {
  const filler = 'x'.repeat(300_000);
  const bad: [name: string, answer: (reply: ServerResponse) => void, why: RegExp][] = [
    ['is no JSON', (reply) => reply.end('<html>'), /JSON/],
    ['has no keys', json({}), /no keys/],
    ['is null', json(null), /no keys/],
    [
      'has too many keys',
      json({ keys: Array.from({ length: 101 }, Object) }),
      /more than 100 keys/,
    ],
    ['is too large', json({ keys: [], filler }), /more than 262144 bytes/],
    ['is no UTF-8', (reply) => reply.end(Buffer.from([0x22, 0xff, 0x22])), /keys: /],
    ['redirects', (reply) => reply.writeHead(302, { location: '/elsewhere' }).end(), /keys: /],
    ['is not there', (reply) => reply.writeHead(404).end(), /status 404/],
    ['breaks off', (reply) => void reply.write('{', () => reply.destroy()), /keys: /],
  ];
  for (const [name, answer, why] of bad) {
    test(`${name}: no key of it is used`, async () => {
      stranger.answers['/keys'] = answer;
      assert.equal(await find(keysAt(), 'key 0'), 'unavailable');
      assert.equal(reported.length, 1);
      assert.match(String(reported[0]), why);
      assert.deepEqual(stranger.asked, ['/keys'], 'no other path is asked');
    });
  }

  test('that never ends, or never begins, is given up after 5 s', async () => {
    for (const answer of [() => {}, (reply: ServerResponse) => void reply.write('{"keys":[')]) {
      stranger.answers['/keys'] = answer;
      const asked = stranger.asked.length;
      const found = find(keysAt(), 'key 0');
      await waitFor('the request', () => stranger.asked.length > asked);
      clock.move(5_000);
      assert.equal(await found, 'unavailable');
      assert.match(String(reported.at(-1)), /no answer within 5000 ms/);
    }
  });

  test('leaves out what cannot verify RS256 and uses the rest', async () => {
    const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
    const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
    const [good = {}] = jwks;
    stranger.answers['/keys'] = json({
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
    assert.equal(await find(source, 'key 0'), 0, 'the first of a kid counts');
    for (const kid of ['empty', 'small', 'ec', 'oct', 'encrypts', 'other alg', 'broken', '7']) {
      assert.equal(await find(source, kid), undefined, kid);
    }
  });
});

describe('a trusted issuer', () => {
  const sourceOf = (issuer: string): KeySource => {
    const source = createTrustedIssuers(deps(), [issuer]).get(issuer);
    return source ?? assert.fail('no such issuer');
  };

  test('is found by its discovery document', async () => {
    assert.equal(await find(sourceOf(stranger.issuer), 'key 0'), 0);
    assert.deepEqual(stranger.asked, ['/.well-known/openid-configuration', '/keys']);
  });

  test('with a document of another issuer, or without a good URL, has no keys', async () => {
    const { issuer } = stranger;
    for (const document of [
      { issuer: issuer.slice(0, -1), jwks_uri: `${issuer}keys` },
      { issuer: 'https://other.example.com/', jwks_uri: `${issuer}keys` },
      { issuer },
      { issuer, jwks_uri: '/keys' },
      { issuer, jwks_uri: 'file:///etc/passwd' },
      { issuer, jwks_uri: [`${issuer}keys`] },
      null,
      [],
    ]) {
      stranger.answers['/.well-known/openid-configuration'] = json(document);
      assert.equal(await find(sourceOf(issuer), 'key 0'), 'unavailable', JSON.stringify(document));
    }
    assert.ok(!stranger.asked.includes('/keys'));
  });
});

describe('a token of a trusted issuer', () => {
  let house: Awaited<ReturnType<typeof openHouse>>;
  beforeEach(async () => {
    const trusted = createTrustedIssuers(deps(), [stranger.issuer]);
    house = await openHouse({ trusted });
    await house.client({ id: 'partner', issuer: stranger.issuer, secretHash: undefined });
  });
  afterEach(() => house.close());

  async function send(claims: object, header: object = {}): Promise<Authentication> {
    const { privateKey } = pairs[0] ?? assert.fail('no key');
    const token = await new SignJWT({
      iss: stranger.issuer,
      aud: 'https://leat.example.com/api/v2/',
      azp: 'partner',
      exp: Math.floor(house.clock.now() / 1000) + 60,
      scope: 'read:users',
      ...claims,
    })
      .setProtectedHeader({ alg: 'RS256', kid: 'key 0', ...header })
      .sign(privateKey);
    return house.verifier.verify(house.tenant, `Bearer ${token}`, house.clock.now());
  }
  const globalOf = (verdict: Authentication): boolean | string =>
    verdict.kind === 'verified' ? verdict.token.global : verdict.kind;

  test('counts for the client that is registered with it', async () => {
    const verdict = await send({});
    assert.ok(verdict.kind === 'verified');
    const { clientId, scopes, global, bucket } = verdict.token;
    assert.deepEqual([clientId, scopes, global], ['partner', ['read:users'], true]);
    assert.notEqual(bucket, 'partner', 'no client of Leat shares its bucket');
  });

  test('may name its client by client_id when there is no azp', async () => {
    assert.equal(globalOf(await send({ azp: undefined, client_id: 'partner' })), true);
    assert.equal(globalOf(await send({ azp: 'other', client_id: 'partner' })), false);
  });

  test('never counts for a client of Leat or of another issuer', async () => {
    await house.client({ id: 'elsewhere', issuer: 'https://other.example.com/' });
    for (const azp of [house.manager.clientId, 'elsewhere', 'nobody']) {
      assert.equal(globalOf(await send({ azp })), false, azp);
    }
  });

  test('is refused with another audience, another issuer, or without a key', async () => {
    assert.match(JSON.stringify(await send({ aud: 'other' })), /Bad audience: other, expected/);
    const invalid = { kind: 'invalid', message: 'Invalid token' };
    assert.deepEqual(await send({ iss: 'https://unknown.example.com/' }), invalid);
    const message = 'Invalid signature received for JSON Web Token validation';
    assert.deepEqual(await send({}, { kid: 'key 1' }), { kind: 'invalid', message });
    assert.deepEqual(await send({ iss: 'https://leat.example.com/' }), {
      kind: 'invalid',
      message,
    });
  });

  test('is refused while its keys cannot be had, expired ones with their own reason', async () => {
    breakKeys();
    const message = 'Invalid signature received for JSON Web Token validation';
    assert.deepEqual(await send({}), { kind: 'invalid', message });
    assert.match(JSON.stringify(await send({ exp: 1 })), /Expired token/);
  });
});
