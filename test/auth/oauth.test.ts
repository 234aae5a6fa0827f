import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import fastify, { type FastifyInstance } from 'fastify';
import { createRemoteJWKSet, exportJWK, jwtVerify, SignJWT } from 'jose';
import * as oauth from 'oauth4webapi';
import { handleErrors, leaveBodiesUnread } from '../../src/api/app.ts';
import { createErrorReader, notFound } from '../../src/api/http/problem.ts';
import { registerOauth } from '../../src/api/oauth.ts';
import { createRateLimiter } from '../../src/api/http/rate.ts';
import { createClientAddressReader } from '../../src/api/http/client-address.ts';
import type { ApiLimits } from '../../src/api/settings.ts';
import { webhookKeys } from '../../src/auth/key-use.ts';
import { createFirstKey } from '../../src/auth/keys.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Tenant } from '../../src/core/types.ts';
import { type AuthFixture, openAuthFixture, plainHttp } from './fixture.ts';

const LEEWAY_SECONDS = 5;

interface OauthServer {
  readonly app: FastifyInstance;
  readonly fixture: AuthFixture;
  readonly issuer: string;
  /** Whether new requests are accepted. */
  isOpen: boolean;
  /** Thrown by the tenant lookup. */
  failure: Error | undefined;
  /** The errors that were logged. */
  readonly logged: unknown[];
}

let server: OauthServer;

beforeEach(async () => {
  server = await openOauthServer();
});
afterEach(async () => {
  await server.app.close();
  await server.fixture.close();
});

/** Opens the routes on a real listener; the tenant's domain is its address. */
async function openOauthServer(): Promise<OauthServer> {
  const app = fastify();
  const fixture = await openAuthFixture();
  const logged: unknown[] = [];
  const settings = {
    rateLimitBurst: 100,
    rateLimitPerSecond: 1,
    tenantRateBurst: 100,
    tenantRatePerSecond: 1,
    publishLimitPerSecond: 1,
    publishLimitBytesPerSecond: 1,
    plainHttp,
    limits: { tokenBodyBytesMax: 65_536, rateBucketsMax: 10 } as ApiLimits,
  };
  const log = {
    error: (fields: object) => logged.push('err' in fields ? fields.err : undefined),
    warn: () => {},
  };
  // As the whole application does for each of its routes.
  leaveBodiesUnread(app);
  handleErrors(app, createErrorReader({ log, clock: fixture.clock, random: randomBytes }));
  registerOauth(app, {
    tokenEndpoint: fixture.endpoint,
    keyring: fixture.keyring,
    webhookKeyring: fixture.webhookKeyring,
    audit: { note: () => undefined },
    tenants: { of: () => tenant(), refusal: () => notFound('Not Found') },
    limiter: createRateLimiter({ clock: fixture.clock, settings }),
    clientAddressOf: createClientAddressReader([]),
    settings,
    clock: fixture.clock,
    log,
    open: () => opened.isOpen,
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const issuer = `http://localhost:${port}/`;
  const opened: OauthServer = { app, fixture, issuer, isOpen: true, failure: undefined, logged };
  const tenant = (): Tenant => {
    if (opened.failure !== undefined) throw opened.failure;
    return { ...fixture.tenant, domain: `localhost:${port}` };
  };
  return opened;
}

function post(
  body: string | Uint8Array<ArrayBuffer> | Record<string, string>,
  headers: Record<string, string> = {},
  path = 'oauth/token',
): Promise<Response> {
  const isForm = typeof body === 'object' && !(body instanceof Uint8Array);
  const sent = isForm ? new URLSearchParams(body) : body;
  return fetch(server.issuer + path, { method: 'POST', body: sent, headers });
}

function goodForm(): Record<string, string> {
  const { clientId, clientSecret } = server.fixture.manager;
  return {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    audience: '/api/v2/',
  };
}

describe('oauth4webapi', () => {
  const loopback = { [oauth.allowInsecureRequests]: true } as const;
  let pairs: Record<'RS256' | 'PS256' | 'ES256', { privateKey: KeyObject; publicKey: KeyObject }>;
  before(() => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    pairs = { RS256: rsa, PS256: rsa, ES256: ec };
  });

  async function discover(algorithm: 'oidc' | 'oauth2'): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(server.issuer);
    const response = await oauth.discoveryRequest(issuer, { algorithm, ...loopback });
    return oauth.processDiscoveryResponse(issuer, response);
  }

  async function tokenBy(
    clientId: string,
    authentication: oauth.ClientAuth,
  ): Promise<oauth.TokenEndpointResponse> {
    const authorizationServer = await discover('oauth2');
    const client = { client_id: clientId };
    const parameters = { audience: '/api/v2/', scope: 'read:users' };
    const response = await oauth.clientCredentialsGrantRequest(
      authorizationServer,
      client,
      authentication,
      parameters,
      loopback,
    );
    return oauth.processClientCredentialsResponse(authorizationServer, client, response);
  }

  test('oauth4webapi: discovers the issuer by both documents', async () => {
    for (const algorithm of ['oidc', 'oauth2'] as const) {
      const { issuer, token_endpoint, jwks_uri, scopes_supported } = await discover(algorithm);
      assert.equal(issuer, server.issuer);
      assert.equal(token_endpoint, `${server.issuer}oauth/token`);
      assert.equal(jwks_uri, `${server.issuer}.well-known/jwks.json`);
      assert.deepEqual(scopes_supported, managementScopes);
    }
  });

  test('oauth4webapi: gets a token by a secret in the body and by one in the header', async () => {
    const { clientId, clientSecret } = server.fixture.manager;
    for (const method of [oauth.ClientSecretPost, oauth.ClientSecretBasic]) {
      const token = await tokenBy(clientId, method(clientSecret));
      assert.deepEqual([token.token_type, token.expires_in], ['bearer', 3_600]);
      assert.equal(token.scope, 'read:users');
    }
  });

  test('oauth4webapi: gets a token that the published keys verify', async () => {
    const { clientId, clientSecret } = server.fixture.manager;
    const { access_token: token } = await tokenBy(clientId, oauth.ClientSecretPost(clientSecret));
    const keys = createRemoteJWKSet(new URL(`${server.issuer}.well-known/jwks.json`));
    const { payload } = await jwtVerify(token, keys, {
      algorithms: ['RS256'],
      issuer: server.issuer,
      audience: server.issuer.replace('http:', 'https:') + 'api/v2/',
      currentDate: new Date(server.fixture.clock.now()),
    });
    assert.equal(payload['azp'], clientId);
  });

  test('oauth4webapi: gets a token by an assertion of each algorithm, with and without a kid', async () => {
    // The library uses the time of the machine, so the clock of the fixture is set to it.
    server.fixture.clock.move(Date.now() - server.fixture.clock.now());
    const jwks = JSON.stringify({
      keys: [
        { ...(await exportJWK(pairs.RS256.publicKey)), kid: 'rsa' },
        { ...(await exportJWK(pairs.ES256.publicKey)), kid: 'ec' },
      ],
    });
    const { clientId } = await server.fixture.client({ jwks, secretHash: undefined }, [
      'read:users',
    ]);
    const imports = {
      RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
      PS256: { name: 'RSA-PSS', hash: 'SHA-256' },
      ES256: { name: 'ECDSA', namedCurve: 'P-256' },
    };
    for (const [name, { privateKey }] of Object.entries(pairs)) {
      const der = new Uint8Array(privateKey.export({ type: 'pkcs8', format: 'der' }));
      const algorithm = imports[name as keyof typeof imports];
      const key = await crypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']);
      const kid = name === 'ES256' ? 'ec' : 'rsa';
      for (const signer of [key, { key, kid }]) {
        const token = await tokenBy(clientId, oauth.PrivateKeyJwt(signer));
        assert.equal(token.scope, 'read:users', name);
      }
    }
  });

  test('oauth4webapi: recognises the error of a wrong secret', async () => {
    const { clientId } = server.fixture.manager;
    for (const method of [oauth.ClientSecretPost, oauth.ClientSecretBasic]) {
      await assert.rejects(tokenBy(clientId, method('wrong')), (error) => {
        const known =
          error instanceof oauth.ResponseBodyError ||
          error instanceof oauth.WWWAuthenticateChallengeError;
        assert.ok(known);
        assert.equal(error.status, 401);
        return true;
      });
    }
  });
});

describe('client assertion', () => {
  let clientKeys: { privateKey: KeyObject; publicKey: KeyObject };
  let clientId: string;
  before(() => {
    clientKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  });
  beforeEach(async () => {
    const jwks = JSON.stringify({ keys: [await exportJWK(clientKeys.publicKey)] });
    ({ clientId } = await server.fixture.client({ jwks, secretHash: undefined }, ['read:users']));
  });

  const seconds = (): number => Math.floor(server.fixture.clock.now() / 1000);
  const goodClaims = (): Record<string, unknown> => ({
    iss: clientId,
    sub: clientId,
    aud: server.issuer,
    jti: crypto.randomUUID(),
    exp: seconds() + 60,
  });
  const assertion = (
    claims: object = {},
    header: object = {},
    key: KeyObject | Uint8Array = clientKeys.privateKey,
  ): Promise<string> =>
    new SignJWT({ ...goodClaims(), ...claims })
      .setProtectedHeader({ alg: 'ES256', ...header })
      .sign(key);
  const present = async (
    client_assertion: string,
    more: Record<string, string> = {},
  ): Promise<number> => {
    const response = await post({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion,
      ...more,
    });
    const { error } = (await response.json()) as { error?: string };
    if (response.status === 401) assert.equal(error, 'invalid_client');
    return response.status;
  };

  test('assertion aud: accepts the issuer and both paths of the token endpoint, also as https', async () => {
    const https = server.issuer.replace('http:', 'https:');
    for (const base of [server.issuer, https]) {
      for (const aud of [base, `${base}oauth/token`, `${base}oauth/token/`, [base]]) {
        assert.equal(await present(await assertion({ aud })), 200, String(aud));
      }
    }
    assert.equal(await present(await assertion(), { client_id: clientId }), 200);
  });

  test('assertion aud: rejects an array that names another server or more than one value', async () => {
    const endpoint = `${server.issuer}oauth/token`;
    for (const aud of [
      [server.issuer, 'https://other.example.com/'],
      ['https://other.example.com/', server.issuer],
      [server.issuer, endpoint],
      [server.issuer, server.issuer],
      [server.issuer, ''],
      [server.issuer, null],
      [[server.issuer]],
      { 0: server.issuer, length: 1 },
    ]) {
      assert.equal(await present(await assertion({ aud })), 401, JSON.stringify(aud));
    }
  });

  test('an assertion is accepted once', async () => {
    const once = await assertion();
    assert.equal(await present(once), 200);
    assert.equal(await present(once), 401);
    const jti = 'the same';
    assert.equal(await present(await assertion({ jti })), 200);
    assert.equal(await present(await assertion({ jti, exp: seconds() + 100 })), 401);
  });

  test('an assertion sent twenty times concurrently is accepted once', async () => {
    const once = await assertion();
    const statuses = await Promise.all(Array.from({ length: 20 }, () => present(once)));
    assert.equal(statuses.filter((status) => status === 200).length, 1);
  });

  test('a used assertion with a fractional exp stays rejected', async () => {
    const once = await assertion({ exp: seconds() + 60.5 });
    assert.equal(await present(once), 200);
    const leftMs = (seconds() + 61) * 1000 - server.fixture.clock.now();
    server.fixture.clock.move(leftMs + LEEWAY_SECONDS * 1000 - 1);
    assert.equal(await present(once), 401);
  });

  test('a used assertion stays rejected until it has expired', async () => {
    const once = await assertion({ exp: seconds() + 300 });
    assert.equal(await present(once), 200);
    server.fixture.clock.move((300 + LEEWAY_SECONDS) * 1000 - 1);
    assert.equal(await present(once), 401);
    server.fixture.clock.move(1);
    assert.equal(await present(once), 401);
  });

  test('assertion exp: accepts at most five minutes', async () => {
    const far = seconds() + 300;
    assert.equal(await present(await assertion({ exp: far })), 200);
    assert.equal(await present(await assertion({ exp: far + LEEWAY_SECONDS + 1 })), 401);
    assert.equal(await present(await assertion({ exp: seconds() - LEEWAY_SECONDS })), 401);
  });

  test('an assertion with wrong or missing claims is rejected', async () => {
    const { clientId: managerId } = server.fixture.manager;
    for (const claims of [
      { iss: 'nobody', sub: 'nobody' },
      { iss: managerId, sub: managerId },
      { sub: 'other' },
      { sub: undefined },
      { iss: undefined, sub: undefined },
      { iss: 7, sub: 7 },
      { aud: 'https://other.example.com/' },
      { aud: `${server.issuer}api/v2/` },
      { aud: undefined },
      { aud: [] },
      { exp: undefined },
      { exp: '9999999999' },
      { exp: 1e300 },
      { nbf: seconds() + 60 },
      { jti: undefined },
      { jti: '' },
      { jti: 7 },
      { jti: 'x'.repeat(256) },
    ]) {
      assert.equal(await present(await assertion(claims)), 401, JSON.stringify(claims));
    }
    assert.equal(await present(await assertion(), { client_id: 'other' }), 401);
  });

  test('an assertion signed with another key, or unsigned, is rejected', async () => {
    const foreignKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    assert.equal(await present(await assertion({}, {}, foreignKey)), 401);
    assert.equal(await present(await assertion({}, { kid: 'unknown' })), 401);
    const publicKey = Buffer.from(JSON.stringify(await exportJWK(clientKeys.publicKey)));
    assert.equal(await present(await assertion({}, { alg: 'HS256' }, publicKey)), 401);
    const good = await assertion();
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    assert.equal(await present(`${none}.${good.split('.')[1]}.`), 401);
    const jwk = await exportJWK(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey);
    assert.equal(await present(await assertion({}, { jwk }, foreignKey)), 401);
  });

  test('an assertion that is not a JWT is rejected', async () => {
    for (const text of ['x', '..', 'e30.e30.', 'x'.repeat(10_000), '{}']) {
      assert.equal(await present(text), 401, text.slice(0, 20));
    }
  });

  test('an assertion without a kid is verified with every suitable key', async () => {
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const keys = await Promise.all(
      [other, rsa, clientKeys].map((pair) => exportJWK(pair.publicKey)),
    );
    const jwks = JSON.stringify({ keys });
    const client = await server.fixture.client({ jwks, secretHash: undefined }, ['read:users']);
    const claims = { iss: client.clientId, sub: client.clientId };
    assert.equal(await present(await assertion(claims)), 200);
    const foreignKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    assert.equal(await present(await assertion(claims, {}, foreignKey)), 401);
  });

  test('an assertion is not verified with a key that is for something else', async () => {
    const key = { ...(await exportJWK(clientKeys.publicKey)), kid: 'a' };
    for (const purpose of [{ use: 'enc' }, { key_ops: ['sign'] }, { key_ops: [] }]) {
      const jwks = JSON.stringify({ keys: [{ ...key, ...purpose }] });
      const client = await server.fixture.client({ jwks, secretHash: undefined }, []);
      const claims = { iss: client.clientId, sub: client.clientId };
      for (const header of [{}, { kid: 'a' }]) {
        assert.equal(await present(await assertion(claims, header)), 401, JSON.stringify(purpose));
      }
    }
  });

  test('an assertion without its type is rejected', async () => {
    for (const client_assertion_type of ['', 'jwt-bearer', 'urn:x']) {
      assert.equal(await present(await assertion(), { client_assertion_type }), 400);
    }
  });
});

describe('token endpoint', () => {
  test('token endpoint: accepts both paths and both encodings', async () => {
    for (const path of ['oauth/token', 'oauth/token/']) {
      const form = await post(goodForm(), {}, path);
      const json = await post(
        JSON.stringify(goodForm()),
        { 'content-type': 'application/json' },
        path,
      );
      for (const response of [form, json]) {
        assert.equal(response.status, 200);
        assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
        assert.equal(response.headers.get('cache-control'), 'no-store');
        assert.equal(response.headers.get('pragma'), 'no-cache');
        assert.equal(response.headers.get('x-ratelimit-limit'), '100');
      }
    }
  });

  async function errorOf(response: Response): Promise<unknown[]> {
    const body = (await response.json()) as Record<string, unknown>;
    assert.equal(response.headers.get('cache-control'), 'no-store');
    assert.equal(response.headers.get('pragma'), 'no-cache');
    assert.deepEqual(Object.keys(body), ['error', 'error_description']);
    return [response.status, body['error'], body['error_description']];
  }

  test('token endpoint: every 401 has a challenge, by whichever method the client authenticates', async () => {
    const { client_id, client_secret, ...rest } = goodForm();
    const challenge = `Basic realm="${new URL(server.issuer).host}"`;
    const plain = await post({ ...rest, client_id: `${client_id}`, client_secret: 'wrong' });
    assert.equal(plain.headers.get('www-authenticate'), challenge);
    assert.equal(plain.status, 401);
    const authorization = `Basic ${Buffer.from(`${client_secret}:x`).toString('base64')}`;
    const basic = await post(rest, { authorization });
    assert.equal(basic.headers.get('www-authenticate'), challenge);
    assert.equal(basic.status, 401);
  });

  test('token endpoint: accepts a body of 64 KiB and rejects a larger one', async () => {
    const type = { 'content-type': 'application/json' };
    const body = JSON.stringify(goodForm());
    const full = body.padEnd(65_536, ' ');
    assert.equal((await post(full, type)).status, 200);
    const response = await post(`${full} `, type);
    assert.deepEqual(await errorOf(response), [
      413,
      'invalid_request',
      'Payload Too Large: the limit of the body is 65536 bytes',
    ]);
    assert.equal(response.headers.get('x-ratelimit-limit'), '100');
  });

  test('token endpoint: rejects other media types, none, and bytes that are not UTF-8', async () => {
    for (const type of ['text/plain', 'application/xml', 'x', 'multipart/form-data; boundary=x']) {
      const response = await post('x', { 'content-type': type });
      const [status, error] = await errorOf(response);
      assert.deepEqual([status, error], [400, 'invalid_request'], type);
    }
    const untyped = await fetch(`${server.issuer}oauth/token`, { method: 'POST' });
    assert.deepEqual((await errorOf(untyped)).slice(0, 2), [400, 'invalid_request']);
    const bytes = new Uint8Array([0x7b, 0xff, 0x7d]);
    const broken = await post(bytes, { 'content-type': 'application/json' });
    assert.deepEqual(await errorOf(broken), [400, 'invalid_request', 'The body is not UTF-8']);
  });

  test('token endpoint: rejects a malformed Content-Type', async () => {
    const response = await raw('Content-Type: ;;\r\nContent-Length: 2\r\n\r\n{}');
    assert.match(response, /^HTTP\/1.1 400 /);
    assert.match(response, /^x-ratelimit-limit: 100\r$/m);
    assert.match(response, /^cache-control: no-store\r$/m);
    assert.match(response, /\{"error":"invalid_request",/);
  });

  test('token endpoint: checks the rate bucket of the address first', async () => {
    for (let number = 0; number < 100; number += 1) await post('x', { 'content-type': 'x/y' });
    const response = await post(goodForm());
    assert.equal(response.headers.get('retry-after'), '1');
    assert.equal(response.headers.get('x-ratelimit-remaining'), '0');
    assert.deepEqual(await errorOf(response), [429, 'too_many_requests', 'Too many requests']);
  });

  test('token endpoint: 503 while it shuts down and while the store is unavailable', async () => {
    server.isOpen = false;
    const ending = await post(goodForm());
    server.isOpen = true;
    server.failure = new StoreUnavailable('disk full at /secret/path');
    for (const response of [ending, await post(goodForm())]) {
      assert.equal(response.headers.get('retry-after'), '1');
      assert.equal(response.headers.get('x-ratelimit-limit'), '100');
      const unavailable = [503, 'temporarily_unavailable', 'Service Unavailable'];
      assert.deepEqual(await errorOf(response), unavailable);
    }
    assert.deepEqual(server.logged, []);
  });

  test('token endpoint: a 500 does not reveal its cause, which is logged', async () => {
    server.failure = new Error('secret cause');
    const failed = await post(goodForm());
    assert.deepEqual(await errorOf(failed), [500, 'server_error', 'Internal Server Error']);
    assert.deepEqual(server.logged, [server.failure]);
  });
});

/** Sends the rest of a token request byte for byte; returns everything that was received. */
async function raw(rest: string): Promise<string> {
  const { port } = new URL(server.issuer);
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(`POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${rest}`);
  let response = '';
  for await (const chunk of socket) response += String(chunk);
  return response;
}

describe('published documents', () => {
  test('published documents: a set without webhook keys must not be cached', async () => {
    const response = await fetch(`${server.issuer}.well-known/webhook-keys.json`);
    assert.deepEqual(await response.json(), { keys: [] });
    assert.equal(response.headers.get('cache-control'), 'no-store');
  });

  test('published documents: may be cached for five minutes', async () => {
    const { store, tenant: of, clock } = server.fixture;
    await createFirstKey(store.webhookKeys, of.id, clock.now(), webhookKeys);
    for (const path of [
      'jwks.json',
      'webhook-keys.json',
      'openid-configuration',
      'oauth-authorization-server',
    ]) {
      const response = await fetch(`${server.issuer}.well-known/${path}`);
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('cache-control'), 'public, max-age=300');
      assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
    }
  });

  test('both discovery documents are equal and have the required fields of either', async () => {
    const names = ['openid-configuration', 'oauth-authorization-server'];
    const [oidc, plain] = await Promise.all(
      names.map(async (name) => (await fetch(`${server.issuer}.well-known/${name}`)).json()),
    );
    assert.deepEqual(oidc, plain);
    assert.deepEqual(oidc, {
      issuer: server.issuer,
      token_endpoint: `${server.issuer}oauth/token`,
      jwks_uri: `${server.issuer}.well-known/jwks.json`,
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: [
        'client_secret_post',
        'client_secret_basic',
        'private_key_jwt',
      ],
      token_endpoint_auth_signing_alg_values_supported: ['RS256', 'PS256', 'ES256'],
      scopes_supported: managementScopes,
      response_types_supported: ['none'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    });
  });
});
