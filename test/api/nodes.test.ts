import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { secondTenant } from '../auth/fixture.ts';
import { waitFor } from '../helpers/wait.ts';
import { call, signIn } from './console-client.ts';
import {
  allScopesBut,
  assertLacksScope,
  assertProblem,
  openApiFixture,
  type ApiFixture,
} from './fixture.ts';

const operations = [
  ['GET', '/nodes', 'read:event_streams'],
  ['GET', '/settings', 'read:event_streams'],
  ['POST', '/alerts/test', 'update:event_streams'],
] as const;
const refusal =
  'Only an operator may do this: a client of the first tenant that has all scopes of the management API.';

async function open(
  t: TestContext,
  ...options: Parameters<typeof openApiFixture>
): Promise<ApiFixture> {
  const fixture = await openApiFixture(...options);
  t.after(() => fixture.close());
  return fixture;
}

/** Adds a tenant; resolves once the fixture serves its domain. */
async function openOther({ auth, raw }: ApiFixture): Promise<{
  other: Awaited<ReturnType<typeof secondTenant>>;
  host: Readonly<Record<string, string>>;
}> {
  const other = await secondTenant(auth);
  const host = { 'x-forwarded-host': other.tenant.domain, 'x-forwarded-proto': 'https' };
  // The directory has read the new tenant.
  await waitFor('the other tenant', async () => {
    await auth.clock.advance(5000);
    return (await raw('GET', '/.well-known/jwks.json', undefined, host)).status === 200;
  });
  return { other, host };
}

describe('the operations of operators', () => {
  test('a caller that lacks any one scope of the management API gets 403', async (t) => {
    const fixture = await open(t);
    for (const missing of managementScopes) {
      const headers = await fixture.headersWith(...allScopesBut(missing));
      for (const [method, path, scope] of operations) {
        const response = await fixture.send(method, path, undefined, headers);
        if (missing === scope) assertLacksScope(response, scope);
        else {
          assertProblem(response, 403, refusal, 'insufficient_scope');
          const challenge = `Bearer error="insufficient_scope", scope="${missing}"`;
          assert.equal(response.headers.get('www-authenticate'), challenge);
        }
      }
    }
  });

  test('the bootstrap client of another tenant gets 403', async (t) => {
    const fixture = await open(t, { trustProxy: ['127.0.0.1'] });
    const { auth } = fixture;
    const { other, host } = await openOther(fixture);
    const issued = await auth.endpoint.issue({
      tenant: other.tenant,
      authorization: undefined,
      contentType: 'application/x-www-form-urlencoded',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        audience: '/api/v2/',
        client_id: other.manager.clientId,
        client_secret: other.manager.clientSecret,
      }).toString(),
      now: auth.clock.now(),
    });
    const token = (issued.response.body as { access_token?: string }).access_token ?? '';
    const headers = { ...host, authorization: `Bearer ${token}` };
    for (const [method, path] of operations) {
      const response = await fixture.raw(method, `/api/v2${path}`, undefined, headers);
      assertProblem(response, 403, refusal, 'insufficient_scope');
    }
    const [refused, ...more] = await waitFor('the entry of the audit log', async () => {
      await auth.clock.advance(1000);
      const entries = await allEntries(auth.store, other.tenant.id, { types: ['fapi'] });
      return entries.length > 0 ? entries : undefined;
    });
    assert.deepEqual([refused?.details['path'], more], ['/api/v2/alerts/test', []]);
  });

  test('an operator of the console may call them, other roles get 403', async (t) => {
    const fixture = await open(t);
    for (const [role, expected] of [
      ['operator', 200],
      ['support', 403],
      ['viewer', 403],
    ] as const) {
      const { api } = await signIn(fixture, role);
      for (const [method, path] of operations) {
        const { status, text } = await api(method, path);
        assert.equal(status, expected, `${role} ${method} ${path}: ${text}`);
      }
    }
  });

  test('an operator of the console of another tenant gets 403', async (t) => {
    const fixture = await open(t, { trustProxy: ['127.0.0.1'] });
    const { other } = await openOther(fixture);
    const { headers } = await signIn(fixture, 'operator', {
      tenant: other.tenant.id,
      host: other.tenant.domain,
    });
    for (const [method, path] of operations) {
      const response = await call(fixture, method, `/api/v2${path}`, headers);
      assert.deepEqual([response.status, response.body.message], [403, refusal]);
      // The caller has every scope, so none is named; an empty list would break RFC 6750 section 3.
      const challenge = 'Bearer error="insufficient_scope"';
      assert.equal(response.headers['www-authenticate'], challenge);
    }
  });
});

describe('GET /nodes', () => {
  test('shows this node with its version, and the store', async (t) => {
    const fixture = await open(t, {}, { nodeId: 'node-b' });
    const { store } = fixture.auth;
    const before = (await fixture.send('GET', '/nodes')).body;
    assert.deepEqual(before.nodes, []);
    await store.ownership.join('node-b', 30_000);
    const { status, body } = await fixture.send('GET', '/nodes');
    assert.equal(status, 200);
    const { lease_ms: leaseMs } = body.nodes[0];
    assert.deepEqual(body, {
      as_of: new Date(fixture.auth.time.at).toISOString(),
      nodes: [
        {
          id: 'node-b',
          version: '1.2.3',
          streams: 0,
          lease_ms: leaseMs,
          clock_skew_ms: 0,
          is_self: true,
        },
      ],
      store: { engine: 'sqlite', bytes: body.store.bytes, free_bytes: body.store.free_bytes },
    });
    assert.ok(Number.isInteger(body.store.bytes) && body.store.bytes > 0);
    assert.ok(Number.isInteger(leaseMs) && leaseMs > 0 && leaseMs <= 30_000);
  });

  test('a node with another name is not this one, and its version is unknown', async (t) => {
    for (const [nodeId, isSelf] of [
      ['node-b', false],
      // Where no other node can have the store, whatever the name.
      [undefined, true],
    ] as const) {
      const fixture = await open(t, {}, nodeId === undefined ? {} : { nodeId });
      await fixture.auth.store.ownership.join('node-a', 30_000);
      const { nodes } = (await fixture.send('GET', '/nodes')).body;
      assert.equal(nodes.length, 1);
      assert.deepEqual([nodes[0].id, nodes[0].is_self], ['node-a', isSelf]);
      assert.equal(nodes[0].version, isSelf ? '1.2.3' : undefined);
    }
  });
});
