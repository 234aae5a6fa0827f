import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { type Credentials, hashSecret } from '../../src/auth/clients.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { managementApiId, type Api } from '../../src/core/types.ts';
import { type Asked, type House, openHouse, secondTenant } from './fixture.ts';

const AUDIENCE = 'https://leat.example.com/api/v2/';
const MESSAGES = 'https://messages.example.com';

let house: House;

beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => house.close());

/** Asks with the bootstrap client's secret in the body; a parameter of `undefined` is left out. */
function ask(
  parameters: Record<string, string | undefined> = {},
  authorization?: string,
): Promise<Asked> {
  const all = {
    grant_type: 'client_credentials',
    client_id: house.manager.clientId,
    client_secret: house.manager.clientSecret,
    audience: AUDIENCE,
    ...parameters,
  };
  const sent = Object.entries(all).filter((entry): entry is [string, string] => !!entry[1]);
  return house.ask(Object.fromEntries(sent), authorization);
}

/** Sends a body as it is. */
function send(body: string, contentType?: string, authorization?: string): Promise<Asked> {
  const { tenant, clock } = house;
  const request = { tenant, authorization, contentType, body, now: clock.now() };
  return house.endpoint.issue(request) as Promise<Asked>;
}

function refused(status: number, error: string, description: string): Asked {
  return {
    status,
    body: { error, error_description: description },
    headers: { 'cache-control': 'no-store', pragma: 'no-cache' },
  };
}

const UNAUTHENTICATED = refused(401, 'invalid_client', 'Client authentication failed');

async function registerApi(facts: Partial<Api> = {}): Promise<Api> {
  const answer = await house.store.apis.create({
    tenant: house.tenant.id,
    id: 'api-1',
    identifier: MESSAGES,
    name: 'Messages',
    scopes: [],
    enforcePolicies: false,
    tokenDialect: 'access_token',
    tokenLifetimeSeconds: 86_400,
    createdAt: house.clock.now(),
    ...facts,
  });
  if ('refused' in answer) throw new Error(answer.refused);
  return answer.created;
}

async function grant(client: Credentials, api: string, scope: readonly string[]): Promise<void> {
  const answer = await house.store.grants.create({
    tenant: house.tenant.id,
    id: `cgr_${client.clientId}_${api}`,
    client: client.clientId,
    api,
    scope,
  });
  if ('refused' in answer) throw new Error(answer.refused);
}

function claimsOf(answer: Asked): Record<string, unknown> {
  return decodeJwt(String(answer.body['access_token']));
}

describe('a token', () => {
  test('comes with its scope, lifetime and type, and is not to be kept by caches', async () => {
    const { status, headers, body } = await ask();
    assert.equal(status, 200);
    assert.deepEqual(headers, { 'cache-control': 'no-store', pragma: 'no-cache' });
    const { access_token: token, ...rest } = body;
    assert.equal(typeof token, 'string');
    assert.deepEqual(rest, {
      scope: managementScopes.join(' '),
      expires_in: 86_400,
      token_type: 'Bearer',
    });
  });

  test('has the header and the claims of the contract and no others', async () => {
    const answer = await ask();
    const { kid } = await house.keyring.signer(house.tenant.id, house.clock.now());
    const header = decodeProtectedHeader(String(answer.body['access_token']));
    assert.deepEqual(header, { alg: 'RS256', typ: 'JWT', kid });
    const seconds = house.clock.now() / 1000;
    assert.deepEqual(claimsOf(answer), {
      iss: 'https://leat.example.com/',
      sub: `${house.manager.clientId}@clients`,
      aud: AUDIENCE,
      iat: seconds,
      exp: seconds + 86_400,
      azp: house.manager.clientId,
      gty: 'client-credentials',
      scope: managementScopes.join(' '),
    });
  });

  test('carries the registered audience whichever form was asked for', async () => {
    for (const audience of [AUDIENCE, '/api/v2/']) {
      assert.equal(claimsOf(await ask({ audience }))['aud'], AUDIENCE);
    }
  });

  test('of a local trial has an http issuer and the https audience, which all forms lead to', async () => {
    const local = await openHouse({ domain: 'localhost:8080' });
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

  test('has the scopes that were asked for, each once, in that order', async () => {
    const answer = await ask({ scope: ' read:users  create:users read:users ' });
    assert.equal(answer.body['scope'], 'read:users create:users');
    assert.equal(claimsOf(answer)['scope'], 'read:users create:users');
  });

  test('has no scope at all when the grant has none', async () => {
    const client = await house.client({}, []);
    const { body } = await ask({ client_id: client.clientId, client_secret: client.clientSecret });
    assert.deepEqual(Object.keys(body).toSorted(), ['access_token', 'expires_in', 'token_type']);
    assert.ok(!('scope' in decodeJwt(String(body['access_token']))));
  });
});

describe('a token for another API', () => {
  let client: Credentials;
  beforeEach(async () => {
    client = await house.client({ global: false });
  });
  const askMessages = (parameters: Record<string, string> = {}): Promise<Asked> =>
    ask({
      client_id: client.clientId,
      client_secret: client.clientSecret,
      audience: MESSAGES,
      ...parameters,
    });

  test('has that API as audience and lives as long as it says', async () => {
    await grant(client, (await registerApi({ tokenLifetimeSeconds: 60 })).id, ['read:messages']);
    const answer = await askMessages();
    const { aud, scope, exp, iat } = claimsOf(answer) as Record<string, number>;
    assert.deepEqual([aud, scope], [MESSAGES, 'read:messages']);
    assert.equal(Number(exp) - Number(iat), 60);
    assert.equal(answer.body['expires_in'], 60);
  });

  test('carries permissions when access control is on in the dialect that has them', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    await grant(client, (await registerApi(dialect)).id, ['write:b', 'read:a', 'read:a']);
    assert.deepEqual(claimsOf(await askMessages())['permissions'], ['read:a', 'write:b']);
    const narrowed = claimsOf(await askMessages({ scope: 'read:a' }));
    assert.deepEqual(narrowed['permissions'], ['read:a', 'write:b'], 'scope narrows scope alone');
    assert.equal(narrowed['scope'], 'read:a');
  });

  test('carries an empty list of permissions when there are none', async () => {
    const dialect = { enforcePolicies: true, tokenDialect: 'access_token_authz' } as const;
    await grant(client, (await registerApi(dialect)).id, []);
    assert.deepEqual(claimsOf(await askMessages())['permissions'], []);
  });

  test('carries no permissions unless both settings ask for them', async () => {
    const settings = [
      { enforcePolicies: true, tokenDialect: 'access_token' },
      { enforcePolicies: false, tokenDialect: 'access_token_authz' },
    ] as const;
    for (const [index, setting] of settings.entries()) {
      const identifier = `${MESSAGES}/${index}`;
      const api = await registerApi({ ...setting, id: `api-${index}`, identifier });
      await grant(client, api.id, ['read:a']);
      assert.ok(!('permissions' in claimsOf(await askMessages({ audience: identifier }))));
    }
  });

  test('is refused without a grant', async () => {
    await registerApi();
    const description = `Client is not authorized to access "${MESSAGES}".`;
    assert.deepEqual(await askMessages(), refused(403, 'access_denied', description));
  });

  test('is refused under the id of the API, which is no audience', async () => {
    const api = await registerApi();
    await grant(client, api.id, []);
    const { status, body } = await askMessages({ audience: api.id });
    assert.deepEqual([status, body['error']], [403, 'access_denied']);
    assert.equal((await askMessages({ audience: managementApiId })).status, 403);
  });
});

describe('what may not be had', () => {
  test('is an API that nobody registered, quoted up to 100 characters', async () => {
    const management = `the management API is ${AUDIENCE}`;
    for (const audience of ['https://nobody.example.com', `${AUDIENCE}x`, 'x'.repeat(300)]) {
      const description = `Service not found: ${audience.slice(0, 100)}; ${management}`;
      assert.deepEqual(await ask({ audience }), refused(403, 'access_denied', description));
    }
  });

  test('is the API of another tenant', async () => {
    const other = await secondTenant(house);
    const answer = await ask({ audience: `https://${other.tenant.domain}/api/v2/` });
    assert.equal(answer.status, 403);
    const { clientId, clientSecret } = other.manager;
    const foreign = await ask({ client_id: clientId, client_secret: clientSecret });
    assert.deepEqual(foreign, UNAUTHENTICATED);
  });

  test('is a scope outside the grant, which the answer names', async () => {
    const client = await house.client({}, ['read:users']);
    const answer = await ask({
      client_id: client.clientId,
      client_secret: client.clientSecret,
      scope: 'read:users create:users x',
    });
    const description = 'Client has not been granted scopes: create:users x';
    assert.deepEqual(answer, refused(403, 'access_denied', description));
  });
});

describe('a client secret', () => {
  const basic = (id: string, secret: string): string =>
    `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
  const UNCHALLENGED = UNAUTHENTICATED.headers;
  const CHALLENGED = {
    ...UNAUTHENTICATED,
    headers: { ...UNCHALLENGED, 'www-authenticate': 'Basic' },
  };

  test('that is wrong, missing, or of another client fails in one way', async () => {
    const other = await house.client({}, ['read:users']);
    const { clientSecret } = house.manager;
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
      assert.deepEqual(await ask(parameters), UNAUTHENTICATED, JSON.stringify(parameters));
    }
  });

  test('that was ended, or of an external issuer, gives no token', async () => {
    const ended = await house.client({ secretHash: undefined });
    const external = await house.client({ id: 'external', issuer: 'https://login.example.net/' });
    for (const { clientId, clientSecret } of [ended, external]) {
      for (const secret of [clientSecret, '', undefined]) {
        const answer = await ask({ client_id: clientId, client_secret: secret });
        assert.deepEqual(answer, UNAUTHENTICATED);
      }
    }
  });

  test('may come in the header, percent-encoded', async () => {
    const secret = 'a+b c:ü%&"/';

    const id = 'id:with%colon';
    const client = await house.client({ id, secretHash: hashSecret(secret) }, ['read:users']);
    const withoutBody = { client_id: undefined, client_secret: undefined };
    const encoded = encodeURIComponent(secret);
    for (const written of [encoded, encoded.replaceAll('%20', '+')]) {
      const header = basic(encodeURIComponent(client.clientId), written);
      assert.equal((await ask(withoutBody, header)).status, 200, written);
      assert.equal((await ask({ ...withoutBody, client_id: id }, header)).status, 200);
    }
    const plus = await house.client({ secretHash: hashSecret('a+b') }, ['read:users']);
    assert.equal((await ask(withoutBody, basic(plus.clientId, 'a+b'))).status, 200);
  });

  test('in a header that is wrong is challenged', async () => {
    const { clientId, clientSecret } = house.manager;
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
      const answer = await ask({ client_id: undefined, client_secret: undefined }, header);
      assert.deepEqual(answer, CHALLENGED, header);
    }
  });

  test('sent in two ways at once is refused', async () => {
    const { clientId, clientSecret } = house.manager;
    const description = 'More than one client authentication method';
    const header = basic(clientId, clientSecret);
    assert.deepEqual(await ask({}, header), refused(400, 'invalid_request', description));
    const both = await ask({ client_assertion: 'x.y.z' });
    assert.deepEqual(both, refused(400, 'invalid_request', description));
  });

  test('in a header does not speak for another client_id in the body', async () => {
    const { clientId, clientSecret } = house.manager;
    const header = basic(clientId, clientSecret);
    const answer = await ask({ client_id: 'other', client_secret: undefined }, header);
    assert.equal(answer.status, 400);
    assert.equal(answer.body['error'], 'invalid_request');
  });
});

describe('a token request', () => {
  const good = (): Record<string, string> => ({
    grant_type: 'client_credentials',
    client_id: house.manager.clientId,
    client_secret: house.manager.clientSecret,
    audience: '/api/v2/',
  });
  const form = (): string => new URLSearchParams(good()).toString();
  const FORM = 'application/x-www-form-urlencoded';

  test('may be a form or JSON, with parameters of the media type in any case', async () => {
    for (const type of [FORM, `${FORM}; charset=utf-8`, 'Application/X-WWW-Form-URLencoded']) {
      assert.equal((await send(form(), type)).status, 200, type);
    }
    for (const type of ['application/json', 'application/json;charset=UTF-8']) {
      assert.equal((await send(JSON.stringify(good()), type)).status, 200, type);
    }
  });

  test('of another media type is refused', async () => {
    for (const type of [undefined, '', 'text/plain', 'multipart/form-data', 'application/jsonx']) {
      const { status, body } = await send(form(), type);
      assert.deepEqual([status, body['error']], [400, 'invalid_request'], type ?? 'none');
    }
  });

  test('names the first parameter that is missing', async () => {
    for (const name of ['grant_type', 'audience', 'client_id']) {
      const description = `Missing required parameter: ${name}`;
      const expected = refused(400, 'invalid_request', description);
      assert.deepEqual(await ask({ [name]: undefined }), expected);
      const empty = await send(JSON.stringify({ ...good(), [name]: '' }), 'application/json');
      assert.deepEqual(empty, expected);
    }
    const description = 'Missing required parameter: grant_type';
    for (const type of [FORM, 'application/json']) {
      assert.deepEqual(await send('', type), refused(400, 'invalid_request', description));
    }
  });

  test('with another grant type is refused', async () => {
    for (const grant_type of ['password', 'authorization_code', 'CLIENT_CREDENTIALS']) {
      const expected = refused(400, 'unsupported_grant_type', 'Grant type not supported');
      assert.deepEqual(await ask({ grant_type }), expected);
    }
  });

  test('with a parameter twice is refused, in a form and in JSON', async () => {
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

  test('may hold parameters that nobody knows, of any shape', async () => {
    const more = { resource: { audience: ['x'], client_id: { audience: 1 } }, list: [[['"{']]] };
    const json = JSON.stringify({ ...more, ...good(), constructor: 1 });
    assert.equal((await send(json, 'application/json')).status, 200);
    assert.equal((await send(`${form()}&x=1&x=2&__proto__=3`, FORM)).status, 200);
  });

  test('that is no JSON object of texts is refused', async () => {
    const bodies = [
      '{',
      'null',
      '[]',
      '"text"',
      '7',
      `[${JSON.stringify(good())}]`,
      '{"__proto__": {"grant_type": "client_credentials"}}',
      ...['grant_type', 'audience', 'client_id', 'client_secret', 'scope'].flatMap((name) =>
        [7, null, true, ['x'], { x: 'y' }].map((value) =>
          JSON.stringify({ ...good(), [name]: value }),
        ),
      ),
      `{"scope":${'['.repeat(30_000)}${']'.repeat(30_000)}}`,
    ];
    for (const body of bodies) {
      const answer = await send(body, 'application/json');
      const seen = [answer.status, answer.body['error']];
      assert.deepEqual(seen, [400, 'invalid_request'], body.slice(0, 60));
    }
  });

  test('is judged in a fixed order: form, grant type, audience, client, API, scope', async () => {
    const wrong = { grant_type: 'x', audience: undefined, client_id: 'nobody', scope: 'x' };
    const inOrder: [Record<string, string | undefined>, string][] = [
      [{}, 'Grant type not supported'],
      [{ grant_type: 'client_credentials' }, 'Missing required parameter: audience'],
      [{ audience: 'x' }, 'Client authentication failed'],
      [
        { client_id: house.manager.clientId },
        `Service not found: x; the management API is ${AUDIENCE}`,
      ],
      [{ audience: AUDIENCE }, 'Client has not been granted scopes: x'],
    ];
    let parameters: Record<string, string | undefined> = wrong;
    for (const [mended, description] of inOrder) {
      parameters = { ...parameters, ...mended };
      assert.equal((await ask(parameters)).body['error_description'], description);
    }
  });
});
