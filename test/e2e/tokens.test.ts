import assert from 'node:assert/strict';
import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  sign,
  type KeyObject,
} from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { exportJWK, importJWK, SignJWT, type CryptoKey, type JWK } from 'jose';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  bootstrapClient,
  freePort,
  makePlace,
  runLeat,
  secretKey,
  startLeat,
  type Place,
  type Running,
} from '../helpers/leat.ts';
import {
  answered,
  bearer,
  freshName,
  narrowToken,
  postJson,
  type ProblemBody,
} from '../helpers/api-client.ts';

/**
 * Forged tokens. The test has what no attacker has, the private key of the tenant, so that each
 * token is wrong in one point alone.
 */

let place: Place;
let leat: Running;
let lure: Endpoint;
let genuine: JWK;
let genuineKey: CryptoKey | Uint8Array;
let settings: Record<string, string>;

before(async () => {
  place = await makePlace();
  settings = { LEAT_PORT: String(await freePort()) };
  await (await startLeat(place, settings)).stop();
  genuine = await privateKeyIn(place);
  genuineKey = await importJWK(genuine, 'RS256');
  leat = await startLeat(place, settings);
  lure = await startEndpoint();
});
after(async () => {
  await leat.kill();
  await lure.close();
  await place.remove();
});

const badSignature = 'Invalid signature received for JSON Web Token validation';
const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 });

describe('a token', () => {
  test('that is right in every point is accepted', async () => {
    assert.equal((await get(await forge())).status, 200);
    assert.equal((await get(await forge({ claims: { aud: ['x', audience()] } }))).status, 200);
    assert.equal((await get(await forge({ claims: { exp: now() - 1 } }))).status, 200);
    assert.equal((await get(await forge({ claims: { nbf: now() + 1 } }))).status, 200);
    const lower = { authorization: `bEaReR ${await forge()}` };
    await answered(200, leat.send('GET', '/api/v2/event-streams', undefined, lower));
  });

  test('has to come in the header, as bearer', async () => {
    const token = await forge();
    const headers = [
      '',
      'Bearer',
      'Bearer ',
      token,
      `Basic ${token}`,
      `Token ${token}`,
      'Bearer\t',
    ];
    for (const authorization of headers) {
      const answer = await fetch(`${leat.url}/api/v2/event-streams`, {
        headers: { authorization },
      });
      await refusedAs(answer, 'Missing authentication', authorization);
    }
    for (const query of [`access_token=${token}`, `token=${token}`, `authorization=${token}`]) {
      const answer = await fetch(`${leat.url}/api/v2/event-streams?${query}`);
      await refusedAs(answer, 'Missing authentication', query);
    }
  });

  const notTokens = [
    'x',
    '.',
    '..',
    '...',
    'a.b.c',
    'a.b.c.d.e',
    'e30.e30.e30',
    'e30.e30.',
    'bnVsbA.bnVsbA.bnVsbA',
    'W10.W10.W10',
    '.'.repeat(8000),
    'A'.repeat(12_000),
    'eyJhbGciOiJSUzI1NiJ9..',
  ];
  for (const token of notTokens) {
    test(`of the form ${token.slice(0, 30)} is invalid`, async () => {
      const answer = await get(token);
      // One that is longer than a header may be is not even read.
      if (token.length > 10_000 && answer.status === 431) return assert.ok(true);
      return refusedAs(answer, 'Invalid token');
    });
  }

  for (const alg of ['none', 'None', 'NONE', 'nOnE', '', 'RS256 ', 'rs256']) {
    test(`with the algorithm "${alg}" is invalid, signed or not`, async () => {
      const real = await forge();
      const [, payload = '', signature = ''] = real.split('.');
      const header = encode({ alg, typ: 'JWT', kid: genuine.kid });
      for (const end of ['', signature]) {
        await refusedAs(await get(`${header}.${payload}.${end}`), 'Invalid token');
      }
    });
  }

  test('with HMAC under the public key is invalid, in every form of the key', async () => {
    const { keys } = await answered<{ keys: JWK[] }>(
      200,
      fetch(`${leat.url}/.well-known/jwks.json`),
    );
    const [jwk] = keys;
    assert.ok(jwk !== undefined);
    const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
    const forms = [
      key.export({ type: 'spki', format: 'pem' }),
      key.export({ type: 'spki', format: 'der' }),
      key.export({ type: 'pkcs1', format: 'pem' }),
      JSON.stringify(jwk),
      jwk.n ?? '',
      Buffer.from(jwk.n ?? '', 'base64url'),
      '',
    ];
    for (const alg of ['HS256', 'HS384', 'HS512']) {
      for (const form of forms) {
        const signed = `${encode({ alg, typ: 'JWT', kid: genuine.kid })}.${encode(claims())}`;
        const digest = createHmac(alg.replace('HS', 'sha'), form).update(signed);
        await refusedAs(await get(`${signed}.${digest.digest('base64url')}`), 'Invalid token');
      }
    }
  });

  for (const alg of ['RS384', 'RS512', 'PS256']) {
    test(`signed by the right key with ${alg} is invalid`, async () => {
      const key = await importJWK({ ...genuine, alg }, alg);
      await refusedAs(await get(await forge({ header: { alg }, key })), 'Invalid token');
    });
  }

  test('signed by another key is refused, whatever its header offers', async () => {
    const own = await exportJWK(stranger.publicKey);
    const headers: Record<string, unknown>[] = [
      {},
      { jwk: own },
      { jku: lure.url },
      { x5u: lure.url },
      { x5c: ['MIIB'] },
      { kid: '' },
      { kid: 'unknown' },
      { kid: '../../../../dev/null' },
      { kid: "' or '1'='1" },
      { kid: '__proto__' },
      { kid: 'x'.repeat(4000) },
    ];
    for (const header of headers) {
      const token = await forge({ header, key: stranger.privateKey });
      await refusedAs(await get(token), badSignature, JSON.stringify(header));
    }
    assert.equal(lure.connections(), 0);
  });

  test('signed by the right key under a wrong or no name of it is refused', async () => {
    for (const kid of ['unknown', '', `${genuine.kid}x`, ` ${genuine.kid}`]) {
      await refusedAs(await get(await forge({ header: { kid } })), badSignature, kid);
    }
    for (const kid of [undefined, 1, null, [genuine.kid], { kid: genuine.kid }]) {
      const { status } = await get(signedByHand({ alg: 'RS256', kid }, claims()));
      assert.equal(status, 401, JSON.stringify(kid));
    }
  });

  test('whose bytes were changed after signing is refused', async () => {
    const token = await forge();
    const [header = '', , signature = ''] = token.split('.');
    const raised = `${header}.${encode({ ...claims(), scope: 'everything' })}.${signature}`;
    await refusedAs(await get(raised), badSignature);
    const flipped = Buffer.from(signature, 'base64url');
    flipped[0] = (flipped[0] ?? 0) ^ 1;
    const bent = [...token.split('.').slice(0, 2), flipped.toString('base64url')].join('.');
    await refusedAs(await get(bent), badSignature);
    const { status } = await get(`${token}=`);
    assert.equal(status, 401);
  });

  test('with critical extensions that nobody understands is refused', async () => {
    const token = signedByHand({ alg: 'RS256', kid: genuine.kid, crit: ['x'], x: 1 }, claims());
    assert.equal((await get(token)).status, 401);
  });

  test('that is expired is refused, also one that never expires', async () => {
    const expired = 'Expired token received for JSON Web Token validation';
    for (const exp of [now() - 10, 0, 1]) {
      await refusedAs(await get(await forge({ claims: { exp } })), expired, String(exp));
    }
    for (const exp of [undefined, null, '9999999999', true, [now() + 60]]) {
      const { status } = await get(
        signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), exp }),
      );
      assert.equal(status, 401, JSON.stringify(exp));
    }
  });

  test('that is not yet valid is invalid', async () => {
    await refusedAs(await get(await forge({ claims: { nbf: now() + 60 } })), 'Invalid token');
  });

  test('of another issuer is invalid', async () => {
    const issuers = [
      'https://evil.example.com/',
      issuer().slice(0, -1),
      issuer().replace('http:', 'https:'),
      issuer().toUpperCase(),
      `${issuer()}/`,
      '',
    ];
    for (const iss of issuers) {
      await refusedAs(await get(await forge({ claims: { iss } })), 'Invalid token', iss);
    }
    for (const iss of [undefined, null, [issuer()], 1]) {
      const forged = signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), iss });
      assert.equal((await get(forged)).status, 401, JSON.stringify(iss));
    }
  });

  test('of another audience is told which one is expected', async () => {
    const others = ['https://other.example.com', audience().slice(0, -1), '/api/v2/', 'a"b\\c\nd'];
    for (const aud of others) {
      const message = `Bad audience: ${aud}, expected: ${audience()}`;
      await refusedAs(await get(await forge({ claims: { aud } })), message, aud);
    }
    const long = 'x'.repeat(500);
    const answer = await get(await forge({ claims: { aud: long } }));
    await refusedAs(answer, `Bad audience: ${long.slice(0, 100)}, expected: ${audience()}`);
    for (const aud of [undefined, null, [], {}, 1]) {
      const forged = signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), aud });
      assert.equal((await get(forged)).status, 401, JSON.stringify(aud));
    }
  });

  test('of the tenant for another API is no token of the management API', async () => {
    const identifier = `https://${freshName()}.example.com`;
    await answered(201, leat.send('POST', '/api/v2/resource-servers', { identifier, name: 'x' }));
    const grant = { client_id: bootstrapClient.id, audience: identifier, scope: [] };
    await answered(201, leat.send('POST', '/api/v2/client-grants', grant));
    const other = await tokenFor(bootstrapClient, identifier);
    const message = `Bad audience: ${identifier}, expected: ${audience()}`;
    await refusedAs(await get(other), message);
  });

  test('without the scope is refused, whatever else it carries', async () => {
    const others = [
      { scope: 'read:users' },
      { scope: 'READ:EVENT_STREAMS' },
      { scope: 'read:event_streamsx xread:event_streams' },
      { scope: '' },
      { scope: undefined },
      { scope: 'read:users', permissions: ['read:event_streams'] },
      { scope: 'read:users', scp: 'read:event_streams' },
      { scope: 'read:event_streams,read:users' },
    ];
    for (const other of others) {
      const answer = await get(
        signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), ...other }),
      );
      const body = await answered<ProblemBody>(403, answer);
      assert.equal(body.errorCode, 'insufficient_scope');
      assert.equal(body.message, 'Insufficient scope; expected any of: read:event_streams');
    }
    for (const scope of [1, null, {}, ['read:event_streams'], [['read:event_streams']]]) {
      const { status } = await get(
        signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), scope }),
      );
      assert.ok(status === 401 || status === 403, `${JSON.stringify(scope)}: ${status}`);
    }
  });
});

describe('a client', () => {
  const notGlobal = 'Client is not global.';

  test('that is not registered, or not global, is refused', async () => {
    for (const azp of ['nobody', '', '__proto__', "' or 1=1 --", `${bootstrapClient.id} `]) {
      await refusedAs(await get(await forge({ claims: { azp } })), notGlobal, azp);
    }
    const client = await newClient(false);
    await refusedAs(await get(await tokenFor(client, '/api/v2/')), notGlobal);
    for (const azp of [undefined, null, 1, [bootstrapClient.id]]) {
      const forged = signedByHand({ alg: 'RS256', kid: genuine.kid }, { ...claims(), azp });
      assert.equal((await get(forged)).status, 401, JSON.stringify(azp));
    }
  });

  test('that is deleted, or loses the flag, is refused from the next request on', async () => {
    for (const end of [
      (id: string) => leat.send('DELETE', `/api/v2/clients/${id}`),
      (id: string) => leat.send('PATCH', `/api/v2/clients/${id}`, { global: false }),
    ]) {
      const client = await newClient(true);
      const token = await tokenFor(client, '/api/v2/');
      await answered(200, get(token));
      const { status } = await end(client.id);
      assert.ok(status === 200 || status === 204);
      await refusedAs(await get(token), notGlobal);
    }
  });

  test('gets the flag back, and its live tokens with it', async () => {
    const client = await newClient(true);
    const token = await tokenFor(client, '/api/v2/');
    const path = `/api/v2/clients/${client.id}`;
    await answered(200, leat.send('PATCH', path, { global: false }));
    await refusedAs(await get(token), notGlobal);
    await answered(200, leat.send('PATCH', path, { global: true }));
    await answered(200, get(token));
  });

  test('whose secret was rotated needs the new one at once', async () => {
    const client = await newClient(true);
    const path = `/api/v2/clients/${client.id}/rotate-secret`;
    const { client_secret: secret } = await answered<{ client_secret: string }>(
      200,
      leat.send('POST', path),
    );
    assert.notEqual(secret, client.secret);
    const former = await askFor(client, '/api/v2/');
    assert.equal((await answered<OAuthError>(401, former)).error, 'invalid_client');
    assert.ok(await tokenFor({ id: client.id, secret }, '/api/v2/'));
  });
});

describe('the token endpoint', () => {
  test('says the same of a client that is unknown and of a wrong secret', async () => {
    const wrong = { id: bootstrapClient.id, secret: 'wrong-secret-of-16' };
    const unknown = { id: 'nobody', secret: bootstrapClient.secret };
    const expected = {
      error: 'invalid_client',
      error_description: 'Client authentication failed',
    };
    for (const client of [wrong, unknown, { id: bootstrapClient.id, secret: '' }]) {
      assert.deepEqual(await answered(401, askFor(client, '/api/v2/')), expected);
    }
  });

  test('knows the management API by its three names and gives one audience', async () => {
    for (const name of [audience(), '/api/v2/', `${issuer()}api/v2/`]) {
      const [, payload = ''] = (await tokenFor(bootstrapClient, name)).split('.');
      const claimed = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<
        string,
        unknown
      >;
      assert.equal(claimed['aud'], audience());
      assert.equal(claimed['iss'], issuer());
      assert.equal(claimed['sub'], `${bootstrapClient.id}@clients`);
      assert.equal(claimed['gty'], 'client-credentials');
    }
    const none = 'https://none.example.com';
    assert.deepEqual(await answered(403, askFor(bootstrapClient, none)), {
      error: 'access_denied',
      error_description: `Service not found: ${none}; the management API is ${audience()}`,
    });
  });

  test('reads form and JSON on both paths, and nothing else', async () => {
    const parameters = {
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: bootstrapClient.id,
      client_secret: bootstrapClient.secret,
    };
    for (const path of ['/oauth/token', '/oauth/token/']) {
      const url = leat.url + path;
      await answered(200, postJson(url, parameters));
      const form = new URLSearchParams(parameters);
      await answered(200, fetch(url, { method: 'POST', body: form }));
      const bad: [string, string][] = [
        ['text/plain', form.toString()],
        ['application/json', form.toString()],
        ['application/json', '[]'],
        ['application/json', '{"grant_type":["client_credentials"]}'],
        ['application/x-www-form-urlencoded', `${form.toString()}&client_id=x`],
        ['application/json', `{"client_id":"a",${JSON.stringify(parameters).slice(1)}`],
        ['application/json', '{"a":'.repeat(10_000)],
      ];
      for (const [type, body] of bad) {
        const headers = { 'content-type': type };
        const answer = fetch(url, { method: 'POST', headers, body });
        const { error } = await answered<OAuthError>(400, answer);
        assert.equal(error, 'invalid_request', body.slice(0, 60));
      }
      const headers = { 'content-type': 'application/json' };
      const large = 'x'.repeat(64 * 1024 + 1);
      const tooLarge = await fetch(url, { method: 'POST', headers, body: large });
      assert.equal(tooLarge.headers.get('cache-control'), 'no-store');
      assert.equal(tooLarge.headers.get('pragma'), 'no-cache');
      assert.deepEqual(await answered(413, tooLarge), {
        error: 'invalid_request',
        error_description: 'Payload Too Large',
      });
      assert.equal((await fetch(url)).status, 405);
    }
  });

  test('takes one way of authentication at a time', async () => {
    const { id, secret } = bootstrapClient;
    const basic = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
    const body = { grant_type: 'client_credentials', audience: '/api/v2/' };
    const ask = (more: object, authorization: string): Promise<Response> =>
      fetch(`${leat.url}/oauth/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization },
        body: JSON.stringify({ ...body, ...more }),
      });
    await answered(200, ask({}, basic));
    const both = await answered<OAuthError>(
      400,
      ask({ client_id: id, client_secret: secret }, basic),
    );
    assert.equal(both.error, 'invalid_request');
    const wrong = await ask({}, `Basic ${Buffer.from(`${id}:wrong`).toString('base64')}`);
    assert.match(wrong.headers.get('www-authenticate') ?? '', /^Basic\b/);
    assert.equal((await answered<OAuthError>(401, wrong)).error, 'invalid_client');
    const missing = await answered<OAuthError>(400, postJson(`${leat.url}/oauth/token`, {}));
    assert.deepEqual(missing, {
      error: 'invalid_request',
      error_description: 'Missing required parameter: grant_type',
    });
    const password = { grant_type: 'password', audience: '/api/v2/' };
    assert.deepEqual(await answered(400, postJson(`${leat.url}/oauth/token`, password)), {
      error: 'unsupported_grant_type',
      error_description: 'Grant type not supported',
    });
  });

  test('gives a subset of the scopes, never more', async () => {
    const narrow = await narrowToken(leat, 'read:users read:users');
    const [, payload = ''] = narrow.split('.');
    const { scope } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as {
      scope: string;
    };
    assert.equal(scope, 'read:users');
    const wide = await postJson(`${leat.url}/oauth/token`, {
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: bootstrapClient.id,
      client_secret: bootstrapClient.secret,
      scope: 'read:users delete:everything',
    });
    assert.deepEqual(await answered(403, wide), {
      error: 'access_denied',
      error_description: 'Client has not been granted scopes: delete:everything',
    });
  });
});

describe('signing keys', () => {
  test('rotate without ending live tokens; revoking one ends its tokens', async (t) => {
    const own = await makePlace();
    t.after(() => own.remove());
    const port = { LEAT_PORT: String(await freePort()) };
    const env = {
      ...port,
      LEAT_STORE: `sqlite:${own.file}`,
      LEAT_SECRET_KEY: secretKey.toString('base64'),
    };
    let running = await startLeat(own, port);
    t.after(() => running.kill());
    const old = running.token;
    const besideServer = await runLeat(['keys', 'list'], env);
    assert.equal(besideServer.code, 0, besideServer.output);
    assert.ok(besideServer.output.includes(kidOf(old)), besideServer.output);
    await running.stop();

    const rotated = await runLeat(['keys', 'rotate', '--now'], env);
    assert.equal(rotated.code, 0, rotated.output);
    running = await startLeat(own, port);
    const fresh = running.token;
    assert.notEqual(kidOf(fresh), kidOf(old));
    const list = (token: string): Promise<Response> =>
      running.send('GET', '/api/v2/event-streams', undefined, bearer(token));
    await answered(200, list(old));
    await answered(200, list(fresh));
    const published = await answered<{ keys: JWK[] }>(
      200,
      fetch(`${running.url}/.well-known/jwks.json`),
    );
    assert.deepEqual(
      published.keys.map(({ kid }) => kid),
      [kidOf(fresh), kidOf(old)],
    );
    await running.stop();

    const listed = await runLeat(['keys', 'list'], env);
    assert.ok(listed.output.includes(kidOf(old)) && listed.output.includes(kidOf(fresh)));
    assert.equal((await runLeat(['keys', 'revoke', kidOf(old)], env)).code, 0);
    assert.equal((await runLeat(['keys', 'revoke', kidOf(old)], env)).code, 1);
    running = await startLeat(own, port);
    const refused = await answered<ProblemBody>(401, list(old));
    assert.equal(refused.message, badSignature);
    await answered(200, list(fresh));
    await running.stop();

    const dashed = await runLeat(['keys', 'revoke', '-abc'], env);
    assert.match(dashed.output, /No key is called "-abc"/);

    // The last key goes: a new one signs at once, and the tokens of the old one end.
    const last = await runLeat(['keys', 'revoke', kidOf(fresh)], env);
    assert.equal(last.code, 0, last.output);
    running = await startLeat(own, port);
    assert.equal((await answered<ProblemBody>(401, list(fresh))).message, badSignature);
    await answered(200, list(running.token));
    assert.equal(await running.stop(), 0);
  });

  test('published ahead sign only later', async (t) => {
    const own = await makePlace();
    t.after(() => own.remove());
    const port = { LEAT_PORT: String(await freePort()) };
    let running = await startLeat(own, port);
    t.after(() => running.kill());
    const former = kidOf(running.token);
    await running.stop();
    const env = {
      ...port,
      LEAT_STORE: `sqlite:${own.file}`,
      LEAT_SECRET_KEY: secretKey.toString('base64'),
    };
    assert.equal((await runLeat(['keys', 'rotate'], env)).code, 0);
    running = await startLeat(own, port);
    assert.equal(kidOf(running.token), former);
    const { keys } = await answered<{ keys: JWK[] }>(
      200,
      fetch(`${running.url}/.well-known/jwks.json`),
    );
    assert.equal(keys.length, 2);
  });
});

interface OAuthError {
  readonly error: string;
  readonly error_description: string;
}

interface Forgery {
  readonly claims?: Record<string, unknown>;
  readonly header?: Record<string, unknown>;
  readonly key?: CryptoKey | KeyObject | Uint8Array;
}

/** A token that is right but for what is given. */
async function forge({ claims: other = {}, header = {}, key = genuineKey }: Forgery = {}) {
  return new SignJWT({ ...claims(), ...other })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: genuine.kid ?? '', ...header })
    .sign(key);
}

/** The same with the tenant's key for what the library would not write. */
function signedByHand(header: object, payload: object): string {
  const signed = `${encode(header)}.${encode(payload)}`;
  const key = { key: { ...genuine }, format: 'jwk' as const };
  return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
}

function claims(): Record<string, unknown> {
  return {
    iss: issuer(),
    sub: `${bootstrapClient.id}@clients`,
    aud: audience(),
    iat: now(),
    exp: now() + 3600,
    azp: bootstrapClient.id,
    gty: 'client-credentials',
    scope: 'read:event_streams',
  };
}

function issuer(): string {
  return `http://localhost:${leat.port}/`;
}

function audience(): string {
  return `https://localhost:${leat.port}/api/v2/`;
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

function kidOf(token: string): string {
  const header = Buffer.from(token.split('.')[0] ?? '', 'base64url').toString();
  return (JSON.parse(header) as { kid: string }).kid;
}

function get(token: string): Promise<Response> {
  return leat.send('GET', '/api/v2/event-streams', undefined, bearer(token));
}

/** The answer is 401 with this message, in the body and in the challenge. */
async function refusedAs(answer: Response, message: string, what = ''): Promise<void> {
  const body = await answered<ProblemBody>(401, answer).catch((error: unknown) => {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  });
  assert.deepEqual(body, { statusCode: 401, error: 'Unauthorized', message }, what);
  const realm = `Bearer realm="localhost:${leat.port}"`;
  const description = message.replaceAll(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/g, '?').slice(0, 200);
  const expected =
    message === 'Missing authentication'
      ? realm
      : `${realm}, error="invalid_token", error_description="${description}"`;
  assert.equal(answer.headers.get('www-authenticate'), expected, what);
}

interface Credentials {
  readonly id: string;
  readonly secret: string;
}

async function newClient(global: boolean): Promise<Credentials> {
  const made = await answered<{ client_id: string; client_secret: string }>(
    201,
    leat.send('POST', '/api/v2/clients', { name: freshName(), global }),
  );
  const grant = {
    client_id: made.client_id,
    audience: audience(),
    scope: ['read:event_streams'],
  };
  await answered(201, leat.send('POST', '/api/v2/client-grants', grant));
  return { id: made.client_id, secret: made.client_secret };
}

function askFor({ id, secret }: Credentials, forAudience: string): Promise<Response> {
  return postJson(`${leat.url}/oauth/token`, {
    grant_type: 'client_credentials',
    audience: forAudience,
    client_id: id,
    client_secret: secret,
  });
}

async function tokenFor(client: Credentials, forAudience: string): Promise<string> {
  const made = await answered<{ access_token: string }>(200, askFor(client, forAudience));
  return made.access_token;
}

/** The key that signs the first tenant's tokens, read from the store while no server runs. */
async function privateKeyIn({ file }: Place): Promise<JWK> {
  const store = await openStore({
    location: { engine: 'sqlite', path: file },
    secretKey,
    random: systemRandom,
    clock: systemClock,
  });
  try {
    const [tenant] = await store.tenants.list();
    const [key] = await store.keys.list(tenant?.id ?? 0, Date.now());
    assert.ok(key !== undefined);
    return { ...(JSON.parse(key.privateJwk) as JWK), kid: key.kid };
  } finally {
    await store.close();
  }
}
