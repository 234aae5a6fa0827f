import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { secretText } from '../../src/api/console-cookie.ts';
import type { Store } from '../../src/store/port/store.ts';
import { random, secondTenant } from '../auth/fixture.ts';
import { openPull } from '../helpers/pull.ts';
import {
  addCode,
  type Browser,
  browserWith,
  call,
  type ConsoleResponse,
  own,
  sendCode,
  signIn,
} from './console-client.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

type Settings = Parameters<typeof openApiFixture>[0];
type Headers = Readonly<Record<string, string>>;

async function openFixtureFor(t: TestContext, settings: Settings = {}): Promise<ApiFixture> {
  const fixture = await openApiFixture(settings);
  t.after(() => fixture.close());
  return fixture;
}

const host = 'leat.example.com';
const console = { 'leat-console': '1' };

/** Headers with which no browser sends a request of the console; the host is {@link host}. */
const foreign: readonly (readonly [what: string, headers: Headers])[] = [
  ['Sec-Fetch-Site: cross-site', { ...console, 'sec-fetch-site': 'cross-site' }],
  ['Sec-Fetch-Site: same-site', { ...console, 'sec-fetch-site': 'same-site' }],
  ['Sec-Fetch-Site: none, as a link that is opened', { ...console, 'sec-fetch-site': 'none' }],
  ['an empty Sec-Fetch-Site', { ...console, 'sec-fetch-site': '' }],
  ['Sec-Fetch-Site in another case', { ...console, 'sec-fetch-site': 'Same-Origin' }],
  [
    'Sec-Fetch-Site: cross-site with the own Origin',
    { ...console, 'sec-fetch-site': 'cross-site', origin: `http://${host}` },
  ],
  ['Origin: null', { ...console, origin: 'null' }],
  ['the Origin of another port', { ...console, origin: `http://${host}:8443` }],
  ['the Origin of another scheme', { ...console, origin: `https://${host}` }],
  ['the Origin of another host', { ...console, origin: 'http://attacker.example' }],
  ['the Origin of a sister domain', { ...console, origin: 'http://other.example.com' }],
  [
    'an Origin that begins as the own one',
    { ...console, origin: `http://${host}.attacker.example` },
  ],
  ['an Origin with a path', { ...console, origin: `http://${host}/` }],
  ['neither Sec-Fetch-Site nor Origin', console],
  ['a Referer in place of an Origin', { ...console, referer: `http://${host}/console/` }],
];

/** What a form can send, without the header of the console. */
const forms = ['application/x-www-form-urlencoded', 'multipart/form-data', 'text/plain'] as const;

const change = { name: 'taken' };

async function createStream({ send }: ApiFixture): Promise<string> {
  const created = await send('POST', '/event-streams', {
    name: 'crm',
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://receiver.example/',
        webhook_authorization: { method: 'bearer', token: 'secret-of-the-receiver' },
      },
    },
  });
  assert.equal(created.status, 201, created.text);
  return created.body.id;
}

function assertForeign(response: ConsoleResponse, what: string): void {
  assert.equal(response.status, 403, `${what}: ${response.text}`);
  assert.equal(response.body.errorCode, 'cross_site_request', what);
  assert.equal(response.headers['set-cookie'], undefined, what);
}

describe('requests of other sites', () => {
  test('none of them reads anything with the cookie', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    for (const path of ['/api/v2/event-streams', '/api/v2/events', '/console/session']) {
      for (const [what, headers] of foreign) {
        const response = await call(fixture, 'GET', path, { host, cookie, ...headers });
        assertForeign(response, `${path}, ${what}`);
      }
    }
  });

  test('none of them changes anything with the cookie', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    const path = `/api/v2/event-streams/${await createStream(fixture)}`;
    const type = { 'content-type': 'application/json' };
    for (const [what, headers] of foreign) {
      const sent = { host, cookie, ...type, ...headers };
      assertForeign(await call(fixture, 'PATCH', path, sent, JSON.stringify(change)), what);
      assertForeign(await call(fixture, 'DELETE', path, sent), what);
    }
    const { body } = await fixture.send('GET', path.slice('/api/v2'.length));
    assert.equal(body.name, 'crm');
  });

  test('a change needs the header Leat-Console: 1, whatever else the request has', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    const id = await createStream(fixture);
    const headers = { host, cookie, 'sec-fetch-site': 'same-origin', origin: `http://${host}` };
    for (const value of [undefined, '', '0', 'true', '1, 1']) {
      const marked = value === undefined ? headers : { ...headers, 'leat-console': value };
      for (const method of ['POST', 'DELETE']) {
        const path = method === 'POST' ? `/event-streams/${id}/pause` : `/event-streams/${id}`;
        assertForeign(await call(fixture, method, `/api/v2${path}`, marked), `${method} ${value}`);
      }
      assertForeign(await call(fixture, 'DELETE', '/console/session', marked), `${value}`);
    }
    assert.equal((await fixture.send('GET', `/event-streams/${id}`)).status, 200);
  });

  test('forms neither change anything nor sign in nor out', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie, session } = await signIn(fixture);
    const id = await createStream(fixture);
    const code = await addCode(fixture);
    const bodies = { pause: '{"reason":"x="}', session: JSON.stringify({ code }) };
    for (const type of forms) {
      for (const from of ['same-origin', 'cross-site', 'none']) {
        const headers = { host, cookie, 'content-type': type, 'sec-fetch-site': from };
        const paused = await call(
          fixture,
          'POST',
          `/api/v2/event-streams/${id}/pause`,
          headers,
          bodies.pause,
        );
        assertForeign(paused, `${type}, ${from}`);
        const signed = await call(fixture, 'POST', '/console/session', headers, bodies.session);
        assertForeign(signed, `${type}, ${from}`);
      }
      const marked = { host, ...own, 'content-type': type };
      const signed = await call(fixture, 'POST', '/console/session', marked, bodies.session);
      assert.equal(signed.status, 415, type);
    }
    assert.equal((await session()).status, 200);
    assert.equal((await sendCode(fixture, code)).status, 201, 'the code was not used up');
  });

  test('another site cannot sign a browser in to a session of its own', async (t) => {
    const fixture = await openFixtureFor(t);
    const code = await addCode(fixture);
    const body = JSON.stringify({ code });
    for (const [what, headers] of foreign) {
      const sent = { host, 'content-type': 'application/json', ...headers };
      assertForeign(await call(fixture, 'POST', '/console/session', sent, body), what);
    }
    assert.equal((await sendCode(fixture, code)).status, 201);
  });

  test('another site cannot sign a browser out', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie, session } = await signIn(fixture);
    for (const [what, headers] of foreign) {
      const sent = { host, cookie, ...headers };
      assertForeign(await call(fixture, 'DELETE', '/console/session', sent), what);
    }
    assert.equal((await session()).status, 200);
  });

  test('a refused request counts as no use, and against the bucket of its address', async (t) => {
    const fixture = await openFixtureFor(t, { rateLimitBurst: 4, rateLimitPerSecond: 1 });
    const { cookie, api } = await signIn(fixture);
    const headers = { host, cookie, 'sec-fetch-site': 'cross-site' };
    const statuses: number[] = [];
    for (let sent = 0; sent < 4; sent += 1) {
      statuses.push((await call(fixture, 'GET', '/api/v2/event-streams', headers)).status);
    }
    assert.deepEqual(statuses, [403, 403, 403, 429]);
    assert.equal((await api('GET', '/event-streams')).status, 200);
  });

  test('the own Origin is accepted where a browser sends no Sec-Fetch-Site', async (t) => {
    const fixture = await openFixtureFor(t, { trustProxy: ['127.0.0.1'] });
    const { cookie } = await signIn(fixture);
    const get = (headers: Headers): Promise<ConsoleResponse> =>
      call(fixture, 'GET', '/api/v2/event-streams', { cookie, ...headers });
    assert.equal((await get({ host, origin: `http://${host}` })).status, 200);
    assert.equal((await get({ host: `${host}:80`, origin: `http://${host}` })).status, 200);
    assert.equal((await get({ host: 'LEAT.example.com', origin: `http://${host}` })).status, 200);
    assert.equal((await get({ host: `${host}:8080`, origin: `http://${host}:8080` })).status, 200);
    assert.equal((await get({ host: `${host}:8080`, origin: `http://${host}` })).status, 403);

    const proxied = { 'x-forwarded-proto': 'https', 'x-forwarded-host': host };
    const secure = browserWith(fixture, await sendCode(fixture, await addCode(fixture), proxied));
    const getSecure = (origin: string): Promise<ConsoleResponse> =>
      call(fixture, 'GET', '/api/v2/event-streams', { cookie: secure.cookie, ...proxied, origin });
    assert.equal((await getSecure(`https://${host}`)).status, 200);
    assert.equal((await getSecure(`http://${host}`)).status, 403);
  });

  test('the headers of a proxy that is not trusted make no own Origin', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    const headers = { host, cookie, origin: 'http://attacker.example' };
    const forged = { ...headers, 'x-forwarded-host': 'attacker.example' };
    assertForeign(await call(fixture, 'GET', '/api/v2/event-streams', forged), 'forged');
  });
});

describe('cookies', () => {
  test('invented secrets above the rate limit of their address do not reach the store', async (t) => {
    let reads = 0;
    const counting = (store: Store): Store => ({
      ...store,
      consoleSessions: {
        ...store.consoleSessions,
        get: (...read) => {
          reads += 1;
          return store.consoleSessions.get(...read);
        },
      },
    });
    const rate = { rateLimitBurst: 5, rateLimitPerSecond: 1 };
    const fixture = await openApiFixture(rate, { around: counting });
    t.after(() => fixture.close());
    const browser = await signIn(fixture);
    assert.equal((await browser.api('GET', '/event-streams')).status, 200);
    reads = 0;
    const statuses = new Set<number>();
    for (let sent = 0; sent < 20; sent += 1) {
      const cookie = `leat_console=${secretText(random(32))}`;
      const response = await call(fixture, 'GET', '/api/v2/event-streams', { ...own, cookie });
      statuses.add(response.status);
    }
    assert.deepEqual(statuses, new Set([401, 429]));
    assert.ok(reads <= rate.rateLimitBurst, `${reads} reads`);
    // The session that is known is not affected.
    assert.equal((await browser.api('GET', '/event-streams')).status, 200);
  });

  test('one that was planted before the sign-in is not the session after it', async (t) => {
    const fixture = await openFixtureFor(t);
    const preset = `leat_console=${'A'.repeat(43)}`;
    const of = await signIn(fixture, 'viewer');
    for (const cookie of [preset, of.cookie]) {
      const signedIn = await sendCode(fixture, await addCode(fixture), { cookie });
      const browser = browserWith(fixture, signedIn);
      assert.notEqual(browser.cookie, cookie);
      assert.equal((await browser.session()).body.role, 'operator');
    }
    const session = await call(fixture, 'GET', '/console/session', { ...own, cookie: preset });
    assert.equal(session.status, 401);
    assert.equal((await of.session()).status, 401, 'it was replaced');
  });

  test('a code is valid once, and for its own tenant only', async (t) => {
    const fixture = await openFixtureFor(t);
    const { tenant } = await secondTenant(fixture.auth);
    await fixture.auth.clock.advance(10_000);
    const place = { host };
    const code = await addCode(fixture, 'operator', tenant.id);
    const foreignCode = await sendCode(fixture, code, place);
    assert.equal(foreignCode.status, 401);
    assert.equal(foreignCode.body.errorCode, 'invalid_code');
    assert.equal(foreignCode.headers['set-cookie'], undefined);
    const there = { host: tenant.domain };
    assert.equal((await sendCode(fixture, code, there)).status, 201);
    assert.equal((await sendCode(fixture, code, there)).status, 401);

    const raced = await addCode(fixture);
    const all = await Promise.all(Array.from({ length: 5 }, () => sendCode(fixture, raced, place)));
    const statuses = all.map(({ status }) => String(status)).toSorted();
    assert.deepEqual(statuses, ['201', '401', '401', '401', '401']);

    const late = await addCode(fixture);
    await fixture.auth.clock.advance(10 * 60_000);
    assert.equal((await sendCode(fixture, late, place)).status, 401);
  });

  test('the session of a tenant is none of another one', async (t) => {
    const fixture = await openFixtureFor(t);
    const { tenant } = await secondTenant(fixture.auth);
    await fixture.auth.clock.advance(10_000);
    const browser = await signIn(fixture, 'operator', { host });
    const headers = { ...browser.headers, host: tenant.domain };
    assert.equal((await browser.session()).status, 200);
    assert.equal((await call(fixture, 'GET', '/console/session', headers)).status, 401);
    assert.equal((await call(fixture, 'GET', '/api/v2/event-streams', headers)).status, 401);
    const out = await call(fixture, 'DELETE', '/console/session', headers);
    assert.equal(out.status, 401);
    assert.equal((await browser.session()).status, 200);
    const nobody = { ...browser.headers, host: 'unknown.example' };
    assert.equal((await call(fixture, 'GET', '/console/session', nobody)).status, 404);
  });

  test('a request with an Authorization header has no session', async (t) => {
    const fixture = await openFixtureFor(t);
    const { headers } = await signIn(fixture);
    const get = (authorization: string): Promise<ConsoleResponse> =>
      call(fixture, 'GET', '/api/v2/clients', { ...headers, authorization });
    for (const value of ['', 'Bearer', 'Bearer x', 'Basic eDp5', 'session']) {
      assert.equal((await get(value)).status, 401, value);
    }
    // It is the token that counts.
    const token = await fixture.tokenWith('read:event_streams');
    assert.equal((await get(`Bearer ${token}`)).status, 403);
    const fromElsewhere = { 'sec-fetch-site': 'cross-site', authorization: `Bearer ${token}` };
    const path = '/api/v2/event-streams';
    assert.equal((await call(fixture, 'GET', path, { ...headers, ...fromElsewhere })).status, 200);
  });

  test('a request with two different sessions is refused, also in two headers', async (t) => {
    const fixture = await openFixtureFor(t);
    const one = await signIn(fixture, 'operator');
    const other = await signIn(fixture, 'viewer');
    const refused = [
      `${one.cookie}; ${other.cookie}`,
      `${other.cookie}; theme=dark; ${one.cookie}`,
      [one.cookie, other.cookie],
      `${one.cookie}; leat_console=`,
      `leat_console=x;${one.cookie}`,
    ];
    for (const cookie of refused) {
      const response = await call(fixture, 'GET', '/api/v2/event-streams', { ...own, cookie });
      assert.equal(response.status, 403, String(cookie));
      assert.equal(response.body.errorCode, 'ambiguous_session');
    }
    const twice = { ...own, cookie: `a=b; ${one.cookie}; ${one.cookie}` };
    assert.equal((await call(fixture, 'GET', '/api/v2/event-streams', twice)).status, 200);
  });

  test('what is no secret of a session is 401', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    const [, secret = ''] = cookie.split('=');
    const values = [
      '',
      secret.slice(1),
      `${secret}A`,
      `"${secret}"`,
      secret.toLowerCase(),
      encodeURIComponent(`${secret}\0`),
      'A'.repeat(8000),
      Buffer.from(secret, 'base64url').toString('hex'),
    ];
    for (const value of values) {
      const headers = { ...own, cookie: `leat_console=${value}` };
      const response = await call(fixture, 'GET', '/api/v2/event-streams', headers);
      assert.equal(response.status, 401, value.slice(0, 100));
    }
    const names = ['Leat_console', 'leat_consoles', 'xleat_console', '__Host-leat_console'];
    for (const name of names) {
      const headers = { ...own, cookie: `${name}=${secret}` };
      const response = await call(fixture, 'GET', '/api/v2/event-streams', headers);
      assert.equal(response.status, 401, name);
    }
  });

  test('a cookie whose name begins with other white space is another cookie', async (t) => {
    const fixture = await openFixtureFor(t, { trustProxy: ['127.0.0.1'] });
    const proxied = { 'x-forwarded-proto': 'https', 'x-forwarded-host': host };
    const { cookie } = browserWith(
      fixture,
      await sendCode(fixture, await addCode(fixture), proxied),
    );
    const get = (sent: string): Promise<ConsoleResponse> =>
      call(fixture, 'GET', '/api/v2/event-streams', { ...own, ...proxied, cookie: sent });
    assert.equal((await get(`a=b;\t ${cookie} `)).status, 200);
    // Sister domains may set it: browsers keep the prefix __Host- for names that begin with it.
    for (const tossed of [`\u00a0${cookie}`, `a=b; \u00a0${cookie}`]) {
      assert.equal((await get(tossed)).status, 401, JSON.stringify(tossed));
    }
    const two = `${cookie}; \u00a0__Host-leat_console=${'A'.repeat(43)}`;
    assert.equal((await get(two)).status, 200);
  });

  test('a head that is too large for the server is refused, and serves nobody', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie } = await signIn(fixture);
    const headers = { ...own, cookie: `${cookie}; filler=${'x'.repeat(64 * 1024)}` };
    const response = await call(fixture, 'GET', '/api/v2/event-streams', headers);
    assert.equal(response.status, 431);
    const many = Array.from({ length: 500 }, (_, index) => `c${index}=v`).join('; ');
    const crowded = { ...own, cookie: `${many}; ${cookie}` };
    assert.equal((await call(fixture, 'GET', '/api/v2/event-streams', crowded)).status, 200);
  });

  test('a stolen cookie ends with the sign-out, also on an open connection', async (t) => {
    const fixture = await openFixtureFor(t);
    const victim = await signIn(fixture);
    const thief: Browser = browserWith(fixture, victim.signedIn);
    const url = `http://127.0.0.1:${fixture.port}/api/v2/events`;
    const pull = await openPull(url, undefined, thief.headers);
    assert.equal(pull.status, 200);
    assert.equal((await thief.api('GET', '/event-streams')).status, 200);
    await call(fixture, 'DELETE', '/console/session', victim.headers);
    assert.equal((await thief.api('GET', '/event-streams')).status, 401);
    for (let second = 0; second < 30; second += 1) await fixture.auth.clock.advance(1000);
    await pull.ended;
  });

  test('the session is not in the answers of the API, nor a cookie in any of them', async (t) => {
    const fixture = await openFixtureFor(t);
    const { cookie, api } = await signIn(fixture);
    const [, secret = '-'] = cookie.split('=');
    for (const path of ['/event-streams', '/logs', '/clients', '/nothing']) {
      const response = await api('GET', path);
      assert.ok(!response.text.includes(secret), path);
      assert.equal(response.headers['set-cookie'], undefined, path);
    }
  });
});
