import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { secondTenant } from '../auth/fixture.ts';
import { addCode, call, type ConsoleResponse, sendCode, signIn } from './console-client.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

const unknown = 'leat:8080';
const streams = '/api/v2/event-streams';

/** Opens the API of two tenants, where the second one has a stream of its own. */
async function openTwoTenants(t: TestContext, unknownHost: 'first' | 'refuse' = 'first') {
  const fixture = await openApiFixture({ unknownHost });
  t.after(() => fixture.close());
  const other = await secondTenant(fixture.auth);
  await addTenantToDirectory(fixture);
  const host = other.tenant.domain;
  return { fixture, other, token: await tokenOf(fixture, other.manager, host), host };
}

/** Lets the directory of tenants be read again. */
async function addTenantToDirectory(fixture: ApiFixture): Promise<void> {
  fixture.auth.clock.move(10_000);
  await fixture.raw('GET', '/healthz');
}

/** Asks for a token of a client under a host. */
function ask(
  fixture: ApiFixture,
  { clientId, clientSecret }: { readonly clientId: string; readonly clientSecret: string },
  host: string,
): Promise<ConsoleResponse> {
  const body = JSON.stringify({
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: clientId,
    client_secret: clientSecret,
  });
  const headers = { host, 'content-type': 'application/json' };
  return call(fixture, 'POST', '/oauth/token', headers, body);
}

async function tokenOf(...asked: Parameters<typeof ask>): Promise<string> {
  const { status, body, text } = await ask(...asked);
  assert.equal(status, 200, text);
  return body.access_token as string;
}

const listAs = (fixture: ApiFixture, host: string, token: string): Promise<ConsoleResponse> =>
  call(fixture, 'GET', streams, { host, authorization: `Bearer ${token}` });

describe('requests for a host that is the domain of no tenant', () => {
  test('they stay with the first tenant when there is another one, under its own issuer', async (t) => {
    const { fixture } = await openTwoTenants(t);
    for (const host of [unknown, '127.0.0.1', '[::1]:8080', 'leat.example.com:8443']) {
      assert.equal((await listAs(fixture, host, fixture.token)).status, 200, host);
    }
    const { body } = await call(fixture, 'GET', '/.well-known/openid-configuration', {
      host: unknown,
    });
    assert.equal(body.issuer, 'https://leat.example.com/');
    assert.equal(body.token_endpoint, 'https://leat.example.com/oauth/token');
    const token = await tokenOf(fixture, fixture.auth.manager, unknown);
    const [, claims = ''] = token.split('.');
    const { iss, aud } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as object & {
      iss: string;
      aud: string;
    };
    assert.deepEqual([iss, aud], ['https://leat.example.com/', 'https://leat.example.com/api/v2/']);
  });

  test('tokens and clients of another tenant are refused there, and see nothing of the first one', async (t) => {
    const { fixture, other, token, host } = await openTwoTenants(t);
    assert.equal((await listAs(fixture, host, token)).status, 200);
    const refused = await listAs(fixture, unknown, token);
    assert.equal(refused.status, 401);
    assert.equal((await listAs(fixture, host, fixture.token)).status, 401, 'nor the reverse');
    const asked = await ask(fixture, other.manager, unknown);
    assert.deepEqual([asked.status, asked.body.error], [401, 'invalid_client']);
    for (const method of ['POST', 'DELETE', 'PATCH']) {
      const path = method === 'POST' ? '/api/v2/events' : `${streams}/est_1111111111111111111111`;
      const headers = { host: unknown, authorization: `Bearer ${token}` };
      assert.equal((await call(fixture, method, path, headers)).status, 401, method);
    }
  });

  test('a session of the console counts under the domain of its tenant alone', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.close());
    const browser = await signIn(fixture, 'operator', { host: unknown });
    assert.equal((await browser.session()).status, 200, 'while there is one tenant');
    const code = await addCode(fixture);
    await secondTenant(fixture.auth);
    await addTenantToDirectory(fixture);
    for (const response of [
      await browser.session(),
      await browser.api('GET', '/event-streams'),
      await browser.api('POST', '/event-streams', {}),
      await sendCode(fixture, code, { host: unknown }),
    ]) {
      assert.equal(response.status, 404);
      assert.deepEqual(
        [response.body.errorCode, response.body.message],
        ['unknown_host', 'Not Found: no tenant has the host leat:8080'],
      );
    }
    const { domain } = fixture.auth.tenant;
    assert.equal((await sendCode(fixture, code, { host: domain })).status, 201, 'not used up');
    const headers = { ...browser.headers, host: domain };
    assert.equal((await call(fixture, 'GET', '/console/session', headers)).status, 200);
  });

  test('with LEAT_UNKNOWN_HOST=refuse they are 404, which names the host, once there are two tenants', async (t) => {
    const { fixture } = await openTwoTenants(t, 'refuse');
    const listed = await listAs(fixture, unknown, fixture.token);
    assert.equal(listed.status, 404);
    assert.equal(listed.body.message, 'Not Found: no tenant has the host leat:8080');
    const asked = await ask(fixture, fixture.auth.manager, unknown);
    assert.equal(asked.status, 404);
    assert.equal(asked.body.error_description, 'Not Found: no tenant has the host leat:8080');
    const hostile = await ask(fixture, fixture.auth.manager, `a${'b'.repeat(300)}`);
    assert.ok(String(hostile.body.error_description).length < 200);
  });

  test('the hosts of accepted callers are remembered apart from those that were refused', async (t) => {
    const { fixture, token } = await openTwoTenants(t);
    const now = fixture.auth.clock.now();
    await listAs(fixture, unknown, fixture.token);
    await listAs(fixture, 'Leat.example.com:443', fixture.token);
    await listAs(fixture, 'by-another-tenant', token);
    await listAs(fixture, 'by-a-stranger', 'no token');
    await call(fixture, 'GET', streams, { host: 'without-a-token' });
    assert.deepEqual(fixture.unknownHosts.seen(now), {
      served: [unknown],
      refused: ['without-a-token'],
    });
  });
});
