import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, pipeline, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { createGzip } from 'node:zlib';
import { before, describe, test, type TestContext } from 'node:test';
import { exportJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import type { FetchDeps } from '../../src/auth/bounded-fetch.ts';
import type { Claims } from '../../src/core/claim-path.ts';
import { createOpenIdProvider, type OpenIdProvider } from '../../src/auth/openid-provider.ts';
import type { Clock } from '../../src/core/clock.ts';
import { systemClock } from '../../src/clock.ts';
import { limits } from '../../src/config.ts';
import { createManualClock } from '../helpers/clock.ts';
import { consoleClient, signInAt, startIdentityProvider } from '../helpers/identity-provider.ts';
import { waitFor } from '../helpers/wait.ts';

const login = {
  redirectUri: 'http://localhost:8080/console/callback',
  state: 's'.repeat(43),
  nonce: 'n'.repeat(43),
  codeVerifier: 'v'.repeat(43),
};

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** A provider whose responses a test replaces. */
interface HostileProvider {
  readonly issuer: string;
  /** By path; each responds as an honest provider would until a test replaces it. */
  readonly handlers: Record<string, Handler>;
  /** Bodies of token requests, with their `Authorization`. */
  readonly tokenRequests: { readonly authorization: string | undefined; readonly body: string }[];
  /** Fields of the discovery document. */
  metadata: Record<string, unknown>;
  /** Claims of the ID token. */
  claims: JWTPayload;
  /** Makes the ID token. */
  sign: (claims: JWTPayload) => Promise<string>;
  /** How often each path was requested. */
  readonly counts: Record<string, number>;
}

let pair: { privateKey: KeyObject; publicKey: KeyObject };
let otherKey: KeyObject;
before(() => {
  pair = generateKeyPairSync('rsa', { modulusLength: 2048 });
  otherKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
});

function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function signWith(key: KeyObject, header: object = {}): HostileProvider['sign'] {
  return (claims) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'key-1', ...header }).sign(key);
}

async function startHostileProvider(t: TestContext): Promise<HostileProvider> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const second = Math.floor(Date.now() / 1000);
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: 'key-1', use: 'sig', alg: 'RS256' };
  const provider: HostileProvider = {
    issuer,
    tokenRequests: [],
    counts: {},
    metadata: {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      userinfo_endpoint: `${issuer}/userinfo`,
      jwks_uri: `${issuer}/jwks`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    },
    claims: {
      iss: issuer,
      aud: consoleClient.id,
      sub: 'eve',
      nonce: login.nonce,
      iat: second,
      exp: second + 300,
      groups: ['admins'],
    },
    sign: signWith(pair.privateKey),
    handlers: {
      '/.well-known/openid-configuration': (_request, response) => {
        json(response, provider.metadata);
      },
      '/jwks': (_request, response) => json(response, { keys: [jwk] }),
      '/token': async (request, response) => {
        const { authorization } = request.headers;
        provider.tokenRequests.push({ authorization, body: await text(request) });
        const idToken = await provider.sign(provider.claims);
        json(response, { access_token: 'at', token_type: 'Bearer', id_token: idToken });
      },
      '/userinfo': (_request, response) => json(response, { sub: 'eve', email: 'eve@example.com' }),
    },
  };
  server.on('request', (request, response) => {
    const { pathname } = new URL(request.url ?? '', issuer);
    provider.counts[pathname] = (provider.counts[pathname] ?? 0) + 1;
    void provider.handlers[pathname]?.(request, response);
  });
  return provider;
}

function clientOf(
  issuer: string,
  clock: Clock = systemClock,
  fetchFrom: FetchDeps['fetch'] = fetch,
  scopes?: readonly string[],
): OpenIdProvider {
  return createOpenIdProvider({
    fetch: fetchFrom,
    clock,
    settings: { issuer, clientId: consoleClient.id, clientSecret: consoleClient.secret, scopes },
    limits: limits.consoleLogin,
  });
}

const honestQuery = (issuer: string): string =>
  `?${new URLSearchParams({ code: 'c', state: login.state, iss: issuer }).toString()}`;

interface SignIn {
  readonly query?: string;
  readonly wanted?: readonly string[];
  readonly clock?: Clock;
}

function signIn(
  provider: HostileProvider,
  { query = honestQuery(provider.issuer), wanted = ['groups'], clock = systemClock }: SignIn,
): ReturnType<OpenIdProvider['claims']> {
  return clientOf(provider.issuer, clock).claims(login, query, new Set(wanted));
}

/** Returns why nobody is signed in, `<failure>: <reason>`. */
async function failureIn(provider: HostileProvider, options: SignIn = {}): Promise<string> {
  const outcome = await signIn(provider, options);
  assert.ok('failure' in outcome, 'somebody is signed in');
  assert.ok(outcome.reason.length <= 500, outcome.reason);
  for (const secret of [consoleClient.secret, login.codeVerifier, login.nonce, 'eyJ']) {
    assert.ok(!outcome.reason.includes(secret), outcome.reason);
  }
  return `${outcome.failure}: ${outcome.reason}`;
}

async function claimsIn(provider: HostileProvider, options: SignIn = {}): Promise<Claims> {
  const outcome = await signIn(provider, options);
  assert.ok('claims' in outcome, JSON.stringify(outcome));
  return outcome.claims;
}

test('OpenIdProvider: signs in at a real provider with PKCE, and reads claims from the userinfo endpoint', async (t) => {
  const provider = await startIdentityProvider({
    people: { eve: { email: 'eve@example.com', email_verified: true, groups: ['admins'] } },
    redirectUris: [login.redirectUri],
  });
  t.after(() => provider.close());
  const client = clientOf(provider.issuer);
  const begun = await client.authorizationUrl(login);
  assert.ok('url' in begun);
  const query = Object.fromEntries(begun.url.searchParams);
  assert.deepEqual(
    { ...query, code_challenge: undefined },
    {
      client_id: consoleClient.id,
      redirect_uri: login.redirectUri,
      response_type: 'code',
      scope: 'openid email profile groups',
      state: login.state,
      nonce: login.nonce,
      code_challenge: undefined,
      code_challenge_method: 'S256',
    },
  );
  assert.match(query['code_challenge'] ?? '', /^[A-Za-z0-9_-]{43}$/);
  const back = await signInAt(begun.url.href, 'eve');
  const wanted = new Set(['groups']);
  const outcome = await client.claims(login, back.search, wanted);
  assert.ok('claims' in outcome, JSON.stringify(outcome));
  const { sub, email, groups } = outcome.claims;
  assert.deepEqual(
    { sub, email, groups },
    { sub: 'eve', email: 'eve@example.com', groups: ['admins'] },
  );

  assert.equal(provider.requests.filter((path) => path === '/me').length, 1);
  const again = await client.claims(login, back.search, wanted);
  assert.ok('failure' in again);
  assert.equal(again.failure, 'failed', 'a code counts once');
  assert.match(again.reason, /invalid_grant/);
});

test('OpenIdProvider: a code of another verifier is not redeemed', async (t) => {
  const provider = await startIdentityProvider({
    people: { eve: { email: 'eve@example.com' } },
    redirectUris: [login.redirectUri],
    inIdToken: true,
  });
  t.after(() => provider.close());
  const client = clientOf(provider.issuer);
  const begun = await client.authorizationUrl(login);
  assert.ok('url' in begun);
  const back = await signInAt(begun.url.href, 'eve');
  const other = { ...login, codeVerifier: 'w'.repeat(43) };
  const outcome = await client.claims(other, back.search, new Set());
  assert.ok('failure' in outcome && outcome.failure === 'failed');
});

test('OpenIdProvider: asks for the scopes of the setting, and for no others', async (t) => {
  const provider = await startHostileProvider(t);
  provider.metadata['scopes_supported'] = ['openid', 'groups'];
  const scopes = ['openid', 'urn:zitadel:iam:org:project:roles'];
  const client = clientOf(provider.issuer, systemClock, fetch, scopes);
  const begun = await client.authorizationUrl(login);
  assert.ok('url' in begun);
  assert.equal(begun.url.searchParams.get('scope'), scopes.join(' '));
});

describe('the discovery document', () => {
  test('the discovery document is fetched by the first sign-in, once, and again after ten minutes', async (t) => {
    const provider = await startHostileProvider(t);
    const clock = createManualClock();
    const client = clientOf(provider.issuer, clock);
    const fetched = (): number => provider.counts['/.well-known/openid-configuration'] ?? 0;
    assert.equal(fetched(), 0);
    await Promise.all([client.authorizationUrl(login), client.authorizationUrl(login)]);
    clock.move(599_999);
    await client.authorizationUrl(login);
    assert.equal(fetched(), 1);
    clock.move(1);
    await client.authorizationUrl(login);
    assert.equal(fetched(), 2);
  });

  test('a failure to fetch the discovery document is not kept', async (t) => {
    const provider = await startHostileProvider(t);
    const honest = provider.handlers['/.well-known/openid-configuration'];
    provider.handlers['/.well-known/openid-configuration'] = (_request, response) => {
      response.writeHead(503).end();
    };
    const client = clientOf(provider.issuer);
    const failed = await client.authorizationUrl(login);
    assert.ok('failure' in failed && failed.failure === 'provider_unavailable');
    assert.match(failed.reason, /openid-configuration: status 503/);
    Object.assign(provider.handlers, { '/.well-known/openid-configuration': honest });
    assert.ok('url' in (await client.authorizationUrl(login)));
  });

  const wrong: [name: string, change: (metadata: Record<string, unknown>) => void][] = [
    ['another issuer', (metadata) => (metadata['issuer'] = 'https://other.example')],
    [
      'the issuer with a path',
      (metadata) => (metadata['issuer'] = `${String(metadata['issuer'])}/a`),
    ],
    [
      'a placeholder as its issuer',
      (metadata) => (metadata['issuer'] = 'https://x.example/{tenantid}'),
    ],
    ['no issuer', (metadata) => delete metadata['issuer']],
  ];
  for (const [name, change] of wrong) {
    test(`a discovery document with ${name} is not used`, async (t) => {
      const provider = await startHostileProvider(t);
      change(provider.metadata);
      assert.match(await failureIn(provider), /^provider_unavailable: /);
      assert.equal(provider.counts['/token'], undefined);
    });
  }

  test('a discovery document for any customer of a provider is not used', async (t) => {
    const provider = await startHostileProvider(t);
    const common = 'https://login.microsoftonline.com/common/v2.0';
    provider.metadata['issuer'] = 'https://login.microsoftonline.com/{tenantid}/v2.0';
    const client = clientOf(common, systemClock, (url, init) =>
      fetch(url.replace(common, provider.issuer), init),
    );
    const outcome = await client.authorizationUrl(login);
    assert.ok('failure' in outcome && outcome.failure === 'provider_unavailable');
    assert.match(outcome.reason, /of another issuer, .*\{tenantid\}/);
  });

  const unusable: [name: string, handler: Handler][] = [
    ['100 MB long', (_request, response) => flood(response)],
    ['endless when decompressed', (_request, response) => flood(response, 'gzip')],
    [
      'a redirect',
      (_request, response) => void response.writeHead(302, { location: '/other' }).end(),
    ],
    [
      'HTML',
      (_request, response) =>
        void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    [
      'no JSON',
      (_request, response) =>
        void response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    ],
    ['cut off', (_request, response) => cutOff(response)],
    ['an array', (_request, response) => json(response, [])],
    ['missing', (_request, response) => void response.writeHead(404).end()],
  ];
  for (const [name, handler] of unusable) {
    test(`a discovery document that is ${name} is not used`, async (t) => {
      const provider = await startHostileProvider(t);
      provider.handlers['/.well-known/openid-configuration'] = handler;
      const outcome = await clientOf(provider.issuer).authorizationUrl(login);
      assert.ok('failure' in outcome);
      assert.equal(outcome.failure, 'provider_unavailable');
      assert.equal(provider.counts['/other'], undefined);
    });
  }

  test('an endpoint over plain HTTP that is not on loopback is not requested', async (t) => {
    const provider = await startHostileProvider(t);
    provider.metadata['token_endpoint'] = 'http://192.0.2.1/token';
    assert.match(
      await failureIn(provider),
      /^provider_unavailable: .*192\.0\.2\.1\/token: it is not an https URL/,
    );
  });
});

/** Writes 100 MB, compressed with `gzip` to 100 kB. */
function flood(response: ServerResponse, encoding?: 'gzip'): void {
  const encodings = encoding === undefined ? {} : { 'content-encoding': encoding };
  response.writeHead(200, { 'content-type': 'application/json', ...encodings });
  const chunk = Buffer.alloc(1_048_576, ' ');
  const chunks = Array.from({ length: 100 }, () => chunk);
  const through = encoding === undefined ? new PassThrough() : createGzip();
  // The client closes the connection.
  pipeline(Readable.from(chunks), through, response, () => {});
}

function cutOff(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
  response.write('{"issuer":', () => response.destroy());
}

describe('the response of the provider', () => {
  const queries: [
    name: string,
    query: (issuer: string) => Record<string, string>,
    outcome: RegExp,
  ][] = [
    ['another state', (iss) => ({ code: 'c', state: 'x'.repeat(43), iss }), /^failed: /],
    ['no state', (iss) => ({ code: 'c', iss }), /^failed: /],
    [
      'the issuer of another provider',
      () => ({ code: 'c', state: login.state, iss: 'https://other.example' }),
      /^failed: /,
    ],
    ['no code', (iss) => ({ state: login.state, iss }), /^failed: /],
    [
      'an ID token of the browser',
      (iss) => ({ code: 'c', state: login.state, iss, id_token: 'x.y.z' }),
      /^failed: /,
    ],
    [
      'access_denied',
      (iss) => ({ error: 'access_denied', state: login.state, iss }),
      /^access_denied: /,
    ],
    [
      'access_denied of another sign-in',
      (iss) => ({ error: 'access_denied', state: 'x', iss }),
      /^failed: /,
    ],
    [
      'server_error',
      (iss) => ({ error: 'server_error', state: login.state, iss }),
      /^provider_unavailable: /,
    ],
    ['an unknown error', (iss) => ({ error: 'constructor', state: login.state, iss }), /^failed: /],
    [
      'an error with control characters',
      (iss) => ({ error: 'a\nb\u202E', state: login.state, iss }),
      /^failed: .*a\\nb\\u\{202e\}/,
    ],
  ];
  for (const [name, query, expected] of queries) {
    test(`a response with ${name} signs nobody in`, async (t) => {
      const provider = await startHostileProvider(t);
      const search = `?${new URLSearchParams(query(provider.issuer)).toString()}`;
      assert.match(await failureIn(provider, { query: search }), expected);
      assert.ok(name === 'no code' || provider.counts['/token'] === undefined);
    });
  }

  test('a response with a second code or state signs nobody in', async (t) => {
    const provider = await startHostileProvider(t);
    for (const more of ['&state=x', `&code=d`, '&iss=https://other.example']) {
      const query = honestQuery(provider.issuer) + more;
      assert.match(await failureIn(provider, { query }), /^failed: /, more);
    }
    assert.equal(provider.counts['/token'], undefined);
  });

  test('a response without issuer signs nobody in where the provider says that it sends one', async (t) => {
    const provider = await startHostileProvider(t);
    const query = `?code=c&state=${login.state}`;
    await claimsIn(provider, { query });
    provider.metadata['authorization_response_iss_parameter_supported'] = true;
    assert.match(await failureIn(provider, { query }), /^failed: /);
  });
});

describe('the ID token', () => {
  test('the ID token of an honest provider signs in', async (t) => {
    const provider = await startHostileProvider(t);
    const claims = await claimsIn(provider);
    assert.deepEqual(claims['groups'], ['admins']);
    assert.equal(provider.counts['/userinfo'], undefined, 'nothing was missing');
  });

  const changes: [name: string, change: (claims: JWTPayload) => void][] = [
    ['another issuer', (claims) => (claims.iss = 'https://other.example')],
    ['another authorized party with one audience', (claims) => (claims['azp'] = 'another-client')],
    ['another audience', (claims) => (claims.aud = 'another-client')],
    [
      'two audiences and no authorized party',
      (claims) => (claims.aud = [consoleClient.id, 'another-client']),
    ],
    [
      'another authorized party with two audiences',
      (claims) => {
        claims.aud = [consoleClient.id, 'another-client'];
        claims['azp'] = 'another-client';
      },
    ],
    ['another nonce', (claims) => (claims['nonce'] = 'x'.repeat(43))],
    ['no nonce', (claims) => delete claims['nonce']],
    ['no subject', (claims) => delete claims.sub],
    ['no end', (claims) => delete claims.exp],
    ['a past end', (claims) => (claims.exp = (claims.iat ?? 0) - 3600)],
    ['a future beginning', (claims) => (claims.nbf = (claims.iat ?? 0) + 3600)],
  ];
  for (const [name, change] of changes) {
    test(`an ID token with ${name} signs nobody in`, async (t) => {
      const provider = await startHostileProvider(t);
      change(provider.claims);
      assert.match(await failureIn(provider), /^failed: /);
    });
  }

  const forgeries: [name: string, sign: () => HostileProvider['sign'], algorithms?: string[]][] = [
    ['without a signature', () => async (claims) => new UnsecuredJWT(claims).encode()],
    [
      'without a signature, which the provider announces',
      () => async (claims) => new UnsecuredJWT(claims).encode(),
      ['RS256', 'none'],
    ],
    ['signed by another key', () => signWith(otherKey)],
    ['signed by an unknown key', () => signWith(otherKey, { kid: 'key-2' })],
    [
      'signed by the secret of the client',
      () => signWithSecret(consoleClient.secret),
      ['RS256', 'HS256'],
    ],
    [
      'signed by the public key as a secret',
      () => signWithSecret(pair.publicKey.export({ type: 'spki', format: 'pem' })),
      ['RS256', 'HS256'],
    ],
    ['that is no JWT', () => async () => 'nonsense'],
    [
      'with a changed payload',
      () => async (claims) => {
        const [header, , signature] = (await signWith(pair.privateKey)(claims)).split('.');
        const forged = Buffer.from(JSON.stringify({ ...claims, sub: 'root' })).toString(
          'base64url',
        );
        return [header, forged, signature].join('.');
      },
    ],
  ];
  for (const [name, sign, algorithms] of forgeries) {
    test(`an ID token ${name} signs nobody in`, async (t) => {
      const provider = await startHostileProvider(t);
      provider.sign = sign();
      if (algorithms !== undefined) {
        provider.metadata['id_token_signing_alg_values_supported'] = algorithms;
      }
      assert.match(await failureIn(provider), /^failed: /);
    });
  }

  test('a token response without an ID token signs nobody in', async (t) => {
    const provider = await startHostileProvider(t);
    provider.handlers['/token'] = (_request, response) =>
      json(response, { access_token: 'at', token_type: 'Bearer' });
    assert.match(await failureIn(provider), /^failed: /);
  });
});

function signWithSecret(secret: string): HostileProvider['sign'] {
  return (claims) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'key-1' })
      .sign(new TextEncoder().encode(secret));
}

describe('the requests to the provider', () => {
  for (const path of ['/token', '/jwks', '/userinfo']) {
    test(`a response of ${path} that is too long, broken or an error signs nobody in`, async (t) => {
      const provider = await startHostileProvider(t);
      // A busy machine may take longer than the 5 s of the next test.
      const options = { wanted: ['groups', 'email'], clock: createManualClock() };
      provider.handlers[path] = (_request, response) => flood(response);
      assert.match(
        await failureIn(provider, options),
        /^provider_unavailable: .*more than 262144 bytes/,
      );
      provider.handlers[path] = (_request, response) => void response.destroy();
      assert.match(await failureIn(provider, options), /^provider_unavailable: /);
      provider.handlers[path] = (_request, response) => json(response, {}, 500);
      assert.match(await failureIn(provider, options), /^provider_unavailable: /);
      provider.handlers[path] = (_request, response) => json(response, { error: 'no' }, 400);
      assert.match(await failureIn(provider, options), /^failed: /);
    });

    test(`a response of ${path} that never comes is waited for no longer than 5 s`, async (t) => {
      const provider = await startHostileProvider(t);
      provider.handlers[path] = () => {};
      const clock = createManualClock();
      const failure = failureIn(provider, { wanted: ['groups', 'email'], clock });
      await waitFor('the request', () => (provider.counts[path] ?? 0) > 0);
      await clock.advance(5_000);
      assert.match(await failure, /^provider_unavailable: .*no response within 5000 ms/);
      assert.equal(clock.pending, 0);
    });
  }

  test('the client authenticates in the header, and in the body where the provider lists no other way', async (t) => {
    const provider = await startHostileProvider(t);
    await claimsIn(provider);
    provider.metadata['token_endpoint_auth_methods_supported'] = ['client_secret_post'];
    await claimsIn(provider);
    const [basic, post] = provider.tokenRequests;
    assert.match(basic?.authorization ?? '', /^Basic /);
    assert.equal(post?.authorization, undefined);
    const body = new URLSearchParams(post?.body);
    assert.equal(body.get('client_secret'), consoleClient.secret);
    assert.equal(body.get('code_verifier'), login.codeVerifier);
    assert.equal(body.get('redirect_uri'), login.redirectUri);
    assert.ok(!(basic?.body ?? '').includes('client_secret'));
  });

  test('an error of the token endpoint is reported with its code and without the rest', async (t) => {
    const provider = await startHostileProvider(t);
    const error = { error: 'invalid_client', error_description: login.codeVerifier };
    provider.handlers['/token'] = (_request, response) => json(response, error, 401);
    assert.match(await failureIn(provider), /^failed: .*invalid_client/);
  });
});

describe('the userinfo endpoint', () => {
  test('the userinfo endpoint adds claims to those of the ID token and replaces none', async (t) => {
    const provider = await startHostileProvider(t);
    provider.handlers['/userinfo'] = (_request, response) =>
      json(response, { sub: 'eve', email: 'eve@example.com', groups: ['others'] });
    const claims = await claimsIn(provider, { wanted: ['groups', 'email'] });
    assert.deepEqual([claims['email'], claims['groups']], ['eve@example.com', ['admins']]);
  });

  test('the userinfo endpoint can say that an address of the ID token is not verified', async (t) => {
    const provider = await startHostileProvider(t);
    provider.claims['email'] = 'eve@example.com';
    provider.handlers['/userinfo'] = (_request, response) =>
      json(response, { sub: 'eve', email: 'eve@example.com', email_verified: false });
    const claims = await claimsIn(provider, { wanted: ['department'] });
    assert.equal(claims['email_verified'], false);
  });

  test('userinfo of another subject signs nobody in', async (t) => {
    const provider = await startHostileProvider(t);
    provider.handlers['/userinfo'] = (_request, response) =>
      json(response, { sub: 'mallory', email: 'eve@example.com' });
    assert.match(await failureIn(provider, { wanted: ['email'] }), /^failed: /);
  });

  test('a provider without userinfo endpoint signs in with the claims of the ID token', async (t) => {
    const provider = await startHostileProvider(t);
    delete provider.metadata['userinfo_endpoint'];
    const claims = await claimsIn(provider, { wanted: ['email'] });
    assert.equal(claims['email'], undefined);
  });
});
