import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { consolePath, loginCookie, loginsOf } from '../../src/api/console-login-cookie.ts';
import type { ConsoleProvider } from '../../src/api/console-login.ts';
import type { ApiSettings } from '../../src/api/settings.ts';
import { createOpenIdProvider } from '../../src/auth/openid-provider.ts';
import { limits } from '../../src/config.ts';
import { systemClock } from '../../src/clock.ts';
import { consoleMappings, createRoleOfMapping } from '../../src/core/console-mapping.ts';
import { allEntries } from '../helpers/audit-log.ts';
import {
  consoleClient,
  type IdentityProvider,
  signInAt,
  startIdentityProvider,
} from '../helpers/identity-provider.ts';
import { call, type ConsoleResponse, own } from './console-client.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

const domain = 'localhost:8080';
const callbackUri = `http://${domain}/console/callback`;
const people = {
  ada: { email: 'ada@example.com', email_verified: true, groups: ['admins', 'staff'] },
  bob: { email: 'bob@example.com', email_verified: true, groups: ['staff'] },
  eve: { email: 'ada@example.com', email_verified: false, name: 'Eve', groups: [] },
};

interface LoginFixture extends ApiFixture {
  readonly identity: IdentityProvider;
}

interface Options {
  readonly settings?: Partial<ApiSettings>;
  readonly roles?: string;
  readonly atOnce?: number;
}

async function openFixture(
  t: TestContext,
  {
    settings = {},
    roles = 'main/groups:admins=operator,main/groups:staff=viewer,main/email:ada@example.com=support',
    atOnce = 64,
  }: Options = {},
): Promise<LoginFixture> {
  const identity = await startIdentityProvider({
    people,
    redirectUris: [
      callbackUri,
      `https://${domain}/console/callback`,
      'http://localhost:8081/console/callback',
    ],
    otherClients: ['other'],
  });
  t.after(() => identity.close());
  const provider = providerOf(identity, roles, atOnce);
  const fixture = await openApiFixture(settings, { domain, provider });
  t.after(() => fixture.close());
  return Object.assign(fixture, { identity });
}

function providerOf({ issuer }: IdentityProvider, roles: string, atOnce: number): ConsoleProvider {
  const parsed = consoleMappings(roles);
  assert.ok('value' in parsed);
  const settings = { issuer, clientId: consoleClient.id, clientSecret: consoleClient.secret };
  const bounds = { ...limits.consoleLogin, atOnce };
  return {
    openId: createOpenIdProvider({ fetch, clock: systemClock, settings, limits: bounds }),
    mappings: parsed.value,
    roleOf: createRoleOfMapping(parsed.value),
    limits: bounds,
  };
}

/** Where a response sends the browser, and the cookies that it sets, by name; '' deletes one. */
interface Redirect {
  readonly to: string;
  readonly cookies: Readonly<Record<string, string>>;
  readonly response: ConsoleResponse;
}

async function get(
  fixture: Pick<ApiFixture, 'port'>,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Redirect> {
  const response = await call(fixture, 'GET', path, { host: domain, ...headers });
  assert.equal(response.status, 302, response.text);
  assert.equal(response.headers['cache-control'], 'no-store');
  assert.equal(response.headers['referrer-policy'], 'no-referrer');
  assert.equal(response.text, '');
  const cookies = Object.fromEntries(
    (response.headers['set-cookie'] ?? []).map((line) => {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      return [name, value];
    }),
  );
  return { to: response.headers.location ?? '', cookies, response };
}

/** Begins a sign-in; returns the URL of the provider and the cookie of the browser. */
async function begin(
  fixture: Pick<ApiFixture, 'port'>,
  to?: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ url: string; cookie: string }> {
  const query = to === undefined ? '' : `?${new URLSearchParams({ to }).toString()}`;
  const begun = await get(fixture, `/console/login${query}`, headers);
  const [cookie = ''] = begun.response.headers['set-cookie']?.[0]?.split(';') ?? [];
  return { url: begun.to, cookie };
}

/** Returns the path of the callback that the provider sends a browser to. */
async function backFrom(url: string, choice: string): Promise<string> {
  const { pathname, search } = await signInAt(url, choice);
  assert.equal(pathname, '/console/callback');
  return pathname + search;
}

/** Signs somebody in; returns the response of the callback. */
async function signIn(fixture: LoginFixture, choice: string, to?: string): Promise<Redirect> {
  const { url, cookie } = await begin(fixture, to);
  return get(fixture, await backFrom(url, choice), { cookie });
}

/** Returns who is signed in with this cookie. */
async function sessionOf(fixture: LoginFixture, { cookies }: Redirect): Promise<ConsoleResponse> {
  const cookie = `leat_console=${cookies['leat_console'] ?? ''}`;
  return call(fixture, 'GET', '/console/session', { host: domain, ...own, cookie });
}

async function sessionCount({ auth }: ApiFixture): Promise<number> {
  return (await auth.store.consoleSessions.list(auth.tenant.id)).length;
}

function changed(path: string, change: (query: URLSearchParams) => void): string {
  const url = new URL(path, `http://${domain}`);
  change(url.searchParams);
  return url.pathname + url.search;
}

describe('the sign-in at an identity provider', () => {
  test('the sign-in begins a session with the most powerful role of the person and leads to the page', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture, '/console/streams?name=a b');
    const begun = new URL(url);
    assert.equal(begun.origin, fixture.identity.issuer);
    assert.equal(begun.searchParams.get('redirect_uri'), callbackUri);
    const done = await get(fixture, await backFrom(url, 'ada'), { cookie });
    assert.equal(done.to, '/console/streams?name=a%20b');
    assert.deepEqual(Object.keys(done.cookies).toSorted(), ['leat_console', 'leat_console_login']);
    assert.equal(done.cookies['leat_console_login'], '');
    const session = await sessionOf(fixture, done);
    const { user, role, tenant } = session.body;
    assert.deepEqual(
      { user, role, tenant },
      { user: 'ada@example.com', role: 'operator', tenant: 'main' },
    );
    const [entry] = (await allEntries(fixture.auth.store, fixture.auth.tenant.id)).filter(
      ({ type }) => type === 'ssa',
    );
    assert.equal(entry?.details['user'], 'ada@example.com');
    const [stored] = await fixture.auth.store.consoleSessions.list(fixture.auth.tenant.id);
    assert.equal(stored?.mapping, 'main/groups:admins');
  });

  test('the cookie of the sign-in is for this host and 10 minutes, hidden from scripts, and sent when the provider leads back', async (t) => {
    const fixture = await openFixture(t, { settings: { trustProxy: ['127.0.0.1'] } });
    const lines = async (headers: Record<string, string>): Promise<string> =>
      (await get(fixture, '/console/login', headers)).response.headers['set-cookie']?.join() ?? '';
    const value = '[A-Za-z0-9_-]{200,2000}';
    assert.match(
      await lines({}),
      new RegExp(`^leat_console_login=${value}; Max-Age=600; Path=/; HttpOnly; SameSite=Lax$`),
    );
    assert.match(
      await lines({ 'x-forwarded-proto': 'https' }),
      new RegExp(
        `^__Host-leat_console_login=${value}; Max-Age=600; Path=/; HttpOnly; SameSite=Lax; Secure$`,
      ),
    );
  });

  for (const [name, comesBack] of [
    ['whose cookie the browser does not send back from another site', false],
    ['whose cookie comes back from a provider of the same site', true],
  ] as const) {
    test(`a sign-in ends the session that it replaces, ${name}`, async (t) => {
      const fixture = await openFixture(t);
      const former = await signIn(fixture, 'bob');
      const elsewhere = await signIn(fixture, 'bob');
      const session = `leat_console=${former.cookies['leat_console'] ?? ''}`;
      const begun = await begin(fixture, undefined, comesBack ? {} : { cookie: session });
      assert.equal((await sessionOf(fixture, former)).status, 200, 'until the sign-in has ended');
      const cookie = comesBack ? `${session}; ${begun.cookie}` : begun.cookie;
      const done = await get(fixture, await backFrom(begun.url, 'ada'), { cookie });
      assert.equal((await sessionOf(fixture, done)).body.user, 'ada@example.com');
      assert.equal((await sessionOf(fixture, former)).status, 401);
      assert.equal((await sessionOf(fixture, elsewhere)).status, 200, 'that of another browser');
      assert.equal(await sessionCount(fixture), 2);
      const out = (await allEntries(fixture.auth.store, fixture.auth.tenant.id)).filter(
        ({ description }) => description === 'Sign out of the console',
      );
      assert.deepEqual(
        out.map(({ details }) => details['user']),
        ['bob@example.com'],
      );
    });
  }

  test('a sign-in that gives nobody a session ends none', async (t) => {
    const fixture = await openFixture(t);
    const former = await signIn(fixture, 'bob');
    const session = `leat_console=${former.cookies['leat_console'] ?? ''}`;
    const { url, cookie } = await begin(fixture, undefined, { cookie: session });
    await get(fixture, await backFrom(url, 'eve'), { cookie: `${session}; ${cookie}` });
    assert.equal((await sessionOf(fixture, former)).status, 200);
  });

  test('a person without a mapping gets no session', async (t) => {
    const fixture = await openFixture(t);
    const done = await signIn(fixture, 'eve');
    assert.equal(done.to, '/console/#error=no_role');
    assert.deepEqual(done.cookies, { leat_console_login: '' });
    assert.equal(await sessionCount(fixture), 0);
    assert.deepEqual(await refusals(fixture), ['no_role']);
    assert.deepEqual(
      fixture.logged.map(({ facts }) => facts),
      [
        {
          tenant: 'main',
          failure: 'no_role',
          reason:
            'no entry of LEAT_CONSOLE_ROLES for main gives Eve a role; claims looked for: groups, email',
        },
      ],
    );
  });

  test('a person whom the provider denies gets no session, and the page no text of the provider', async (t) => {
    const fixture = await openFixture(t);
    const done = await signIn(fixture, 'deny');
    assert.equal(done.to, '/console/#error=access_denied');
    assert.deepEqual(done.cookies, { leat_console_login: '' });
    assert.deepEqual(await refusals(fixture), ['access_denied']);
  });

  test('a browser at another host of the only tenant is led to its domain first, once', async (t) => {
    const fixture = await openFixture(t);
    const host = `127.0.0.1:${fixture.port}`;
    const moved = await get(fixture, '/console/login?to=/console/events', { host });
    assert.equal(moved.to, `http://${domain}/console/login?to=%2Fconsole%2Fevents&moved=1`);
    assert.deepEqual(moved.cookies, {});
    // A proxy may send its own name.
    const { to } = await get(fixture, '/console/login?to=/console/events&moved=1', { host });
    assert.equal(new URL(to).origin, fixture.identity.issuer);
  });

  test('a provider that is down leaves the page and the rest of Leat working', async (t) => {
    const fixture = await openFixture(t);
    await fixture.identity.close();
    t.mock.method(fixture.identity, 'close', async () => {});
    const failed = await get(fixture, '/console/login');
    assert.equal(failed.to, '/console/#error=provider_unavailable');
    assert.deepEqual(failed.cookies, {});
    await get(fixture, '/console/login');
    assert.equal(fixture.logged.length, 1, 'one line a second');
    await fixture.auth.clock.advance(1000);
    await get(fixture, '/console/login');
    assert.equal(fixture.logged.length, 2);
    assert.deepEqual(await refusals(fixture), ['provider_unavailable']);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
  });

  test('without a provider nobody is led to one', async (t) => {
    const fixture = await openApiFixture({}, { domain });
    t.after(() => fixture.close());
    for (const path of ['/console/login', '/console/callback']) {
      // The page of the console, where it is built.
      const { status, headers } = await call(fixture, 'GET', path, { host: domain });
      assert.ok(status === 404 || status === 200, `${path} ${status}`);
      assert.equal(headers['set-cookie'], undefined);
    }
  });

  test('only GET is served: HEAD does not use a code up', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const back = await backFrom(url, 'ada');
    for (const path of ['/console/login', back]) {
      for (const method of ['POST', 'DELETE', 'OPTIONS']) {
        const response = await call(fixture, method, path, { host: domain, cookie });
        assert.equal(response.status, 405, `${method} ${path}`);
        assert.match(response.headers.allow ?? '', /^GET(?:, HEAD)?$/);
      }
      // HEAD is that of the page of the console, where it is built.
      const { status, headers } = await call(fixture, 'HEAD', path, { host: domain, cookie });
      assert.ok(status === 405 || status === 200, `HEAD ${path} ${status}`);
      assert.equal(headers['set-cookie'], undefined);
    }
    assert.equal((await get(fixture, back, { cookie })).to, '/console/');
  });

  test('sign-ins take from the bucket of their address', async (t) => {
    const settings = { rateLimitBurst: 2, rateLimitPerSecond: 1 };
    const fixture = await openFixture(t, { settings });
    await get(fixture, '/console/login');
    await get(fixture, '/console/callback');
    for (const path of ['/console/login', '/console/callback']) {
      assert.equal((await call(fixture, 'GET', path, { host: domain })).status, 429);
    }
  });

  test('more sign-ins than may wait for the provider at once get 503', async (t) => {
    const fixture = await openFixture(t, { atOnce: 1 });
    const statuses = await Promise.all(
      [1, 2, 3].map(
        async () => (await call(fixture, 'GET', '/console/login', { host: domain })).status,
      ),
    );
    assert.equal(statuses.filter((status) => status === 503).length, 2);
    assert.ok(statuses.includes(302));
    await begin(fixture);
  });
});

/** Error codes of the audit log, oldest first. */
async function refusals({ auth }: ApiFixture): Promise<unknown[]> {
  await auth.clock.advance(5000);
  const entries = await allEntries(auth.store, auth.tenant.id);
  return entries.filter(({ type }) => type === 'fsa').map(({ details }) => details['error']);
}

describe('an attack on the sign-in', () => {
  async function assertRefused(
    fixture: LoginFixture,
    path: string,
    cookie: string | undefined,
    error: string,
  ): Promise<void> {
    const done = await get(fixture, path, cookie === undefined ? {} : { cookie });
    assert.equal(done.to, `/console/#error=${error}`);
    assert.deepEqual(done.cookies, { leat_console_login: '' });
  }

  test('a callback with another state, or none, is refused', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const back = await backFrom(url, 'ada');
    const other = changed(back, (query) => query.set('state', 'x'.repeat(43)));
    const none = changed(back, (query) => query.delete('state'));
    const two = `${back}&state=${new URL(url).searchParams.get('state')}`;
    for (const path of [other, none, two]) await assertRefused(fixture, path, cookie, 'failed');
    assert.equal(await sessionCount(fixture), 0);
  });

  test('a callback without the cookie, with one of another browser, or with nonsense in it is refused', async (t) => {
    const fixture = await openFixture(t);
    const attacker = await begin(fixture);
    const victim = await begin(fixture);
    // The attacker signs in and makes the victim open the end of it: login CSRF.
    const back = await backFrom(attacker.url, 'bob');
    await assertRefused(fixture, back, undefined, 'expired');
    await assertRefused(fixture, back, victim.cookie, 'failed');
    for (const value of ['', 'nonsense', 'bnVsbA', 'W10', 'eyJ0ZW5hbnQiOjF9', '%00', '"a"']) {
      await assertRefused(fixture, back, `leat_console_login=${value}`, 'expired');
    }
    // Not the cookie, but one that a sister domain may set.
    await assertRefused(fixture, back, `\u00a0${attacker.cookie}`, 'expired');
    assert.equal(await sessionCount(fixture), 0);
  });

  test('the code of another person that is placed into an own sign-in is refused', async (t) => {
    const fixture = await openFixture(t);
    const victim = await begin(fixture);
    const stolen = new URL(await backFrom(victim.url, 'ada'), `http://${domain}`);
    const attacker = await begin(fixture);
    const back = await backFrom(attacker.url, 'bob');
    const injected = changed(back, (query) =>
      query.set('code', stolen.searchParams.get('code') ?? ''),
    );
    await assertRefused(fixture, injected, attacker.cookie, 'failed');
    assert.equal(await sessionCount(fixture), 0);
  });

  test('a code of another client is refused', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const other = new URL(url);
    other.searchParams.set('client_id', 'other');
    await assertRefused(fixture, await backFrom(other.href, 'ada'), cookie, 'failed');
  });

  test('a response of another issuer is refused', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const back = await backFrom(url, 'ada');
    const mixed = changed(back, (query) => query.set('iss', 'https://other.example'));
    const unnamed = changed(back, (query) => query.delete('iss'));
    for (const path of [mixed, unnamed]) await assertRefused(fixture, path, cookie, 'failed');
  });

  test('a callback counts once, with the same code and cookie', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const back = await backFrom(url, 'ada');
    assert.equal((await get(fixture, back, { cookie })).to, '/console/');
    await assertRefused(fixture, back, cookie, 'failed');
    assert.equal(await sessionCount(fixture), 1);
  });

  test('a sign-in ends after 10 minutes, also where the browser keeps the cookie', async (t) => {
    const fixture = await openFixture(t);
    const first = await begin(fixture);
    const second = await begin(fixture);
    const [backOfFirst, backOfSecond] = [
      await backFrom(first.url, 'ada'),
      await backFrom(second.url, 'ada'),
    ];
    fixture.auth.clock.move(600_000);
    assert.equal((await get(fixture, backOfFirst, { cookie: first.cookie })).to, '/console/');
    fixture.auth.clock.move(1);
    await assertRefused(fixture, backOfSecond, second.cookie, 'expired');
    assert.equal(await sessionCount(fixture), 1);
  });

  test('a sign-in of one tenant does not end in another one', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const { store, clock } = fixture.auth;
    await store.tenants.create({ name: 'two', domain: 'localhost:8081' }, clock.now());
    await fixture.auth.clock.advance(5000);
    const host = 'localhost:8081';
    const there = await get(fixture, await backFrom(url, 'ada'), { cookie, host });
    assert.equal(there.to, '/console/#error=expired');
    // It has no mapping for itself.
    const two = await begin(fixture, undefined, { host });
    const back = await signInAt(two.url, 'ada');
    assert.equal(back.origin, 'http://localhost:8081');
    const done = await get(fixture, back.pathname + back.search, { cookie: two.cookie, host });
    assert.equal(done.to, '/console/#error=no_role');
    const unknown = await call(fixture, 'GET', '/console/login', { host: 'localhost:9999' });
    assert.equal(unknown.status, 404);
  });

  test('an address in the cookie leads to no other site, whoever has set it', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const [login] = loginsOf(cookie, false);
    assert.ok(login !== undefined);
    const forged = loginCookie(
      { ...login, to: '//evil.example/' },
      { isSecure: false, maxAgeMs: 1 },
    );
    const back = await backFrom(url, 'ada');
    assert.equal(
      (await get(fixture, back, { cookie: forged.split(';')[0] ?? '' })).to,
      '/console/',
    );
  });

  test('neither state, verifier, code nor tokens are in the log or in the audit log', async (t) => {
    const fixture = await openFixture(t);
    const { url, cookie } = await begin(fixture);
    const [login] = loginsOf(cookie, false);
    const back = await backFrom(url, 'ada');
    await get(fixture, back, { cookie });
    await get(fixture, back, { cookie });
    await get(
      fixture,
      changed(back, (query) => query.set('error', 'a<script>')),
      { cookie },
    );
    await refusals(fixture);
    const { store, tenant } = fixture.auth;
    const kept = JSON.stringify([fixture.logged, await allEntries(store, tenant.id)]);
    const code = new URL(back, `http://${domain}`).searchParams.get('code') ?? '';
    assert.ok(kept.includes('invalid_grant'));
    for (const secret of [
      login?.state,
      login?.nonce,
      login?.codeVerifier,
      code,
      'eyJ',
      '<script>',
    ]) {
      assert.ok(secret !== undefined && secret !== '');
      assert.ok(!kept.includes(secret), secret);
    }
  });
});

describe('consolePath', () => {
  const kept = [
    '/console/',
    '/console/streams/est_1?tab=failures&x=//evil',
    '/console//evil.example',
    '/console/@evil.example',
    '/console/..%2f..%2fevil',
  ];
  for (const path of kept) {
    test(`consolePath keeps ${path}`, () => assert.equal(consolePath(path), path));
  }

  const hostile: unknown[] = [
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/console/../..//evil.example',
    '/console/..//evil.example',
    '/console/..\\..\\\\evil.example',
    '/console/%2e%2e//evil.example',
    '/console/.%2E/%2e./\\evil.example',
    '/console/../docs',
    'https://evil.example/console/',
    'https:evil.example',
    'https:/console/',
    'javascript:alert(1)//console/',
    ' /console/',
    '\t//evil.example',
    '/\t/evil.example',
    '/console/\t..//evil.example',
    '/console/.\n./\n/evil.example',
    '/con\nsole/',
    '/console@evil.example',
    '/console',
    '/consoles/',
    '/Console/',
    '/console/\r\nset-cookie:a=b/../..//evil.example',
    '%2f%2fevil.example',
    '',
    '?',
    '#',
    `/console/${'a'.repeat(1024)}`,
    `/console/${'é'.repeat(500)}`,
    null,
    undefined,
    7,
    ['/console/x'],
    { toString: () => '/console/x' },
  ];
  for (const path of hostile) {
    test(`consolePath replaces ${JSON.stringify(path)?.slice(0, 60) ?? 'undefined'}`, () => {
      assert.equal(consolePath(path), '/console/');
    });
  }

  test('consolePath returns no fragment and no character that ends a header', () => {
    assert.equal(consolePath('/console/a#code=x'), '/console/a');
    assert.equal(consolePath('/console/a\r\nset-cookie: b'), '/console/aset-cookie:%20b');
  });

  test('each hostile path leads to the console after a sign-in', async (t) => {
    const fixture = await openFixture(t);
    for (const path of ['//evil.example', '/\\evil.example', '/console/\t..//evil.example']) {
      assert.equal((await signIn(fixture, 'ada', path)).to, '/console/');
    }
  });
});
