import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerOptions } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { exportJWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose';
import pino from 'pino';
import { createOpenIdProvider } from '../../src/auth/openid-provider.ts';
import { createTrustedIssuers } from '../../src/auth/remote-keys.ts';
import { systemClock } from '../../src/clock.ts';
import { limits } from '../../src/config.ts';
import { issuerRules } from '../../src/core/claim-rules.ts';
import { claimsOf, consoleMappings, mappingFor } from '../../src/core/console-mapping.ts';
import { readMessageSettings } from '../../src/messages/settings.ts';
import { issuerFor, startMessageService } from '../../src/program/message-service.ts';
import { makeSigningKey, trustAuthority } from '../helpers/authorization-server.ts';
import { authority, trusted } from '../helpers/certificates.ts';
import { freePort, spawnLeat, waitFor } from '../helpers/leat.ts';
import { type AuthFixture, openAuthFixture } from './fixture.ts';

/** Each row of docs/identity-providers.md, with tokens in the form that the provider documents. */

const signingKey = makeSigningKey();
const permission = 'read:admin-messages';
const managementAudience = 'https://leat.example.com/api/v2/';
const messageAudience = 'https://messages.example.com';

/** How a provider writes tokens, and the settings that docs/identity-providers.md has for it. */
interface Row {
  readonly name: string;
  /** Path of its issuer at the test server, as the provider has it after its host. */
  readonly path: string;
  /** Whether TOKEN_ISSUER_DOMAIN needs `https://`. */
  readonly hasScheme?: boolean;
  /** Header of its tokens besides `alg`. */
  readonly header: Partial<JWTHeaderParameters>;
  /** Fields of its published key besides those of RSA. */
  readonly key: Readonly<Record<string, unknown>>;
  /** An access token of a client for the management API, with `read:users`. */
  readonly management: JWTPayload;
  /** LEAT_TRUSTED_ISSUER_CLAIMS without the issuer. */
  readonly issuerClaims?: string;
  /** An access token for the message API, with the permission of the admin message. */
  readonly messages: JWTPayload;
  /** TOKEN_CLAIMS. */
  readonly tokenClaims?: string;
  /** Claims of an ID token of somebody in the group `admins`. */
  readonly person: JWTPayload;
  /** LEAT_CONSOLE_ROLES, LEAT_CONSOLE_OIDC_SCOPES. */
  readonly roles: string;
  readonly scopes?: string;
}

const rows: readonly Row[] = [
  {
    name: 'Okta',
    path: '/oauth2/default',
    header: { kid: 'okta-1' },
    key: { kid: 'okta-1', alg: 'RS256', use: 'sig' },
    management: {
      ver: 1,
      jti: 'AT.1',
      aud: managementAudience,
      sub: 'app',
      cid: 'app',
      scp: ['read:users'],
    },
    issuerClaims: 'client=cid scope=scp',
    messages: {
      ver: 1,
      jti: 'AT.2',
      aud: messageAudience,
      sub: 'app',
      cid: 'app',
      scp: [permission],
    },
    tokenClaims: 'permissions=scp',
    person: { ver: 1, groups: ['Everyone', 'admins'] },
    roles: 'main/groups:admins=operator',
    scopes: 'openid email profile groups',
  },
  {
    name: 'Entra ID, tokens of version 2',
    path: '/11111111-2222-3333-4444-555555555555/v2.0',
    header: { typ: 'JWT', kid: 'entra' },
    key: { kid: 'entra', use: 'sig', x5t: 'entra', x5c: ['MIIC'], issuer: 'https://x' },
    management: {
      aud: 'api-guid',
      azp: 'app',
      azpacr: '1',
      oid: 'o',
      roles: ['read:users'],
      ver: '2.0',
    },
    issuerClaims: 'scope=roles audience=api-guid',
    messages: { aud: messageAudience, azp: 'app', roles: [permission], ver: '2.0' },
    tokenClaims: 'permissions=roles',
    person: { groups: ['admins'], ver: '2.0', tid: 't' },
    roles: 'main/groups:admins=operator',
  },
  {
    name: 'Entra ID, tokens of version 1',
    path: '/11111111-2222-3333-4444-555555555555/',
    header: { typ: 'JWT', kid: 'entra', x5t: 'entra' },
    key: { kid: 'entra', use: 'sig', x5t: 'entra', x5c: ['MIIC'] },
    management: {
      aud: managementAudience,
      appid: 'app',
      appidacr: '1',
      roles: ['read:users'],
      ver: '1.0',
    },
    issuerClaims: 'client=appid scope=roles',
    messages: { aud: messageAudience, appid: 'app', roles: [permission], ver: '1.0' },
    tokenClaims: 'permissions=roles',
    person: { roles: ['admins'], ver: '2.0' },
    roles: 'main/roles:admins=operator',
  },
  {
    name: 'Cognito',
    path: '/eu-central-1_AbCdEfGhI',
    header: { kid: 'cognito=' },
    key: { kid: 'cognito=', alg: 'RS256', use: 'sig' },
    management: {
      sub: 'app',
      token_use: 'access',
      scope: 'leat/read:users',
      client_id: 'app',
      version: 2,
      jti: 'j',
    },
    issuerClaims: 'prefix=leat/',
    messages: {
      sub: 'app',
      token_use: 'access',
      scope: `messages/${permission}`,
      client_id: 'app',
      version: 2,
      jti: 'j',
    },
    tokenClaims: 'permissions=scope prefix=messages/',
    person: { 'cognito:groups': ['admins'], 'cognito:username': 'eve', token_use: 'id' },
    roles: 'main/"cognito:groups":admins=operator',
    scopes: 'openid email profile',
  },
  {
    name: 'Keycloak',
    path: '/realms/main',
    header: { typ: 'JWT', kid: 'keycloak' },
    key: { kid: 'keycloak', alg: 'RS256', use: 'sig', x5c: ['MIIC'], 'x5t#S256': 'x' },
    management: {
      typ: 'Bearer',
      aud: [managementAudience, 'account'],
      azp: 'app',
      scope: 'read:users profile',
    },
    messages: {
      typ: 'Bearer',
      aud: [messageAudience, 'account'],
      azp: 'app',
      realm_access: { roles: [permission] },
    },
    tokenClaims: 'permissions=/realm_access/roles',
    person: {
      typ: 'ID',
      azp: 'leat-console',
      resource_access: { 'leat-console': { roles: ['admins'] } },
    },
    roles: 'main//resource_access/leat-console/roles:admins=operator',
  },
  {
    name: 'Auth0',
    path: '/auth0/',
    header: { typ: 'JWT', kid: 'auth0' },
    key: { kid: 'auth0', alg: 'RS256', use: 'sig', x5c: ['MIIC'], x5t: 'x' },
    management: {
      aud: managementAudience,
      azp: 'app',
      gty: 'client-credentials',
      scope: 'read:users',
    },
    messages: { aud: messageAudience, azp: 'app', scope: 'openid', permissions: [permission] },
    person: { 'https://example.com/groups': ['admins'] },
    roles: 'main/https://example.com/groups:admins=operator',
  },
  {
    name: 'Zitadel',
    path: '',
    hasScheme: true,
    header: { kid: '275', typ: 'JWT' },
    key: { kid: '275', alg: 'RS256', use: 'sig' },
    management: {
      aud: ['275', managementAudience],
      client_id: 'app',
      jti: 'j',
      scope: 'read:users',
    },
    messages: { aud: ['275', messageAudience], client_id: 'app', jti: 'j', scope: permission },
    tokenClaims: 'permissions=scope',
    person: { 'urn:zitadel:iam:org:project:roles': { admins: { '275': 'acme.example' } } },
    roles: 'main/"urn:zitadel:iam:org:project:roles":admins=operator',
    scopes: 'openid email profile urn:zitadel:iam:org:project:roles',
  },
  {
    name: 'RFC 9068',
    path: '/rfc9068',
    header: { typ: 'at+jwt', kid: 'k' },
    key: { kid: 'k', use: 'sig', key_ops: ['verify'] },
    management: {
      aud: managementAudience,
      sub: 'app',
      client_id: 'app',
      jti: 'j',
      scope: 'read:users',
    },
    messages: { aud: messageAudience, sub: 'app', client_id: 'app', jti: 'j', scope: permission },
    tokenClaims: 'permissions=scope',
    person: { groups: ['admins'] },
    roles: 'main/groups:admins=operator',
  },
  {
    name: 'keys without kid',
    path: '/without-kid/',
    header: {},
    key: {},
    management: { aud: managementAudience, azp: 'app', scope: 'read:users' },
    messages: { aud: messageAudience, azp: 'app', permissions: [permission] },
    person: { groups: ['admins'] },
    roles: 'main/groups:admins=operator',
  },
];

let documentation: string;
let origin: string;
let close: () => Promise<void>;
/** The ID token that the token endpoint of a path issues. */
const idTokens = new Map<string, string>();

before(async () => {
  trustAuthority();
  documentation = await readFile('docs/identity-providers.md', 'utf8');
  const server = createServer(trusted as ServerOptions).listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const jwk = await exportJWK(signingKey);
  server.on('request', (request, response) => {
    const url = (request.url ?? '').replace('//.well-known', '/.well-known');
    const row = rows.find(
      ({ path }) => url.startsWith(`${withoutSlash(path)}/`) && isOwn(url, path),
    );
    const body = row && respond(row, url.slice(withoutSlash(row.path).length), jwk);
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body ?? {}));
  });
  close = async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
});
after(() => close());

const withoutSlash = (path: string): string => path.replace(/\/$/, '');

/** One path may begin another: that of the longer one wins. */
function isOwn(url: string, path: string): boolean {
  const longer = rows.filter((row) => row.path.startsWith(path) && row.path !== path);
  return !longer.some((row) => url.startsWith(`${withoutSlash(row.path)}/`));
}

function respond(row: Row, path: string, { n, e }: { n?: string; e?: string }): object | undefined {
  const issuer = `${origin}${row.path}`;
  const base = withoutSlash(issuer);
  if (path === '/.well-known/openid-configuration') {
    return {
      issuer,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      jwks_uri: `${base}/keys-of-it`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    };
  }
  if (path === '/keys-of-it') {
    return {
      keys: [
        { kty: 'RSA', alg: 'RSA-OAEP', use: 'enc', kid: 'other', n, e },
        { kty: 'RSA', n, e, ...row.key },
      ],
    };
  }
  if (path !== '/token') return undefined;
  return { access_token: 'at', token_type: 'Bearer', id_token: idTokens.get(row.path) };
}

function sign({ path, header }: Row, claims: JWTPayload): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({ iss: `${origin}${path}`, iat: now, exp: now + 600, ...claims })
    .setProtectedHeader({ ...header, alg: 'RS256' })
    .sign(signingKey);
}

/** Every setting of a row must be in the documentation as it is here. */
function documented(setting: string): string {
  assert.ok(documentation.includes(setting), `docs/identity-providers.md has ${setting}`);
  return setting;
}

for (const row of rows) {
  describe(row.name, () => {
    test(`${row.name}: its tokens call the management API`, async (t) => {
      const fixture = await openTrusting(t, row);
      const verified = await verify(fixture, await sign(row, row.management));
      assert.ok(verified.kind === 'verified', JSON.stringify(verified));
      const { clientId, scopes, global } = verified.token;
      assert.deepEqual([clientId, global], ['app', true]);
      assert.deepEqual(
        scopes.filter((scope) => scope !== 'profile'),
        ['read:users'],
      );
      const foreign = {
        ...row.management,
        aud: 'https://other.example',
        scope: 'other/read:users',
      };
      const refused = await verify(fixture, await sign(row, foreign));
      assert.ok(refused.kind === 'invalid');
      const { audience = managementAudience } =
        row.issuerClaims?.match(/audience=(?<audience>\S+)/)?.groups ?? {};
      assert.equal(refused.message, `Bad audience: https://other.example, expected: ${audience}`);
    });

    test(`${row.name}: its tokens open the admin message`, async (t) => {
      const url = await startMessages(t, row);
      const get = async (claims: JWTPayload): Promise<number> => {
        const headers = { authorization: `Bearer ${await sign(row, claims)}` };
        return (await fetch(`${url}/api/messages/admin`, { headers })).status;
      };
      assert.equal(await get(row.messages), 200);
      const nothing = { scope: 'messages/other', scp: [], roles: [], permissions: [] };
      assert.equal(await get({ ...row.messages, ...nothing, realm_access: {} }), 403);
      assert.equal(await get({ ...row.messages, aud: 'https://other.example' }), 401);
    });

    test(`${row.name}: its people sign in to the console`, async () => {
      const mappings = consoleMappings(documented(row.roles));
      assert.ok('value' in mappings);
      const login = {
        redirectUri: 'http://localhost:8080/console/callback',
        state: 's'.repeat(43),
        nonce: 'n'.repeat(43),
        codeVerifier: 'v'.repeat(43),
      };
      const clientId = 'leat-console';
      const claims = { sub: 'eve', aud: clientId, nonce: login.nonce, ...row.person };
      idTokens.set(row.path, await sign(row, claims));
      const settings = { issuer: `${origin}${row.path}`, clientId, clientSecret: 'secret' };
      const scopes = row.scopes === undefined ? undefined : documented(row.scopes).split(' ');
      const provider = createOpenIdProvider({
        fetch,
        clock: systemClock,
        settings: { ...settings, scopes },
        limits: limits.consoleLogin,
      });
      const found = await provider.claims(
        login,
        `?code=c&state=${login.state}`,
        claimsOf(mappings.value, 'main'),
      );
      assert.ok('claims' in found, JSON.stringify(found));
      assert.equal(mappingFor(mappings.value, 'main', found.claims)?.role, 'operator');
    });
  });
}

test('Cognito: a token for another resource server is refused with what is expected', async (t) => {
  const row = rows.find(({ name }) => name === 'Cognito') ?? assert.fail('no row');
  const fixture = await openTrusting(t, row);
  for (const scope of ['other/read:users', '', undefined]) {
    const refused = await verify(fixture, await sign(row, { ...row.management, scope }));
    const message = 'Bad audience: , expected: none, and a scope that begins with leat/';
    assert.deepEqual(refused, { kind: 'invalid', message });
  }
});

test('leat messages: takes the tokens of an issuer with a path, by TOKEN_CLAIMS', async (t) => {
  const [row = assert.fail('no row')] = rows;
  const folder = await mkdtemp(join(tmpdir(), 'leat-'));
  await writeFile(join(folder, 'ca.pem'), authority);
  const port = String(await freePort());
  const { child, output } = spawnLeat(
    ['messages'],
    {
      PORT: port,
      CLIENT_ORIGIN_URL: 'http://localhost:4040',
      TOKEN_AUDIENCE: messageAudience,
      TOKEN_ISSUER_DOMAIN: `${origin}${row.path}`.replace('https://', ''),
      TOKEN_CLAIMS: row.tokenClaims ?? '',
      NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
    },
    { cwd: folder },
  );
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true });
  });
  const url = `http://127.0.0.1:${port}/api/messages/`;
  await waitFor('the message API', () => {
    assert.equal(child.exitCode, null, output());
    return output().includes(url);
  });
  const headers = { authorization: `Bearer ${await sign(row, row.messages)}` };
  assert.equal((await fetch(`${url}admin`, { headers })).status, 200);
});

async function openTrusting(t: TestContext, row: Row): Promise<AuthFixture> {
  const issuer = `${origin}${row.path}`;
  const rules = row.issuerClaims === undefined ? '' : `${issuer} ${documented(row.issuerClaims)}`;
  const parsed = rules === '' ? { value: [] } : issuerRules(rules);
  assert.ok('value' in parsed, JSON.stringify(parsed));
  const deps = {
    fetch,
    clock: systemClock,
    report: (error: unknown) => assert.fail(String(error)),
  };
  const fixture = await openAuthFixture({
    trusted: createTrustedIssuers(deps, [issuer], parsed.value),
  });
  t.after(() => fixture.close());
  await fixture.client({ id: 'app', issuer, secretHash: undefined });
  return fixture;
}

function verify(fixture: AuthFixture, token: string) {
  return fixture.verifier.verify(fixture.tenant, `Bearer ${token}`, Date.now());
}

async function startMessages(t: TestContext, row: Row): Promise<string> {
  const texts = new Map([
    ['PORT', String(await freePort())],
    ['CLIENT_ORIGIN_URL', 'http://localhost:4040'],
    ['TOKEN_AUDIENCE', messageAudience],
    [
      'TOKEN_ISSUER_DOMAIN',
      `${origin}${row.path}`.replace('https://', row.hasScheme ? 'https://' : ''),
    ],
  ]);
  if (row.tokenClaims !== undefined) texts.set('TOKEN_CLAIMS', documented(row.tokenClaims));
  const reading = readMessageSettings(texts, { alone: true });
  assert.ok('settings' in reading, JSON.stringify(reading));
  const { settings } = reading;
  const log = pino({ level: 'silent' });
  const issuer = issuerFor(settings);
  const service = await startMessageService({ settings, issuer, clock: systemClock, log });
  t.after(() => service.stop());
  return service.url;
}
