import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, before, beforeEach, describe, test } from 'node:test';
import fastify, { type FastifyInstance } from 'fastify';
import { createRemoteJWKSet, exportJWK, jwtVerify, SignJWT } from 'jose';
import * as oauth from 'oauth4webapi';
import { registerOauth } from '../../src/api/oauth.ts';
import { createRateLimiter } from '../../src/api/http/rate.ts';
import { createClientAddressReader } from '../../src/api/http/client-address.ts';
import type { ApiLimits } from '../../src/api/settings.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Tenant } from '../../src/core/types.ts';
import { type House, openHouse, plainHttp } from './fixture.ts';

const LEEWAY_SECONDS = 5;

interface Site {
  readonly app: FastifyInstance;
  readonly house: House;
  readonly issuer: string;
  /** Whether new requests are taken. */
  open: boolean;
  /** Thrown instead of naming the tenant. */
  broken: Error | undefined;
  /** What the log heard. */
  readonly logged: unknown[];
}

let site: Site;

beforeEach(async () => {
  site = await openSite();
});
afterEach(async () => {
  await site.app.close();
  await site.house.close();
});

/** The routes on a real listener; the tenant's domain is the listener's own address. */
async function openSite(): Promise<Site> {
  const app = fastify();
  const house = await openHouse();
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
  registerOauth(app, {
    tokenEndpoint: house.endpoint,
    keyring: house.keyring,
    tenants: { of: () => tenant() },
    limiter: createRateLimiter({ clock: house.clock, settings }),
    clientAddressOf: createClientAddressReader([]),
    settings,
    clock: house.clock,
    log: { error: (fields) => logged.push('err' in fields ? fields.err : undefined) },
    open: () => opened.open,
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const issuer = `http://localhost:${port}/`;
  const opened: Site = { app, house, issuer, open: true, broken: undefined, logged };
  const tenant = (): Tenant => {
    if (opened.broken !== undefined) throw opened.broken;
    return { ...house.tenant, domain: `localhost:${port}` };
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
  return fetch(site.issuer + path, { method: 'POST', body: sent, headers });
}

function goodForm(): Record<string, string> {
  const { clientId, clientSecret } = site.house.manager;
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
    const issuer = new URL(site.issuer);
    const answer = await oauth.discoveryRequest(issuer, { algorithm, ...loopback });
    return oauth.processDiscoveryResponse(issuer, answer);
  }

  async function tokenBy(
    clientId: string,
    authentication: oauth.ClientAuth,
  ): Promise<oauth.TokenEndpointResponse> {
    const server = await discover('oauth2');
    const client = { client_id: clientId };
    const parameters = { audience: '/api/v2/', scope: 'read:users' };
    const answer = await oauth.clientCredentialsGrantRequest(
      server,
      client,
      authentication,
      parameters,
      loopback,
    );
    return oauth.processClientCredentialsResponse(server, client, answer);
  }

  test('discovers the issuer by both documents', async () => {
    for (const algorithm of ['oidc', 'oauth2'] as const) {
      const { issuer, token_endpoint, jwks_uri, scopes_supported } = await discover(algorithm);
      assert.equal(issuer, site.issuer);
      assert.equal(token_endpoint, `${site.issuer}oauth/token`);
      assert.equal(jwks_uri, `${site.issuer}.well-known/jwks.json`);
      assert.deepEqual(scopes_supported, managementScopes);
    }
  });

  test('gets a token by a secret in the body and by one in the header', async () => {
    const { clientId, clientSecret } = site.house.manager;
    for (const method of [oauth.ClientSecretPost, oauth.ClientSecretBasic]) {
      const token = await tokenBy(clientId, method(clientSecret));
      assert.deepEqual([token.token_type, token.expires_in], ['bearer', 86_400]);
      assert.equal(token.scope, 'read:users');
    }
  });

  test('gets a token that the published keys verify', async () => {
    const { clientId, clientSecret } = site.house.manager;
    const { access_token: token } = await tokenBy(clientId, oauth.ClientSecretPost(clientSecret));
    const keys = createRemoteJWKSet(new URL(`${site.issuer}.well-known/jwks.json`));
    const { payload } = await jwtVerify(token, keys, {
      algorithms: ['RS256'],
      issuer: site.issuer,
      audience: site.issuer.replace('http:', 'https:') + 'api/v2/',
      currentDate: new Date(site.house.clock.now()),
    });
    assert.equal(payload['azp'], clientId);
  });

  test('gets a token by an assertion of each algorithm, with and without a kid', async () => {
    // The library takes the time from the machine, so the clock of the house goes there too.
    site.house.clock.move(Date.now() - site.house.clock.now());
    const jwks = JSON.stringify({
      keys: [
        { ...(await exportJWK(pairs.RS256.publicKey)), kid: 'rsa' },
        { ...(await exportJWK(pairs.ES256.publicKey)), kid: 'ec' },
      ],
    });
    const { clientId } = await site.house.client({ jwks, secretHash: undefined }, ['read:users']);
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

  test('understands a refusal', async () => {
    const { clientId } = site.house.manager;
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

describe('a client assertion', () => {
  let own: { privateKey: KeyObject; publicKey: KeyObject };
  let clientId: string;
  before(() => {
    own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  });
  beforeEach(async () => {
    const jwks = JSON.stringify({ keys: [await exportJWK(own.publicKey)] });
    ({ clientId } = await site.house.client({ jwks, secretHash: undefined }, ['read:users']));
  });

  const seconds = (): number => Math.floor(site.house.clock.now() / 1000);
  const goodClaims = (): Record<string, unknown> => ({
    iss: clientId,
    sub: clientId,
    aud: site.issuer,
    jti: crypto.randomUUID(),
    exp: seconds() + 60,
  });
  const assertion = (
    claims: object = {},
    header: object = {},
    key: KeyObject | Uint8Array = own.privateKey,
  ): Promise<string> =>
    new SignJWT({ ...goodClaims(), ...claims })
      .setProtectedHeader({ alg: 'ES256', ...header })
      .sign(key);
  const present = async (
    client_assertion: string,
    more: Record<string, string> = {},
  ): Promise<number> => {
    const answer = await post({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion,
      ...more,
    });
    const { error } = (await answer.json()) as { error?: string };
    if (answer.status === 401) assert.equal(error, 'invalid_client');
    return answer.status;
  };

  test('is good for the issuer and for both paths of the token endpoint, also as https', async () => {
    const https = site.issuer.replace('http:', 'https:');
    for (const base of [site.issuer, https]) {
      for (const aud of [base, `${base}oauth/token`, `${base}oauth/token/`, [base]]) {
        assert.equal(await present(await assertion({ aud })), 200, String(aud));
      }
    }
    assert.equal(await present(await assertion(), { client_id: clientId }), 200);
  });

  test('is good once', async () => {
    const once = await assertion();
    assert.equal(await present(once), 200);
    assert.equal(await present(once), 401);
    const jti = 'the same';
    assert.equal(await present(await assertion({ jti })), 200);
    assert.equal(await present(await assertion({ jti, exp: seconds() + 100 })), 401);
  });

  test('sent twenty times at once is good once', async () => {
    const once = await assertion();
    const statuses = await Promise.all(Array.from({ length: 20 }, () => present(once)));
    assert.equal(statuses.filter((status) => status === 200).length, 1);
  });

  test('stays used until then also when its end is no whole second', async () => {
    const once = await assertion({ exp: seconds() + 60.5 });
    assert.equal(await present(once), 200);
    const leftMs = (seconds() + 61) * 1000 - site.house.clock.now();
    site.house.clock.move(leftMs + LEEWAY_SECONDS * 1000 - 1);
    assert.equal(await present(once), 401);
  });

  test('stays used until nobody would accept it any more', async () => {
    const once = await assertion({ exp: seconds() + 300 });
    assert.equal(await present(once), 200);
    site.house.clock.move((300 + LEEWAY_SECONDS) * 1000 - 1);
    assert.equal(await present(once), 401);
    site.house.clock.move(1);
    assert.equal(await present(once), 401);
  });

  test('of five minutes at most is accepted', async () => {
    const far = seconds() + 300;
    assert.equal(await present(await assertion({ exp: far })), 200);
    assert.equal(await present(await assertion({ exp: far + LEEWAY_SECONDS + 1 })), 401);
    assert.equal(await present(await assertion({ exp: seconds() - LEEWAY_SECONDS })), 401);
  });

  test('with wrong or missing claims is refused', async () => {
    const { clientId: managerId } = site.house.manager;
    for (const claims of [
      { iss: 'nobody', sub: 'nobody' },
      { iss: managerId, sub: managerId },
      { sub: 'other' },
      { sub: undefined },
      { iss: undefined, sub: undefined },
      { iss: 7, sub: 7 },
      { aud: 'https://other.example.com/' },
      { aud: `${site.issuer}api/v2/` },
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

  test('that another key signed, or no key, is refused', async () => {
    const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    assert.equal(await present(await assertion({}, {}, stranger)), 401);
    assert.equal(await present(await assertion({}, { kid: 'unknown' })), 401);
    const publicKey = Buffer.from(JSON.stringify(await exportJWK(own.publicKey)));
    assert.equal(await present(await assertion({}, { alg: 'HS256' }, publicKey)), 401);
    const good = await assertion();
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    assert.equal(await present(`${none}.${good.split('.')[1]}.`), 401);
    const jwk = await exportJWK(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey);
    assert.equal(await present(await assertion({}, { jwk }, stranger)), 401);
  });

  test('that is no JWT is refused', async () => {
    for (const text of ['x', '..', 'e30.e30.', 'x'.repeat(10_000), '{}']) {
      assert.equal(await present(text), 401, text.slice(0, 20));
    }
  });

  test('is tried with every key that fits when it names none', async () => {
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const keys = await Promise.all([other, rsa, own].map((pair) => exportJWK(pair.publicKey)));
    const jwks = JSON.stringify({ keys });
    const client = await site.house.client({ jwks, secretHash: undefined }, ['read:users']);
    const claims = { iss: client.clientId, sub: client.clientId };
    assert.equal(await present(await assertion(claims)), 200);
    const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    assert.equal(await present(await assertion(claims, {}, stranger)), 401);
  });

  test('needs its type', async () => {
    for (const client_assertion_type of ['', 'jwt-bearer', 'urn:x']) {
      assert.equal(await present(await assertion(), { client_assertion_type }), 400);
    }
  });
});

describe('the token endpoint', () => {
  test('answers on both paths, in both encodings', async () => {
    for (const path of ['oauth/token', 'oauth/token/']) {
      const form = await post(goodForm(), {}, path);
      const json = await post(
        JSON.stringify(goodForm()),
        { 'content-type': 'application/json' },
        path,
      );
      for (const answer of [form, json]) {
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
        assert.equal(answer.headers.get('cache-control'), 'no-store');
        assert.equal(answer.headers.get('pragma'), 'no-cache');
        assert.equal(answer.headers.get('x-ratelimit-limit'), '100');
      }
    }
  });

  async function refusal(answer: Response): Promise<unknown[]> {
    const body = (await answer.json()) as Record<string, unknown>;
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.equal(answer.headers.get('pragma'), 'no-cache');
    assert.deepEqual(Object.keys(body), ['error', 'error_description']);
    return [answer.status, body['error'], body['error_description']];
  }

  test('challenges only a client that used Basic', async () => {
    const { client_id, client_secret, ...rest } = goodForm();
    const plain = await post({ ...rest, client_id: `${client_id}`, client_secret: 'wrong' });
    assert.equal(plain.headers.get('www-authenticate'), null);
    assert.equal(plain.status, 401);
    const authorization = `Basic ${Buffer.from(`${client_secret}:x`).toString('base64')}`;
    const basic = await post(rest, { authorization });
    assert.equal(basic.headers.get('www-authenticate'), 'Basic');
    assert.equal(basic.status, 401);
  });

  test('takes 64 KiB and refuses more', async () => {
    const type = { 'content-type': 'application/json' };
    const body = JSON.stringify(goodForm());
    const full = body.padEnd(65_536, ' ');
    assert.equal((await post(full, type)).status, 200);
    const answer = await post(`${full} `, type);
    assert.deepEqual(await refusal(answer), [413, 'invalid_request', 'Payload Too Large']);
    assert.equal(answer.headers.get('x-ratelimit-limit'), '100');
  });

  test('refuses other media types, none at all, and bytes that are no text', async () => {
    for (const type of ['text/plain', 'application/xml', 'x', 'multipart/form-data; boundary=x']) {
      const answer = await post('x', { 'content-type': type });
      const [status, error] = await refusal(answer);
      assert.deepEqual([status, error], [400, 'invalid_request'], type);
    }
    const untyped = await fetch(`${site.issuer}oauth/token`, { method: 'POST' });
    assert.deepEqual((await refusal(untyped)).slice(0, 2), [400, 'invalid_request']);
    const bytes = new Uint8Array([0x7b, 0xff, 0x7d]);
    const broken = await post(bytes, { 'content-type': 'application/json' });
    assert.deepEqual(await refusal(broken), [400, 'invalid_request', 'The body is not UTF-8']);
  });

  test('refuses a Content-Type that means nothing', async () => {
    const answer = await raw('Content-Type: ;;\r\nContent-Length: 2\r\n\r\n{}');
    assert.match(answer, /^HTTP\/1.1 400 /);
    assert.match(answer, /^x-ratelimit-limit: 100\r$/m);
    assert.match(answer, /^cache-control: no-store\r$/m);
    assert.match(answer, /\{"error":"invalid_request",/);
  });

  test('asks the bucket of the address before anything else', async () => {
    for (let number = 0; number < 100; number += 1) await post('x', { 'content-type': 'x/y' });
    const answer = await post(goodForm());
    assert.equal(answer.headers.get('retry-after'), '1');
    assert.equal(answer.headers.get('x-ratelimit-remaining'), '0');
    assert.deepEqual(await refusal(answer), [429, 'too_many_requests', 'Too many requests']);
  });

  test('apologises while it ends and while the store cannot be reached', async () => {
    site.open = false;
    const ending = await post(goodForm());
    site.open = true;
    site.broken = new StoreUnavailable('disk full at /secret/path');
    for (const answer of [ending, await post(goodForm())]) {
      assert.equal(answer.headers.get('retry-after'), '1');
      assert.equal(answer.headers.get('x-ratelimit-limit'), '100');
      const apology = [503, 'temporarily_unavailable', 'Service Unavailable'];
      assert.deepEqual(await refusal(answer), apology);
    }
    assert.deepEqual(site.logged, []);
  });

  test('says nothing of what broke: the cause goes to the log', async () => {
    site.broken = new Error('secret cause');
    const failed = await post(goodForm());
    assert.deepEqual(await refusal(failed), [500, 'server_error', 'Internal Server Error']);
    assert.deepEqual(site.logged, [site.broken]);
  });
});

/** Sends the rest of a token request as it is written here, and answers all that comes back. */
async function raw(rest: string): Promise<string> {
  const { port } = new URL(site.issuer);
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(`POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${rest}`);
  let answer = '';
  for await (const chunk of socket) answer += String(chunk);
  return answer;
}

describe('the published documents', () => {
  test('may be cached for five minutes', async () => {
    for (const path of ['jwks.json', 'openid-configuration', 'oauth-authorization-server']) {
      const answer = await fetch(`${site.issuer}.well-known/${path}`);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('cache-control'), 'public, max-age=300');
      assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    }
  });

  test('say the same, with the members that either needs', async () => {
    const names = ['openid-configuration', 'oauth-authorization-server'];
    const [oidc, plain] = await Promise.all(
      names.map(async (name) => (await fetch(`${site.issuer}.well-known/${name}`)).json()),
    );
    assert.deepEqual(oidc, plain);
    assert.deepEqual(oidc, {
      issuer: site.issuer,
      token_endpoint: `${site.issuer}oauth/token`,
      jwks_uri: `${site.issuer}.well-known/jwks.json`,
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: [
        'client_secret_post',
        'client_secret_basic',
        'private_key_jwt',
      ],
      token_endpoint_auth_signing_alg_values_supported: ['RS256', 'PS256', 'ES256'],
      scopes_supported: managementScopes,
      response_types_supported: [],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    });
  });
});
