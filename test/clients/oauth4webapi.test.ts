import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import * as oauth from 'oauth4webapi';
import { expectBody, bearer, freshName } from '../helpers/api-client.ts';
import { type Fixture, openFixture } from './fixture.ts';

/**
 * The unchanged package over TLS, without its option for insecure requests. Its handling of errors and
 * of every algorithm is tested with the token service itself.
 */

/** Characters that a Basic header encodes. */
const operator = { id: 'operator/of:all%20+&=~', secret: 'secret: 100 %+of/the=operator?&é' };

let fixture: Fixture;
let issuer: URL;

before(async () => {
  fixture = await openFixture({
    LEAT_BOOTSTRAP_CLIENT_ID: operator.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: operator.secret,
  });
  issuer = new URL(`https://${fixture.domain}/`);
});
after(() => fixture?.close());

async function discover(algorithm: 'oidc' | 'oauth2'): Promise<oauth.AuthorizationServer> {
  return oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm }),
  );
}

async function tokenBy(
  clientId: string,
  authentication: oauth.ClientAuth,
  parameters: Record<string, string> = { audience: `${issuer.href}api/v2/` },
): Promise<oauth.TokenEndpointResponse> {
  const server = await discover('oauth2');
  const client = { client_id: clientId };
  const response = await oauth.clientCredentialsGrantRequest(
    server,
    client,
    authentication,
    parameters,
  );
  assert.equal(response.headers.get('cache-control'), 'no-store');
  return oauth.processClientCredentialsResponse(server, client, response);
}

async function assertManages(token: oauth.TokenEndpointResponse): Promise<void> {
  assert.deepEqual([token.token_type, token.expires_in], ['bearer', 3_600]);
  const headers = bearer(token.access_token);
  await expectBody(200, fixture.send('GET', '/api/v2/event-streams', undefined, headers));
}

describe('discovery', () => {
  for (const algorithm of ['oidc', 'oauth2'] as const) {
    test(`discovery by the ${algorithm} document names the requested issuer`, async () => {
      const document = await discover(algorithm);
      assert.equal(document.issuer, issuer.href);
      assert.equal(document.token_endpoint, `${issuer.href}oauth/token`);
      assert.equal(document.jwks_uri, `${issuer.href}.well-known/jwks.json`);
      assert.deepEqual(document.token_endpoint_auth_methods_supported?.toSorted(), [
        'client_secret_basic',
        'client_secret_post',
        'private_key_jwt',
      ]);
    });
  }

  test('discovery under another name of the machine is refused: the issuer must match exactly', async () => {
    const other = new URL(`https://127.0.0.1:${fixture.port}/`);
    const response = await oauth.discoveryRequest(other, { algorithm: 'oidc' });
    await assert.rejects(oauth.processDiscoveryResponse(other, response), /issuer/);
  });
});

describe('client credentials', () => {
  test('client credentials by a secret in the body', async () => {
    await assertManages(await tokenBy(operator.id, oauth.ClientSecretPost(operator.secret)));
  });

  test('client credentials by a secret in the header, with every character that needs encoding', async () => {
    await assertManages(await tokenBy(operator.id, oauth.ClientSecretBasic(operator.secret)));
  });

  test('client credentials by an assertion, signed with RSA and with an elliptic curve', async () => {
    const imports = {
      RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
      ES256: { name: 'ECDSA', namedCurve: 'P-256' },
    };
    const pairs: Record<keyof typeof imports, { privateKey: KeyObject; publicKey: KeyObject }> = {
      RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
      ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    };
    const jwks = {
      keys: Object.values(pairs).map(({ publicKey }) => publicKey.export({ format: 'jwk' })),
    };
    const { client_id } = await expectBody<{ client_id: string }>(
      201,
      fixture.send('POST', '/api/v2/clients', { name: freshName(), global: true, jwks }),
    );
    const audience = `${issuer.href}api/v2/`;
    const grant = { client_id, audience, scope: ['read:event_streams'] };
    await expectBody(201, fixture.send('POST', '/api/v2/client-grants', grant));

    for (const name of ['RS256', 'ES256'] as const) {
      const der = pairs[name].privateKey.export({ type: 'pkcs8', format: 'der' });
      const key = await crypto.subtle.importKey(
        'pkcs8',
        Uint8Array.from(der),
        imports[name],
        false,
        ['sign'],
      );
      const token = await tokenBy(client_id, oauth.PrivateKeyJwt(key));
      assert.equal(token.scope, 'read:event_streams', name);
      await assertManages(token);
    }
  });

  test('client credentials with fewer scopes: the token has those, and the published keys verify it', async () => {
    const { access_token: token, scope } = await tokenBy(
      operator.id,
      oauth.ClientSecretPost(operator.secret),
      { audience: '/api/v2/', scope: 'read:users' },
    );
    assert.equal(scope, 'read:users');
    const { jwks_uri = '' } = await discover('oidc');
    const { payload } = await jwtVerify(token, createRemoteJWKSet(new URL(jwks_uri)), {
      algorithms: ['RS256'],
      issuer: issuer.href,
      audience: `${issuer.href}api/v2/`,
    });
    assert.deepEqual([payload['azp'], payload['scope']], [operator.id, 'read:users']);
  });
});
