import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { type Credentials, hashSecret } from '../../src/auth/clients.ts';
import { createTokenVerifier } from '../../src/auth/signature.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { managementApiId, type Api } from '../../src/core/types.ts';
import { type TokenResult, type AuthFixture, openAuthFixture, secondTenant } from './fixture.ts';

const AUDIENCE = 'https://leat.example.com/api/v2/';
const MESSAGES = 'https://messages.example.com';

let fixture: AuthFixture;

beforeEach(async () => {
  fixture = await openAuthFixture();
});
afterEach(() => fixture.close());

/** Requests a token with the bootstrap client's secret in the body; omits `undefined` parameters. */
function requestToken(
  parameters: Record<string, string | undefined> = {},
  authorization?: string,
): Promise<TokenResult> {
  const all = {
    grant_type: 'client_credentials',
    client_id: fixture.manager.clientId,
    client_secret: fixture.manager.clientSecret,
    audience: AUDIENCE,
    ...parameters,
  };
  const sent = Object.entries(all).filter((entry): entry is [string, string] => !!entry[1]);
  return fixture.requestToken(Object.fromEntries(sent), authorization);
}

const FORM = 'application/x-www-form-urlencoded';

/** Sends a body as it is. */
async function send(
  body: string,
  contentType?: string,
  authorization?: string,
): Promise<TokenResult> {
  const { tenant, clock } = fixture;
  const request = { tenant, authorization, contentType, body, now: clock.now() };
  return (await fixture.endpoint.issue(request)).response as TokenResult;
}

function refused(status: number, error: string, description: string): TokenResult {
  return {
    status,
    body: { error, error_description: description },
    headers: { 'cache-control': 'no-store', pragma: 'no-cache' },
  };
}

const failed = refused(401, 'invalid_client', 'Client authentication failed');
const UNAUTHENTICATED = {
  ...failed,
  headers: { ...failed.headers, 'www-authenticate': 'Basic realm="leat.example.com"' },
};

async function registerApi(fields: Partial<Api> = {}): Promise<Api> {
  const result = await fixture.store.apis.create({
    tenant: fixture.tenant.id,
    id: 'api-1',
    identifier: MESSAGES,
    name: 'Messages',
    scopes: [],
    enforcePolicies: false,
    tokenDialect: 'access_token',
    tokenLifetimeSeconds: 86_400,
    createdAt: fixture.clock.now(),
    ...fields,
  });
  if ('refused' in result) throw new Error(result.refused);
  return result.created;
}

async function grant(client: Credentials, api: string, scope: readonly string[]): Promise<void> {
  const result = await fixture.store.grants.create({
    tenant: fixture.tenant.id,
    id: `cgr_${client.clientId}_${api}`,
    client: client.clientId,
    api,
    scope,
  });
  if ('refused' in result) throw new Error(result.refused);
}

function claimsOf(result: TokenResult): Record<string, unknown> {
  return decodeJwt(String(result.body['access_token']));
}

describe('issued token', () => {
  test('token response: has scope, lifetime and type, and must not be cached', async () => {
    const { status, headers, body } = await requestToken();
    assert.equal(status, 200);
    assert.deepEqual(headers, { 'cache-control': 'no-store', pragma: 'no-cache' });
    const { access_token: token, ...rest } = body;
    assert.equal(typeof token, 'string');
    assert.deepEqual(rest, {
      scope: managementScopes.join(' '),
      expires_in: 3_600,
      token_type: 'Bearer',
    });
  });

  test('issued token: has the documented header and claims and no others', async () => {
    const result = await requestToken();
    const { kid } = await fixture.keyring.signer(fixture.tenant.id, fixture.clock.now());
    const header = decodeProtectedHeader(String(result.body['access_token']));
    assert.deepEqual(header, { alg: 'RS256', typ: 'JWT', kid });
    const seconds = fixture.clock.now() / 1000;
    assert.deepEqual(claimsOf(result), {
      iss: 'https://leat.example.com/',
      sub: `${fixture.manager.clientId}@clients`,
      aud: AUDIENCE,
      iat: seconds,
      exp: seconds + 3_600,
      azp: fixture.manager.clientId,
      gty: 'client-credentials',
      scope: managementScopes.join(' '),
    });
  });

  test('issued token: aud is the registered audience whichever form was requested', async () => {
    for (const audience of [AUDIENCE, '/api/v2/']) {
      assert.equal(claimsOf(await requestToken({ audience }))['aud'], AUDIENCE);
    }
  });

  test('issued token: resource of RFC 8707 names the API as audience does', async () => {
    for (const asked of [{ audience: undefined }, { audience: '' }, { audience: AUDIENCE }]) {
      assert.equal(claimsOf(await requestToken({ ...asked, resource: AUDIENCE }))['aud'], AUDIENCE);
    }
    for (const [audience, resource] of [
      ['/api/v2/', AUDIENCE],
      [AUDIENCE, '/api/v2/'],
    ] as const) {
      assert.equal(claimsOf(await requestToken({ audience, resource }))['aud'], AUDIENCE);
    }
    const { status, body } = await requestToken({ audience: AUDIENCE, resource: MESSAGES });
    assert.deepEqual([status, body['error']], [400, 'invalid_target']);
    const none = await requestToken({ audience: undefined, resource: `${AUDIENCE}x` });
    assert.deepEqual([none.status, none.body['error']], [403, 'access_denied']);
    const twice = await send('grant_type=client_credentials&resource=a&resource=b', FORM);
    assert.equal(twice.body['error_description'], 'Repeated parameter: resource');
  });

  test('issued token of a local trial: http issuer, https audience for all requested forms', async () => {
    const local = await openAuthFixture({ domain: 'localhost:8080' });
    for (const audience of [
      '/api/v2/',
      'https://localhost:8080/api/v2/',
      'http://localhost:8080/api/v2/',
    ]) {
      const { iss, aud } = decodeJwt(await local.token(local.manager, audience));
      assert.deepEqual(
        { iss, aud },
        {
          iss: 'http://localhost:8080/',
          aud: 'https://localhost:8080/api/v2/',
        },
      );
    }
    await local.close();
  });

  test('issued token: has the requested scopes, without duplicates, in that order', async () => {
    const result = await requestToken({ scope: ' read:users  create:users read:users ' });
    assert.equal(result.body['scope'], 'read:users create:users');
    assert.equal(claimsOf(result)['scope'], 'read:users create:users');
  });

  test('issued token: has no scope claim when the grant has no scope', async () => {
    const client = await fixture.client({}, []);
    const { body } = await requestToken({
      client_id: client.clientId,
      client_secret: client.clientSecret,
    });
    assert.deepEqual(Object.keys(body).toSorted(), ['access_token', 'expires_in', 'token_type']);
    assert.ok(!('scope' in decodeJwt(String(body['access_token']))));
  });
});

describe('token for another API', () => {
  let client: Credentials;
  beforeEach(async () => {
    client = await fixture.client({ global: false });
  });
  const requestMessagesToken = (parameters: Record<string, string> = {}): Promise<TokenResult> =>
    requestToken({
      client_id: client.clientId,
      client_secret: client.clientSecret,
      audience: MESSAGES,
      ...parameters,
    });

  test('token for another API: has its audience and its lifetime', async () => {
    await grant(client, (await registerApi({ tokenLifetimeSeconds: 60 })).id, ['read:messages']);
    const result = await requestMessagesToken();
    const { aud, scope, exp, iat } = claimsOf(result) as Record<string, number>;
    assert.deepEqual([aud, scope], [MESSAGES, 'read:messages']);
    assert.equal(Number(exp) - Number(iat), 60);
    assert.equal(result.body['expires_in'], 60);
  });

  test('token for another API: has permissions with access control and the authz dialect', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    await grant(client, (await registerApi(dialect)).id, ['write:b', 'read:a', 'read:a']);
    assert.deepEqual(claimsOf(await requestMessagesToken())['permissions'], ['read:a', 'write:b']);
    const narrowed = claimsOf(await requestMessagesToken({ scope: 'write:b' }));
    assert.deepEqual([narrowed['scope'], narrowed['permissions']], ['write:b', ['write:b']]);
  });

  test('token for another API: a permission of a role may be requested, and narrows as a scope does', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    const api = await registerApi(dialect);
    await grant(client, api.id, ['of:grant']);
    const { store, tenant, clock } = fixture;
    const role = { tenant: tenant.id, id: 'rol_1', name: 'role', description: '' };
    await store.roles.create({ ...role, createdAt: clock.now() });
    await store.roles.addPermissions(tenant.id, role.id, [{ api: api.id, name: 'of:role' }]);
    await store.roles.addClients(tenant.id, role.id, [client.clientId]);
    assert.deepEqual(claimsOf(await requestMessagesToken())['permissions'], [
      'of:grant',
      'of:role',
    ]);
    const narrowed = claimsOf(await requestMessagesToken({ scope: 'of:role' }));
    assert.deepEqual([narrowed['scope'], narrowed['permissions']], ['of:role', ['of:role']]);
  });

  test('token for another API: every issued token verifies, a longer one is refused with the way out', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    const api = await registerApi(dialect);
    const names = (count: number): string[] =>
      Array.from(
        { length: count },
        (_, index) => `read:something-${String(index).padStart(9, '0')}`,
      );
    await grant(client, api.id, names(161));
    const { keyring, tenant, clock } = fixture;
    const id = `cgr_${client.clientId}_${api.id}`;
    const keys = { keyFor: (kid: string) => keyring.keyFor(tenant.id, kid, clock.now()) };
    let issued = 0;
    let refusal: TokenResult | undefined;
    for (let count = 155; refusal === undefined; count += 1) {
      await fixture.store.grants.update(tenant.id, id, () => ({ scope: names(count) }));
      const result = await requestMessagesToken();
      if (result.status === 200) {
        const token = String(result.body['access_token']);
        const expected = { audience: MESSAGES, keysOf: () => keys };
        const verification = await createTokenVerifier().verify(token, expected, clock.now());
        assert.equal(verification.kind, 'valid', `${token.length} characters`);
        issued += 1;
      } else refusal = result;
    }
    assert.ok(issued > 6);
    assert.equal(refusal.status, 400);
    assert.equal(refusal.body['error'], 'invalid_scope');
    assert.match(
      String(refusal.body['error_description']),
      /^The token would be too long: 12\d{3} characters, at most 12288\. Request fewer scopes with the parameter scope/,
    );
    assert.equal((await requestMessagesToken({ scope: names(3).join(' ') })).status, 200);
  });

  test('token for another API: has an empty list of permissions when there are none', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    await grant(client, (await registerApi(dialect)).id, []);
    assert.deepEqual(claimsOf(await requestMessagesToken())['permissions'], []);
  });

  test('token for another API: has no permissions unless both settings are on', async () => {
    const settings = [
      { enforcePolicies: true, tokenDialect: 'access_token' },
      { enforcePolicies: false, tokenDialect: 'access_token_authz' },
    ] as const;
    for (const [index, setting] of settings.entries()) {
      const identifier = `${MESSAGES}/${index}`;
      const api = await registerApi({ ...setting, id: `api-${index}`, identifier });
      await grant(client, api.id, ['read:a']);
      assert.ok(!('permissions' in claimsOf(await requestMessagesToken({ audience: identifier }))));
    }
  });

  test('token for another API: denied without a grant', async () => {
    await registerApi();
    const description = `Client is not authorized to access "${MESSAGES}".`;
    assert.deepEqual(await requestMessagesToken(), refused(403, 'access_denied', description));
  });

  test('token for another API: denied by the id of the API, which is not an audience', async () => {
    const api = await registerApi();
    await grant(client, api.id, []);
    const { status, body } = await requestMessagesToken({ audience: api.id });
    assert.deepEqual([status, body['error']], [403, 'access_denied']);
    assert.equal((await requestMessagesToken({ audience: managementApiId })).status, 403);
  });
});

describe('access denied', () => {
  test('an unregistered audience is denied and quoted up to 100 characters', async () => {
    const management = `the management API is ${AUDIENCE}`;
    for (const audience of ['https://nobody.example.com', `${AUDIENCE}x`, 'x'.repeat(300)]) {
      const description = `Service not found: ${audience.slice(0, 100)}; ${management}`;
      assert.deepEqual(
        await requestToken({ audience }),
        refused(403, 'access_denied', description),
      );
    }
  });

  test('the management API of another tenant is denied', async () => {
    const other = await secondTenant(fixture);
    const result = await requestToken({ audience: `https://${other.tenant.domain}/api/v2/` });
    assert.equal(result.status, 403);
    const { clientId, clientSecret } = other.manager;
    const foreign = await requestToken({ client_id: clientId, client_secret: clientSecret });
    assert.deepEqual(foreign, UNAUTHENTICATED);
  });

  test('a scope outside the grant is an invalid scope and named in the response', async () => {
    const client = await fixture.client({}, ['read:users']);
    const result = await requestToken({
      client_id: client.clientId,
      client_secret: client.clientSecret,
      scope: 'read:users create:users x',
    });
    const description = 'Client has not been granted scopes: create:users x';
    assert.deepEqual(result, refused(400, 'invalid_scope', description));
  });
});

describe('client secret', () => {
  const basic = (id: string, secret: string): string =>
    `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;

  test('a wrong, missing or foreign secret fails with one error', async () => {
    const other = await fixture.client({}, ['read:users']);
    const { clientSecret } = fixture.manager;
    for (const parameters of [
      { client_secret: 'wrong' },
      { client_secret: undefined },
      { client_secret: `${clientSecret} ` },
      { client_secret: clientSecret.slice(0, -1) },
      { client_secret: clientSecret.toLowerCase() },
      { client_secret: other.clientSecret },
      { client_id: 'nobody' },
      { client_id: 'nobody', client_secret: undefined },
      { client_id: '__proto__' },
    ]) {
      assert.deepEqual(await requestToken(parameters), UNAUTHENTICATED, JSON.stringify(parameters));
    }
  });

  test('a deleted secret, or one of a client of an external issuer, fails', async () => {
    const ended = await fixture.client({ secretHash: undefined });
    const external = await fixture.client({ id: 'external', issuer: 'https://login.example.net/' });
    for (const { clientId, clientSecret } of [ended, external]) {
      for (const secret of [clientSecret, '', undefined]) {
        const result = await requestToken({ client_id: clientId, client_secret: secret });
        assert.deepEqual(result, UNAUTHENTICATED);
      }
    }
  });

  test('a secret may be sent in the header, percent-encoded', async () => {
    const secret = 'a+b c:ü%&"/';

    const id = 'id:with%colon';
    const client = await fixture.client({ id, secretHash: hashSecret(secret) }, ['read:users']);
    const withoutBody = { client_id: undefined, client_secret: undefined };
    const encoded = encodeURIComponent(secret);
    for (const written of [encoded, encoded.replaceAll('%20', '+')]) {
      const header = basic(encodeURIComponent(client.clientId), written);
      assert.equal((await requestToken(withoutBody, header)).status, 200, written);
      assert.equal((await requestToken({ ...withoutBody, client_id: id }, header)).status, 200);
    }
    const plus = await fixture.client({ secretHash: hashSecret('a+b') }, ['read:users']);
    assert.equal((await requestToken(withoutBody, basic(plus.clientId, 'a+b'))).status, 200);
  });

  test('a wrong Authorization header gets the same error', async () => {
    const { clientId, clientSecret } = fixture.manager;
    for (const header of [
      basic(clientId, 'wrong'),
      basic(clientId, ''),
      basic('', clientSecret),
      basic('nobody', clientSecret),
      basic(clientId, `${clientSecret}%`),
      'Basic',
      'Basic !!!',
      'Basic Zm9v',
      `Bearer ${clientSecret}`,
    ]) {
      const result = await requestToken({ client_id: undefined, client_secret: undefined }, header);
      assert.deepEqual(result, UNAUTHENTICATED, header);
    }
  });

  test('credentials sent in two ways at once are rejected', async () => {
    const { clientId, clientSecret } = fixture.manager;
    const description = 'More than one client authentication method';
    const header = basic(clientId, clientSecret);
    assert.deepEqual(await requestToken({}, header), refused(400, 'invalid_request', description));
    const both = await requestToken({ client_assertion: 'x.y.z' });
    assert.deepEqual(both, refused(400, 'invalid_request', description));
  });

  test('a client_id in the body must equal that of the header', async () => {
    const { clientId, clientSecret } = fixture.manager;
    const header = basic(clientId, clientSecret);
    const result = await requestToken({ client_id: 'other', client_secret: undefined }, header);
    assert.equal(result.status, 400);
    assert.equal(result.body['error'], 'invalid_request');
  });
});

describe('token request', () => {
  const good = (): Record<string, string> => ({
    grant_type: 'client_credentials',
    client_id: fixture.manager.clientId,
    client_secret: fixture.manager.clientSecret,
    audience: '/api/v2/',
  });
  const form = (): string => new URLSearchParams(good()).toString();

  test('a token request may be a form or JSON, with media type parameters, in any case', async () => {
    for (const type of [FORM, `${FORM}; charset=utf-8`, 'Application/X-WWW-Form-URLencoded']) {
      assert.equal((await send(form(), type)).status, 200, type);
    }
    for (const type of ['application/json', 'application/json;charset=UTF-8']) {
      assert.equal((await send(JSON.stringify(good()), type)).status, 200, type);
    }
  });

  test('a token request of another media type is rejected', async () => {
    for (const type of [undefined, '', 'text/plain', 'multipart/form-data', 'application/jsonx']) {
      const { status, body } = await send(form(), type);
      assert.deepEqual([status, body['error']], [400, 'invalid_request'], type ?? 'none');
    }
  });

  test('a token request without a required parameter: the error names the first one', async () => {
    for (const name of ['grant_type', 'audience', 'client_id']) {
      const description = `Missing required parameter: ${name}`;
      const expected = refused(400, 'invalid_request', description);
      assert.deepEqual(await requestToken({ [name]: undefined }), expected);
      const empty = await send(JSON.stringify({ ...good(), [name]: '' }), 'application/json');
      assert.deepEqual(empty, expected);
    }
    const description = 'Missing required parameter: grant_type';
    for (const type of [FORM, 'application/json']) {
      assert.deepEqual(await send('', type), refused(400, 'invalid_request', description));
    }
  });

  test('a token request with another grant type is rejected', async () => {
    for (const grant_type of ['password', 'authorization_code', 'CLIENT_CREDENTIALS']) {
      const expected = refused(400, 'unsupported_grant_type', 'Grant type not supported');
      assert.deepEqual(await requestToken({ grant_type }), expected);
    }
  });

  test('a token request with a repeated parameter is rejected, in a form and in JSON', async () => {
    for (const name of ['grant_type', 'audience', 'client_id', 'client_secret', 'scope']) {
      const expected = refused(400, 'invalid_request', `Repeated parameter: ${name}`);
      assert.deepEqual(await send(`${form()}&${name}=x&${name}=x`, FORM), expected);
      const json = JSON.stringify({ [name]: 'x', ...good() });
      const escaped = `\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}`;
      for (const twice of [name, escaped]) {
        const body = `${json.slice(0, -1)}, "${twice}" : "x"}`;
        assert.deepEqual(await send(body, 'application/json'), expected, body);
      }
    }
  });

  test('a token request may have unknown parameters of any shape', async () => {
    const more = { more: { audience: ['x'], client_id: { audience: 1 } }, list: [[['"{']]] };
    const json = JSON.stringify({ ...more, ...good(), constructor: 1 });
    assert.equal((await send(json, 'application/json')).status, 200);
    assert.equal((await send(`${form()}&x=1&x=2&__proto__=3`, FORM)).status, 200);
  });

  test('a token request that is not a JSON object of strings is rejected', async () => {
    const bodies = [
      '{',
      'null',
      '[]',
      '"text"',
      '7',
      `[${JSON.stringify(good())}]`,
      '{"__proto__": {"grant_type": "client_credentials"}}',
      ...['grant_type', 'audience', 'resource', 'client_id', 'client_secret', 'scope'].flatMap(
        (name) =>
          [7, null, true, ['x'], { x: 'y' }].map((value) =>
            JSON.stringify({ ...good(), [name]: value }),
          ),
      ),
      `{"scope":${'['.repeat(30_000)}${']'.repeat(30_000)}}`,
    ];
    for (const body of bodies) {
      const result = await send(body, 'application/json');
      const seen = [result.status, result.body['error']];
      assert.deepEqual(seen, [400, 'invalid_request'], body.slice(0, 60));
    }
  });

  test('a token request is checked in order: body, grant type, audience, client, API, scope', async () => {
    const wrong = { grant_type: 'x', audience: undefined, client_id: 'nobody', scope: 'x' };
    const inOrder: [Record<string, string | undefined>, string][] = [
      [{}, 'Grant type not supported'],
      [{ grant_type: 'client_credentials' }, 'Missing required parameter: audience'],
      [{ audience: 'x' }, 'Client authentication failed'],
      [
        { client_id: fixture.manager.clientId },
        `Service not found: x; the management API is ${AUDIENCE}`,
      ],
      [{ audience: AUDIENCE }, 'Client has not been granted scopes: x'],
    ];
    let parameters: Record<string, string | undefined> = wrong;
    for (const [corrected, description] of inOrder) {
      parameters = { ...parameters, ...corrected };
      assert.equal((await requestToken(parameters)).body['error_description'], description);
    }
  });
});
