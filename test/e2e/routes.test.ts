import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exchange } from '../helpers/exchange.ts';
import type { Running } from '../helpers/leat.ts';
import { expectBody, bearer, narrowToken } from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

let leat: Running;

runServer({}, (running) => {
  leat = running;
});

const noStream = 'est_AAAAAAAAAAAAAAAAAAAAAA';
const noEvent = 'evt_AAAAAAAAAAAAAAAAAAAAAA';
const noDismissal = 'dsm_AAAAAAAAAAAAAAAAAAAAAA';
const noRedelivery = 'rdl_AAAAAAAAAAAAAAAAAAAAAA';
const noReplay = 'rpl_AAAAAAAAAAAAAAAAAAAAAA';
const noUser = encodeURIComponent('leat|000000000000000000000000');

/** Method, path under `/api/v2`, and the accepted scopes. */
const operations: readonly (readonly [string, string, readonly string[]])[] = [
  ['GET', '/event-streams', ['read:event_streams']],
  ['POST', '/event-streams', ['create:event_streams']],
  ['GET', `/event-streams/${noStream}`, ['read:event_streams']],
  ['PATCH', `/event-streams/${noStream}`, ['update:event_streams']],
  ['DELETE', `/event-streams/${noStream}`, ['delete:event_streams']],
  ['GET', `/event-streams/${noStream}/deliveries`, ['read:event_streams', 'read:event_deliveries']],
  ['GET', `/event-streams/${noStream}/deliveries/${noEvent}`, ['read:event_deliveries']],
  ['POST', `/event-streams/${noStream}/redeliver/${noEvent}`, ['update:event_deliveries']],
  ['POST', `/event-streams/${noStream}/redeliver`, ['update:event_deliveries']],
  ['POST', `/event-streams/${noStream}/retry-now`, ['update:event_deliveries']],
  ['GET', '/stream-health', ['read:event_streams']],
  ['GET', '/overview', ['read:event_streams']],
  ['GET', '/stats/deliveries', ['read:event_streams']],
  ['POST', '/dismissals', ['update:event_deliveries']],
  ['GET', `/dismissals/${noDismissal}`, ['read:event_deliveries']],
  ['POST', `/dismissals/${noDismissal}/reopen`, ['update:event_deliveries']],
  ['GET', '/deliveries', ['read:event_deliveries']],
  ['GET', '/delivery-groups', ['read:event_deliveries']],
  ['POST', '/redeliveries', ['update:event_deliveries']],
  ['GET', '/redeliveries', ['read:event_deliveries']],
  ['GET', `/redeliveries/${noRedelivery}`, ['read:event_deliveries']],
  ['DELETE', `/redeliveries/${noRedelivery}`, ['update:event_deliveries']],
  ['POST', `/event-streams/${noStream}/test`, ['update:event_streams']],
  ['GET', `/event-streams/${noStream}/received`, ['read:events']],
  ['PUT', `/event-streams/${noStream}/received/answer`, ['update:event_streams']],
  ['POST', `/event-streams/${noStream}/pause`, ['update:event_streams']],
  ['POST', `/event-streams/${noStream}/resume`, ['update:event_streams']],
  ['GET', `/event-streams/${noStream}/health`, ['read:event_streams']],
  ['GET', `/event-streams/${noStream}/skipped`, ['read:event_streams']],
  ['GET', `/event-streams/${noStream}/stats`, ['read:event_streams', 'read:event_deliveries']],
  ['POST', `/event-streams/${noStream}/replay`, ['update:event_deliveries']],
  ['GET', `/event-streams/${noStream}/replays`, ['read:event_deliveries']],
  ['GET', `/event-streams/${noStream}/replay/${noReplay}`, ['read:event_deliveries']],
  ['DELETE', `/event-streams/${noStream}/replay/${noReplay}`, ['update:event_deliveries']],
  ['GET', `/event-streams/${noStream}/signing-secret`, ['update:event_streams']],
  ['POST', `/event-streams/${noStream}/signing-secret/rotate`, ['update:event_streams']],
  ['POST', `/event-streams/${noStream}/filter/test`, ['read:events']],
  ['POST', '/events', ['create:events']],
  ['GET', '/event-log', ['read:events']],
  ['GET', '/event-types', ['read:events']],
  ['GET', `/event-log/${noEvent}`, ['read:events']],
  ['GET', `/event-streams/${noStream}/attempts`, ['read:event_deliveries']],
  ['POST', '/users', ['create:users']],
  ['GET', '/users', ['read:users']],
  ['GET', '/users-by-email', ['read:users']],
  ['GET', `/users/${noUser}`, ['read:users']],
  ['PATCH', `/users/${noUser}`, ['update:users']],
  ['DELETE', `/users/${noUser}`, ['delete:users']],
  ['GET', '/actions/actions', ['read:actions', 'read:event_streams']],
  ['POST', '/clients', ['create:clients']],
  ['GET', '/clients', ['read:clients']],
  ['GET', '/clients/nobody', ['read:clients']],
  ['PATCH', '/clients/nobody', ['update:clients']],
  ['DELETE', '/clients/nobody', ['delete:clients']],
  ['POST', '/clients/nobody/rotate-secret', ['update:clients']],
  ['POST', '/resource-servers', ['create:resource_servers']],
  ['GET', '/resource-servers', ['read:resource_servers']],
  ['GET', '/resource-servers/none', ['read:resource_servers']],
  ['PATCH', '/resource-servers/none', ['update:resource_servers']],
  ['DELETE', '/resource-servers/none', ['delete:resource_servers']],
  ['POST', '/client-grants', ['create:client_grants']],
  ['GET', '/client-grants', ['read:client_grants']],
  ['GET', '/client-grants/none', ['read:client_grants']],
  ['PATCH', '/client-grants/none', ['update:client_grants']],
  ['DELETE', '/client-grants/none', ['delete:client_grants']],
  ['GET', '/roles', ['read:roles']],
  ['POST', '/roles', ['create:roles']],
  ['GET', '/roles/none', ['read:roles']],
  ['PATCH', '/roles/none', ['update:roles']],
  ['DELETE', '/roles/none', ['delete:roles']],
  ['GET', '/roles/none/permissions', ['read:roles']],
  ['POST', '/roles/none/permissions', ['update:roles']],
  ['DELETE', '/roles/none/permissions', ['update:roles']],
  ['GET', '/roles/none/users', ['read:role_members']],
  ['POST', '/roles/none/users', ['create:role_members']],
  ['DELETE', '/roles/none/users', ['delete:role_members']],
  ['GET', '/roles/none/clients', ['read:role_members']],
  ['POST', '/roles/none/clients', ['create:role_members']],
  ['DELETE', '/roles/none/clients', ['delete:role_members']],
  ['GET', '/logs', ['read:logs']],
  ['GET', '/logs/none', ['read:logs']],
];

/** Those that require all scopes, and the scope without which the usual 403 comes first. */
const operatorOperations: readonly (readonly [string, string, string])[] = [
  ['GET', '/nodes', 'read:event_streams'],
  ['GET', '/settings', 'read:event_streams'],
  ['POST', '/alerts/test', 'update:event_streams'],
];

describe('every operation', () => {
  for (const [method, path, scope] of operatorOperations) {
    test(`${method} ${path} requires a token, then all scopes`, async () => {
      const anonymous = await fetch(`${leat.url}/api/v2${path}`, { method });
      assert.equal(anonymous.status, 401);
      const single = await narrowToken(leat, scope);
      const forbidden = await leat.send(method, `/api/v2${path}`, undefined, bearer(single));
      const { message } = await expectBody<{ message: string }>(403, forbidden);
      assert.match(message, /^Only an operator may do this: /);
      assert.equal((await leat.send(method, `/api/v2${path}`)).status, 200);
    });
  }

  for (const [method, path, scopes] of operations) {
    test(`${method} ${path} requires a token, then its scope`, async () => {
      const anonymous = await fetch(`${leat.url}/api/v2${path}`, { method });
      assert.equal(anonymous.headers.get('www-authenticate'), `Bearer realm="${domain()}"`);
      assert.deepEqual(await expectBody(401, anonymous), {
        statusCode: 401,
        error: 'Unauthorized',
        message: 'Missing authentication',
      });

      const others = await narrowToken(leat, otherThan(scopes));
      const forbidden = await leat.send(method, `/api/v2${path}`, undefined, bearer(others));
      assert.equal(
        forbidden.headers.get('www-authenticate'),
        `Bearer error="insufficient_scope", scope="${scopes.join(' ')}"`,
      );
      assert.deepEqual(await expectBody(403, forbidden), {
        statusCode: 403,
        error: 'Forbidden',
        message: `Insufficient scope; expected any of: ${scopes.join(',')}`,
        errorCode: 'insufficient_scope',
      });

      for (const scope of scopes) {
        const enough = bearer(await narrowToken(leat, scope));
        const { status } = await leat.send(method, `/api/v2${path}`, undefined, enough);
        assert.ok([200, 202, 204, 400, 404].includes(status), `${scope}: ${status}`);
      }
    });
  }
});

describe('requests without a token', () => {
  test('the well-known documents name the configured domain, whatever the Host header is', async () => {
    for (const host of [domain(), 'evil.example.com']) {
      const request = `GET /.well-known/openid-configuration HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
      const response = await exchange(leat.port, request);
      assert.equal(response.status, 200);
      const document = JSON.parse(response.body) as Record<string, unknown>;
      assert.equal(document['issuer'], `http://${domain()}/`);
      assert.equal(document['jwks_uri'], `http://${domain()}/.well-known/jwks.json`);
      assert.ok(!response.body.includes('evil'));
    }
    const keys = await expectBody<{ keys: Record<string, string>[] }>(
      200,
      fetch(`${leat.url}/.well-known/jwks.json`),
    );
    assert.deepEqual(
      keys.keys.map((key) => Object.keys(key).toSorted()),
      [['alg', 'e', 'kid', 'kty', 'n', 'use']],
    );
  });

  test('health, readiness and the OpenAPI document need no token', async () => {
    for (const path of ['/healthz', '/readyz']) {
      assert.equal((await fetch(leat.url + path)).status, 200);
    }
    const openapi = await expectBody<{ openapi: string; info: { version: string }; paths: object }>(
      200,
      fetch(`${leat.url}/api/v2/openapi.json`),
    );
    assert.match(openapi.openapi, /^3\.1\./);
    assert.equal(openapi.info.version, '2.0');
    const lifecycles = [
      'Early Access',
      'Generally Available',
      'Deprecated',
      'Planned',
      'Beta',
    ] as const;
    const documented = Object.entries(openapi.paths).flatMap(([path, item]) =>
      Object.entries(item as Record<string, Record<string, unknown>>).map(([method, operation]) => {
        assert.ok(lifecycles.includes(operation['x-release-lifecycle'] as 'Beta'), path);
        return `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '{}')}`;
      }),
    );
    const shapes = operations.map(([method, path]) => {
      const ids = [
        noStream,
        noEvent,
        noDismissal,
        noRedelivery,
        noReplay,
        noUser,
        'nobody',
        'none',
      ];
      const shape = path.split('/').map((part) => (ids.includes(part) ? '{}' : part));
      return `${method} ${shape.join('/')}`;
    });
    // A pull does not end.
    const others = operatorOperations.map(([method, path]) => `${method} ${path}`);
    assert.deepEqual(documented.toSorted(), ['GET /events', ...others, ...shapes].toSorted());
  });
});

/** Returns every scope of the routes above except these. */
function otherThan(scopes: readonly string[]): string {
  const all = new Set(operations.flatMap(([, , each]) => each));
  for (const scope of scopes) all.delete(scope);
  return [...all].join(' ');
}

function domain(): string {
  return `localhost:${leat.port}`;
}
