import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { decodeJwt, exportJWK, importJWK, SignJWT, type CryptoKey, type JWK } from 'jose';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  bootstrapClient,
  freePort,
  createTempStore,
  runLeat,
  secretKey,
  startLeat,
  type TempStore,
  type Running,
  storeEnvironment,
} from '../helpers/leat.ts';
import {
  expectBody,
  bearer,
  freshName,
  postJson,
  type ProblemBody,
} from '../helpers/api-client.ts';

/**
 * Tokens at the real server; test/auth has the single attacks. Unlike an attacker, the test has the
 * private key of the tenant, so that each token has exactly one error.
 */

let tempStore: TempStore;
let leat: Running;
let lure: Endpoint;
let genuine: JWK;
let genuineKey: CryptoKey | Uint8Array;
let settings: Record<string, string>;

before(async () => {
  tempStore = await createTempStore();
  settings = { LEAT_PORT: String(await freePort()) };
  await (await startLeat(tempStore, settings)).stop();
  genuine = await privateKeyIn(tempStore);
  genuineKey = await importJWK(genuine, 'RS256');
  leat = await startLeat(tempStore, settings);
  lure = await startEndpoint();
});
after(async () => {
  await leat.kill();
  await lure.close();
  await tempStore.remove();
});

const badSignature = 'Invalid signature received for JSON Web Token validation';
const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 });

describe('a token of the management API', () => {
  test('a token of the management API gives access when it is valid', async () => {
    await expectBody(200, get(await forge()));
    await expectBody(200, get(await forge({ claims: { aud: ['x', audience()] } })));
    const lower = { authorization: `bEaReR ${await forge()}` };
    await expectBody(200, leat.send('GET', '/api/v2/event-streams', undefined, lower));
  });

  test('a token of the management API is accepted in the header only', async () => {
    const token = await forge();
    for (const query of [`access_token=${token}`, `token=${token}`, `authorization=${token}`]) {
      const response = await fetch(`${leat.url}/api/v2/event-streams?${query}`);
      await refusedAs(response, 'Missing authentication', query);
    }
  });

  test('a token of the management API is rejected with the reason', async () => {
    const aud = 'https://other.example.com';
    const way = `request one at ${issuer()}oauth/token`;
    const expired = 'Expired token received for JSON Web Token validation';
    const wrong: [token: string, message: string][] = [
      ['a.b.c', `Invalid token: it is no signed JSON Web Token with iss and exp; ${way}`],
      [
        await forge({ claims: { nbf: now() + 60 } }),
        'Invalid token: it is not valid yet; compare the clocks of its issuer and of this server',
      ],
      [
        await forge({ claims: { iss: `${issuer()}/` } }),
        `Invalid token: its issuer is neither ${issuer()} nor one that is trusted; ${way}`,
      ],
      [await forge({ claims: { exp: now() - 10 } }), expired],
      [await forge({ claims: { aud } }), `Bad audience: ${aud}, expected: ${audience()}`],
      [await forge({ claims: { azp: 'nobody' } }), 'Client is not global.'],
    ];
    for (const [token, message] of wrong) await refusedAs(await get(token), message, message);
  });

  test('a token that another key signed is rejected, and no URL in its header is fetched', async () => {
    const own = await exportJWK(stranger.publicKey);
    const headers = [{}, { jwk: own }, { jku: lure.url }, { x5u: lure.url }, { kid: 'unknown' }];
    for (const header of headers) {
      const token = await forge({ header, key: stranger.privateKey });
      await refusedAs(await get(token), badSignature, JSON.stringify(header));
    }
    assert.equal(lure.connections(), 0);
  });

  test('a token of the management API of the tenant for another API is rejected', async () => {
    const identifier = `https://${freshName()}.example.com`;
    await expectBody(201, leat.send('POST', '/api/v2/resource-servers', { identifier, name: 'x' }));
    const grant = { client_id: bootstrapClient.id, audience: identifier, scope: [] };
    await expectBody(201, leat.send('POST', '/api/v2/client-grants', grant));
    const other = await tokenFor(bootstrapClient, identifier);
    const message = `Bad audience: ${identifier}, expected: ${audience()}`;
    await refusedAs(await get(other), message);
  });

  test('a token of the management API without the scope is rejected, whatever other scopes it has', async () => {
    const others = [
      { scope: 'READ:EVENT_STREAMS' },
      { scope: 'read:event_streamsx xread:event_streams' },
      { scope: 'read:users', permissions: ['read:event_streams'] },
    ];
    for (const other of others) {
      const response = await get(await forge({ claims: other }));
      const body = await expectBody<ProblemBody>(403, response);
      assert.equal(body.errorCode, 'insufficient_scope');
      assert.equal(body.message, 'Insufficient scope; expected any of: read:event_streams');
    }
  });
});

describe('a client', () => {
  const notGlobal = 'Client is not global.';

  test('deleted or no longer global: its tokens are rejected from the next request on', async () => {
    for (const end of [
      (id: string) => leat.send('DELETE', `/api/v2/clients/${id}`),
      (id: string) => leat.send('PATCH', `/api/v2/clients/${id}`, { global: false }),
    ]) {
      const client = await newClient();
      const token = await tokenFor(client, '/api/v2/');
      await expectBody(200, get(token));
      const { status } = await end(client.id);
      assert.ok(status === 200 || status === 204);
      await refusedAs(await get(token), notGlobal);
    }
  });

  test('a client with a rotated secret needs the new one at once', async () => {
    const client = await newClient();
    const path = `/api/v2/clients/${client.id}/rotate-secret`;
    const { client_secret: secret } = await expectBody<{ client_secret: string }>(
      200,
      leat.send('POST', path),
    );
    assert.notEqual(secret, client.secret);
    assert.deepEqual(await expectBody(401, requestToken(client, '/api/v2/')), {
      error: 'invalid_client',
      error_description: 'Client authentication failed',
    });
    assert.ok(await tokenFor({ id: client.id, secret }, '/api/v2/'));
  });
});

describe('signing keys', () => {
  test(
    'rotating signing keys keeps valid tokens; revoking a key ends its tokens',
    { tags: ['long'] },
    async (t) => {
      const own = await createTempStore();
      t.after(() => own.remove());
      const port = { LEAT_PORT: String(await freePort()) };
      const env = { ...port, ...storeEnvironment(own) };
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
      await expectBody(200, list(old));
      await expectBody(200, list(fresh));
      const published = await expectBody<{ keys: JWK[] }>(
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
      const refused = await expectBody<ProblemBody>(401, list(old));
      assert.equal(refused.message, badSignature);
      await expectBody(200, list(fresh));
      await running.stop();

      const dashed = await runLeat(['keys', 'revoke', '-abc'], env);
      assert.match(dashed.output, /No key is called "-abc"/);

      // The last key is revoked: a new one signs at once, and the tokens of the old one end.
      const last = await runLeat(['keys', 'revoke', kidOf(fresh)], env);
      assert.equal(last.code, 0, last.output);
      running = await startLeat(own, port);
      assert.equal((await expectBody<ProblemBody>(401, list(fresh))).message, badSignature);
      await expectBody(200, list(running.token));
      assert.equal(await running.stop(), 0);
    },
  );

  test('a signing key is published before it signs', { tags: ['long'] }, async (t) => {
    const own = await createTempStore();
    t.after(() => own.remove());
    const port = { LEAT_PORT: String(await freePort()) };
    let running = await startLeat(own, port);
    t.after(() => running.kill());
    const former = kidOf(running.token);
    await running.stop();
    const env = { ...port, ...storeEnvironment(own) };
    assert.equal((await runLeat(['keys', 'rotate'], env)).code, 0);
    running = await startLeat(own, port);
    assert.equal(kidOf(running.token), former);
    const { keys } = await expectBody<{ keys: JWK[] }>(
      200,
      fetch(`${running.url}/.well-known/jwks.json`),
    );
    assert.equal(keys.length, 2);
  });
});

interface Forgery {
  readonly claims?: Record<string, unknown>;
  readonly header?: Record<string, unknown>;
  readonly key?: CryptoKey | KeyObject | Uint8Array;
}

/** Returns a valid token except for these changes. */
async function forge({ claims: other = {}, header = {}, key = genuineKey }: Forgery = {}) {
  return new SignJWT({ ...claims(), ...other })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: genuine.kid ?? '', ...header })
    .sign(key);
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
    credentials_version: decodeJwt(leat.token)['credentials_version'],
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

function kidOf(token: string): string {
  const header = Buffer.from(token.split('.')[0] ?? '', 'base64url').toString();
  return (JSON.parse(header) as { kid: string }).kid;
}

function get(token: string): Promise<Response> {
  return leat.send('GET', '/api/v2/event-streams', undefined, bearer(token));
}

/** Checks that a response is 401 with this message, in the body and in the challenge. */
async function refusedAs(response: Response, message: string, what = ''): Promise<void> {
  const body = await expectBody<ProblemBody>(401, response).catch((error: unknown) => {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  });
  assert.deepEqual(body, { statusCode: 401, error: 'Unauthorized', message }, what);
  const realm = `Bearer realm="localhost:${leat.port}"`;
  const description = message.replaceAll(/[^\x20-\x21\x23-\x5B\x5D-\x7E]/g, '?').slice(0, 200);
  const expected =
    message === 'Missing authentication'
      ? realm
      : `${realm}, error="invalid_token", error_description="${description}"`;
  assert.equal(response.headers.get('www-authenticate'), expected, what);
}

interface Credentials {
  readonly id: string;
  readonly secret: string;
}

async function newClient(): Promise<Credentials> {
  const issued = await expectBody<{ client_id: string; client_secret: string }>(
    201,
    leat.send('POST', '/api/v2/clients', { name: freshName(), global: true }),
  );
  const grant = {
    client_id: issued.client_id,
    audience: audience(),
    scope: ['read:event_streams'],
  };
  await expectBody(201, leat.send('POST', '/api/v2/client-grants', grant));
  return { id: issued.client_id, secret: issued.client_secret };
}

function requestToken({ id, secret }: Credentials, forAudience: string): Promise<Response> {
  return postJson(`${leat.url}/oauth/token`, {
    grant_type: 'client_credentials',
    audience: forAudience,
    client_id: id,
    client_secret: secret,
  });
}

async function tokenFor(client: Credentials, forAudience: string): Promise<string> {
  const issued = await expectBody<{ access_token: string }>(200, requestToken(client, forAudience));
  return issued.access_token;
}

/** Returns the key that signs the first tenant's tokens, read from the store while no server runs. */
async function privateKeyIn({ file }: TempStore): Promise<JWK> {
  const store = await openStore({
    location: { engine: 'sqlite', path: file },
    secretKeys: [secretKey],
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
