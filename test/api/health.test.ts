import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { allScopesBut, assertProblem, type ApiFixture, openApiFixture } from './fixture.ts';

type Settings = Parameters<typeof openApiFixture>[0];

async function open(
  t: TestContext,
  settings: Settings = {},
  options: Parameters<typeof openApiFixture>[1] = {},
): Promise<ApiFixture> {
  const fixture = await openApiFixture(settings, options);
  t.after(() => fixture.close());
  return fixture;
}

const proxied = { trustProxy: ['127.0.0.1', '::1'] };
/** A client behind the proxy 127.0.0.1. */
const stranger = { 'x-forwarded-for': '203.0.113.7' };
const stale = { 'x-forwarded-for': '127.0.0.1, 203.0.113.7' };

async function nodesFor(
  fixture: ApiFixture,
  headers: Readonly<Record<string, string>>,
): Promise<boolean> {
  const { status, body } = await fixture.raw('GET', '/readyz', undefined, headers);
  assert.equal(status, 200);
  assert.equal(body.status, 'ok');
  assert.deepEqual(Object.keys(body), 'nodes' in body ? ['status', 'nodes'] : ['status']);
  return 'nodes' in body;
}

describe('details of /readyz', () => {
  test('a client on the machine gets the nodes, whatever it forwards to an untrusting server', async (t) => {
    const fixture = await open(t);
    assert.equal(await nodesFor(fixture, {}), true);
    assert.equal(await nodesFor(fixture, stranger), true);
  });

  test('a stranger gets the status alone', async (t) => {
    const fixture = await open(t, proxied);
    for (const headers of [
      stranger,
      stale,
      { ...stranger, authorization: '' },
      { ...stranger, authorization: 'Bearer nonsense' },
      { ...stranger, 'x-real-ip': '127.0.0.1', forwarded: 'for=127.0.0.1' },
      { ...stranger, 'x-forwarded-host': 'localhost' },
    ]) {
      assert.equal(await nodesFor(fixture, headers), false, JSON.stringify(headers));
    }
  });

  test('a client on the machine behind a trusted proxy gets the nodes', async (t) => {
    const fixture = await open(t, proxied);
    for (const address of ['127.0.0.1', '127.8.9.1', '::1', '::ffff:127.0.0.1']) {
      assert.equal(await nodesFor(fixture, { 'x-forwarded-for': address }), true, address);
    }
    for (const address of ['::2', '128.0.0.1', '::ffff:10.0.0.1', '64:ff9b::7f00:1']) {
      const headers = { 'x-forwarded-for': `127.0.0.1, ${address}` };
      assert.equal(await nodesFor(fixture, headers), false, address);
    }
  });

  test('a trusted proxy on the machine that does not name its client gets the status alone', async (t) => {
    const fixture = await open(t, proxied);
    for (const value of [undefined, '', 'unknown', '127.0.0.1, 203.0.113.7:4711', 'unknown, ::1']) {
      const headers = value === undefined ? {} : { 'x-forwarded-for': value };
      assert.equal(await nodesFor(fixture, headers), false, value ?? 'none');
    }
  });

  test('a token with read:event_streams gets the nodes', async (t) => {
    const fixture = await open(t, proxied);
    const nodesWith = async (...scopes: string[]): Promise<boolean> =>
      nodesFor(fixture, { ...stranger, ...(await fixture.headersWith(...scopes)) });
    assert.equal(await nodesWith('read:event_streams'), true);
    assert.equal(await nodesWith(...allScopesBut('read:event_streams')), false);
    const local = await fixture.auth.client({ global: false }, ['read:event_streams']);
    const authorization = `Bearer ${await fixture.auth.token(local)}`;
    assert.equal(await nodesFor(fixture, { ...stranger, authorization }), false);
  });

  test('the reason why a node is not ready is a detail', async (t) => {
    const fault: { error: Error | undefined } = { error: undefined };
    const fixture = await open(t, proxied, {
      around: (store) => ({
        ...store,
        ping: () => (fault.error === undefined ? store.ping() : Promise.reject(fault.error)),
      }),
    });
    const token = await fixture.headersWith('read:event_streams');
    fault.error = new StoreUnavailable('disk full', { reason: 'full' });
    const hidden = await fixture.raw('GET', '/readyz', undefined, stranger);
    assert.equal(hidden.status, 503);
    assert.deepEqual(hidden.body, { status: 'unavailable' });
    assert.equal(hidden.headers.get('retry-after'), '1');
    const shown = { ...stranger, ...token };
    const reason = 'The disk of the store is full.';
    const detailed = await fixture.raw('GET', '/readyz', undefined, shown);
    assertProblem(detailed, 503, reason, 'service_unavailable');

    fault.error = undefined;
    fixture.auth.clock.move(1000);
    fixture.ready = false;
    const closing = await fixture.raw('GET', '/readyz', undefined, stranger);
    assert.deepEqual([closing.status, closing.body], [503, { status: 'unavailable' }]);
    const own = await fixture.raw('GET', '/readyz', undefined, { 'x-forwarded-for': '::1' });
    assertProblem(own, 503, 'Service Unavailable', 'service_unavailable');
  });
});

test(
  'what comes while /readyz checks its caller or asks the store counts',
  { tags: ['long'] },
  async (t) => {
    const obstacles: Record<string, (fixture: ApiFixture) => void> = {
      'no lease': (fixture) => (fixture.obstacle = 'The node has no lease.'),
      closing: (fixture) => (fixture.ready = false),
    };
    for (const [name, come] of Object.entries(obstacles)) {
      for (const when of ['access', 'ping']) {
        let read = (_what: string): void => undefined;
        const fixture = await open(t, proxied, {
          around: (store) => ({
            ...store,
            ping: () => store.ping().finally(() => read('ping')),
            clients: {
              ...store.clients,
              access: (...args) => store.clients.access(...args).finally(() => read('access')),
            },
          }),
        });
        const token = await fixture.headersWith('read:event_streams');
        read = (what) => {
          if (what === when) come(fixture);
        };
        const { status } = await fixture.raw('GET', '/readyz', undefined, {
          ...stranger,
          ...token,
        });
        assert.equal(status, 503, `${name}, ${when}`);
      }
    }
  },
);

describe('rate limits of public paths', () => {
  const documents = [
    '/.well-known/jwks.json',
    '/.well-known/webhook-keys.json',
    '/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server',
  ];
  const tight = { ...proxied, rateLimitBurst: 3, rateLimitPerSecond: 1 };

  for (const paths of [['/readyz'], documents]) {
    test(`${paths.join(', ')}: requests of an address above the limit are 429`, async (t) => {
      const fixture = await open(t, tight);
      const pathAt = (index: number): string => paths[index % paths.length] ?? '';
      for (const left of [2, 1, 0]) {
        const { status, headers } = await fixture.raw('GET', pathAt(left), undefined, stranger);
        assert.equal(status, 200);
        assert.equal(headers.get('x-ratelimit-limit'), '3');
        assert.equal(headers.get('x-ratelimit-remaining'), String(left));
        assert.ok(headers.has('x-ratelimit-reset'));
      }
      for (const path of paths) {
        const rejected = await fixture.raw('GET', path, undefined, stranger);
        assertProblem(
          rejected,
          429,
          'Too many requests. Check the X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset headers.',
          'too_many_requests',
        );
        assert.equal(rejected.headers.get('retry-after'), '1');
        assert.equal(rejected.headers.get('cache-control'), 'no-store');
        assert.equal(rejected.headers.get('x-ratelimit-remaining'), '0');
      }
      const other = { 'x-forwarded-for': '203.0.113.8' };
      assert.equal((await fixture.raw('HEAD', pathAt(0), undefined, other)).status, 200);
      fixture.auth.clock.move(1000);
      assert.equal((await fixture.raw('GET', pathAt(0), undefined, stranger)).status, 200);
    });
  }

  test('probes, documents and the API have buckets of their own', async (t) => {
    const fixture = await open(t, tight);
    const statusOf = async (path: string): Promise<number> =>
      (await fixture.raw('GET', path, undefined, stranger)).status;
    const drain = async (path: string): Promise<void> => {
      for (let count = 0; count < 4; count += 1) await statusOf(path);
      assert.equal(await statusOf(path), 429, path);
    };
    await drain('/api/v2/event-streams');
    assert.equal(await statusOf('/readyz'), 200);
    assert.equal(await statusOf('/.well-known/jwks.json'), 200);
    await drain('/.well-known/jwks.json');
    assert.equal(await statusOf('/readyz'), 200);
    await drain('/readyz');
    assert.equal(await statusOf('/healthz'), 200);
  });

  test('a spoofed address of an untrusted peer draws on the bucket of the peer', async (t) => {
    const fixture = await open(t, { ...tight, trustProxy: [] });
    for (const path of ['/readyz', '/.well-known/jwks.json']) {
      const statuses: number[] = [];
      for (const address of ['203.0.113.1', '203.0.113.2', '::1', '10.0.0.1']) {
        const headers = { 'x-forwarded-for': address };
        statuses.push((await fixture.raw('GET', path, undefined, headers)).status);
      }
      assert.deepEqual(statuses, [200, 200, 200, 429], path);
    }
  });
});
