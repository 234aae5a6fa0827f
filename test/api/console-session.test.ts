import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { ConsoleRole } from '../../src/core/console-session.ts';
import { beginConsoleSession } from '../../src/api/console-session.ts';
import { createSessionReader } from '../../src/api/session-reader.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { openPull } from '../helpers/pull.ts';
import {
  addCode,
  browserWith,
  call,
  own,
  providerWith,
  sendCode,
  signIn,
} from './console-client.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

type Options = Parameters<typeof openApiFixture>;

async function openFixtureFor(
  t: TestContext,
  settings: Options[0] = {},
  options: Options[1] = {},
): Promise<ApiFixture> {
  const fixture = await openApiFixture(settings, options);
  t.after(() => fixture.close());
  return fixture;
}

const minuteMs = 60_000;

describe('POST /console/session', () => {
  test('a code begins a session with its role; the secret is in the cookie alone', async (t) => {
    const fixture = await openFixtureFor(t);
    const { signedIn, cookie, session } = await signIn(fixture, 'support');
    assert.deepEqual(signedIn.body, {
      tenant: 'main',
      domain: 'leat.example.com',
      user: 'one-time link',
      role: 'support',
      scopes: [
        'read:event_streams',
        'read:event_deliveries',
        'read:logs',
        'read:events',
        'update:event_deliveries',
      ],
      operations: ['pauseEventStream', 'resumeEventStream', 'sendTestEvent'],
      is_first_tenant: true,
      ends_at: new Date(fixture.auth.time.at + 60 * minuteMs).toISOString(),
      version: '1.2.3',
    });
    assert.match(
      signedIn.headers['set-cookie']?.join('\n') ?? '',
      /^leat_console=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    assert.equal(signedIn.headers['cache-control'], 'no-store');
    assert.ok(!signedIn.text.includes(cookie.split('=')[1] ?? '-'));
    assert.deepEqual((await session()).body, signedIn.body);
  });

  test('a viewer is told that payloads are withheld; an operator has every scope', async (t) => {
    const fixture = await openFixtureFor(t);
    const viewer = await signIn(fixture, 'viewer');
    assert.equal(viewer.signedIn.body.withheld, true);
    const operator = await signIn(fixture, 'operator');
    assert.equal(operator.signedIn.body.withheld, undefined);
    assert.deepEqual(operator.signedIn.body.scopes, managementScopes);
  });

  test('over https, which a trusted proxy ends, the cookie has the prefix and is Secure', async (t) => {
    const fixture = await openFixtureFor(t, { trustProxy: ['127.0.0.1'] });
    const proxied = { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.7' };
    const signedIn = await sendCode(fixture, await addCode(fixture), proxied);
    assert.match(
      signedIn.headers['set-cookie']?.join('\n') ?? '',
      /^__Host-leat_console=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure$/,
    );
    const { session, cookie } = browserWith(fixture, signedIn, proxied);
    assert.equal((await session()).status, 200);
    // Any host of the domain can set the name without the prefix.
    const plain = cookie.replace('__Host-', '');
    const tossed = await call(fixture, 'GET', '/console/session', {
      ...own,
      ...proxied,
      cookie: plain,
    });
    assert.equal(tossed.status, 401);
  });

  test('with ask it says what would change, and changes nothing', async (t) => {
    const fixture = await openFixtureFor(t);
    const { store, tenant } = fixture.auth;
    const { cookie, session, signedIn } = await signIn(fixture, 'viewer');
    const code = await addCode(fixture, 'support');
    const asked = await sendCode(fixture, code, { cookie }, true);
    assert.equal(asked.status, 200, asked.text);
    assert.deepEqual(asked.body, { role: 'support', session: signedIn.body });
    assert.equal(asked.headers['set-cookie'], undefined);
    assert.deepEqual((await sendCode(fixture, code, {}, true)).body, { role: 'support' });
    const guessed = await sendCode(fixture, 'guess', { cookie }, true);
    assert.deepEqual([guessed.status, guessed.body.errorCode], [401, 'invalid_code']);
    assert.equal((await session()).status, 200);
    assert.equal((await store.consoleSessions.list(tenant.id)).length, 1);
    assert.equal((await sendCode(fixture, code)).status, 201, 'the code was not used up');
  });

  test('a sign-in ends the session that it replaces; a code that is no good ends none', async (t) => {
    const fixture = await openFixtureFor(t);
    const { auth } = fixture;
    const former = await signIn(fixture, 'viewer');
    const { cookie } = former;
    assert.equal((await sendCode(fixture, 'guess', { cookie })).status, 401);
    assert.equal((await former.api('GET', '/event-streams')).status, 200);

    const signedIn = await sendCode(fixture, await addCode(fixture), { cookie });
    assert.equal((await browserWith(fixture, signedIn).session()).body.role, 'operator');
    // In the cache of this node, too.
    assert.equal((await former.session()).status, 401);
    assert.equal((await former.api('GET', '/event-streams')).status, 401);
    const open = await auth.store.consoleSessions.list(auth.tenant.id);
    assert.deepEqual(
      open.map(({ role }) => role),
      ['operator'],
    );
    const descriptions = (await allEntries(auth.store, auth.tenant.id))
      .filter(({ type }) => type === 'ssa')
      .map(({ description }) => description);
    assert.deepEqual(descriptions.toSorted(), [
      'Sign in to the console',
      'Sign in to the console',
      'Sign out of the console',
    ]);
  });

  test('two different cookies are 403, as the new session would not count either', async (t) => {
    const fixture = await openFixtureFor(t);
    const cookies = [await signIn(fixture), await signIn(fixture)].map(({ cookie }) => cookie);
    const code = await addCode(fixture);
    const refused = await sendCode(fixture, code, { cookie: cookies.join('; ') });
    assert.deepEqual([refused.status, refused.body.errorCode], [403, 'ambiguous_session']);
    assert.equal((await sendCode(fixture, code)).status, 201, 'the code was not used up');
  });

  test('a body that is no code is 400, another media type 415, a large body 413', async (t) => {
    const fixture = await openFixtureFor(t);
    const post = (type: string, body: string): ReturnType<typeof call> =>
      call(fixture, 'POST', '/console/session', { ...own, 'content-type': type }, body);
    for (const body of [
      '',
      '{',
      '[]',
      '{}',
      '{"code":1}',
      '{"code":"x","role":"operator"}',
      '{"code":"x","ask":1}',
    ]) {
      assert.equal((await post('application/json', body)).status, 400, body);
    }
    assert.equal((await post('text/plain', '{"code":"x"}')).status, 415);
    assert.equal((await post('application/json', ' '.repeat(1025))).status, 413);
  });

  test('sign-ins take from the bucket of their address', async (t) => {
    const fixture = await openFixtureFor(t, { rateLimitBurst: 3, rateLimitPerSecond: 1 });
    const statuses: number[] = [];
    for (let sent = 0; sent < 4; sent += 1) {
      statuses.push((await sendCode(fixture, 'guess')).status);
    }
    assert.deepEqual(statuses, [401, 401, 401, 429]);
  });
});

describe('beginConsoleSession', () => {
  test('begins a session of somebody whom a provider has identified', async (t) => {
    const roles = new Map<string, ConsoleRole>([['main/groups:ops=support', 'support']]);
    const fixture = await openFixtureFor(
      t,
      {},
      { provider: providerWith((name) => roles.get(name)) },
    );
    const { auth, app } = fixture;
    let cookie = '';
    const deps = {
      store: auth.store,
      sessions: createSessionReader({
        store: auth.store,
        clock: auth.clock,
        limiter: { takeOfSecret: () => assert.fail('no cookie is read') },
        isSecure: () => false,
        roleOf: (name) => roles.get(name),
      }),
      clock: auth.clock,
      random: (count: number) => new Uint8Array(count).fill(7),
      isSecure: () => false,
      clientAddressOf: () => ({ address: '192.0.2.7', host: '', isProxy: false }),
    };
    const reply = {
      header: (_name: string, value: string) => (cookie = value.split(';')[0] ?? ''),
    } as unknown as Parameters<typeof beginConsoleSession>[2];
    const request = { headers: {}, raw: {} } as Parameters<typeof beginConsoleSession>[1];
    const mapping = 'main/groups:ops=support';
    const identified = {
      tenant: auth.tenant,
      role: 'support',
      user: 'ada@example.com',
      mapping,
      replaced: undefined,
    } as const;
    await beginConsoleSession(deps, request, reply, identified);
    assert.ok(app.hasRoute({ method: 'GET', url: '/console/session' }));
    const get = (): ReturnType<typeof call> =>
      call(fixture, 'GET', '/console/session', { ...own, cookie });
    const { body } = await get();
    assert.deepEqual([body.user, body.role], ['ada@example.com', 'support']);

    roles.set(mapping, 'viewer');
    assert.equal((await get()).status, 401, 'another role');
    roles.delete(mapping);
    const gone = await get();
    assert.equal(gone.status, 401, 'no role');
    assert.equal(gone.body.login, '/console/login');
  });
});

describe('GET /console/session', () => {
  test('without a session the response is 401, and names no way to sign in without a provider', async (t) => {
    const fixture = await openFixtureFor(t);
    const none = await call(fixture, 'GET', '/console/session', own);
    assert.deepEqual(none.body, {
      statusCode: 401,
      error: 'Unauthorized',
      message: 'Missing authentication',
    });
    const { session } = await signIn(fixture);
    await fixture.auth.clock.advance(61 * minuteMs);
    assert.deepEqual((await session()).body, {
      statusCode: 401,
      error: 'Unauthorized',
      message: 'The session of the console has ended. Sign in again at /console/.',
    });
  });

  test('a bearer token is no session', async (t) => {
    const fixture = await openFixtureFor(t);
    const headers = { ...own, authorization: `Bearer ${fixture.token}` };
    assert.equal((await call(fixture, 'GET', '/console/session', headers)).status, 401);
  });

  test('other methods are 405', async (t) => {
    const fixture = await openFixtureFor(t);
    const response = await call(fixture, 'PUT', '/console/session', own);
    assert.equal(response.status, 405);
    assert.equal(response.headers.allow, 'DELETE, GET, HEAD, POST');
  });
});

describe('the end of a session', () => {
  test('it ends 60 minutes after its last use and 12 hours after its beginning', async (t) => {
    const fixture = await openFixtureFor(t);
    const { clock } = fixture.auth;
    const idle = await signIn(fixture);
    await clock.advance(59 * minuteMs);
    assert.equal((await idle.api('GET', '/event-streams')).status, 200);
    await clock.advance(59 * minuteMs);
    assert.equal((await idle.session()).status, 200);
    await clock.advance(2 * minuteMs);
    const over = await idle.api('GET', '/event-streams');
    assert.equal(over.status, 401);
    assert.equal(
      over.body.message,
      'The session of the console has ended. Sign in again at /console/.',
    );

    const busy = await signIn(fixture);
    for (let minutes = 0; minutes < 12 * 60; minutes += 30) {
      assert.equal((await busy.api('GET', '/event-streams')).status, 200, `${minutes}`);
      await clock.advance(30 * minuteMs);
    }
    assert.equal((await busy.api('GET', '/event-streams')).status, 401);
  });

  test('neither the session itself nor refreshes in the background count as use', async (t) => {
    const fixture = await openFixtureFor(t);
    const { clock } = fixture.auth;
    const browser = await signIn(fixture);
    const background = { ...browser.headers, 'leat-background': '1' };
    for (let minutes = 0; minutes < 60; minutes += 20) {
      assert.equal((await browser.session()).status, 200);
      const path = '/api/v2/event-streams';
      assert.equal((await call(fixture, 'GET', path, background)).status, 200);
      await clock.advance(20 * minuteMs);
    }
    assert.equal((await browser.session()).status, 401);
  });

  test('a use right after a refresh in the background counts', async (t) => {
    const fixture = await openFixtureFor(t);
    const { clock } = fixture.auth;
    const browser = await signIn(fixture);
    await clock.advance(59 * minuteMs);
    const background = { ...browser.headers, 'leat-background': '1' };
    await call(fixture, 'GET', '/api/v2/event-streams', background);
    await browser.api('GET', '/event-streams');
    await clock.advance(30 * minuteMs);
    assert.equal((await browser.session()).status, 200);
  });

  test('only a GET can be in the background', async (t) => {
    const fixture = await openFixtureFor(t);
    const { clock } = fixture.auth;
    const browser = await signIn(fixture);
    await clock.advance(59 * minuteMs);
    const headers = { ...browser.headers, 'leat-background': '1' };
    await call(fixture, 'DELETE', '/api/v2/event-streams/est_MASi45ub7Qe4ZE36UT5G6c', headers);
    await clock.advance(30 * minuteMs);
    assert.equal((await browser.session()).status, 200);
  });

  test('sign-out ends it at once and clears the cookie', async (t) => {
    const fixture = await openFixtureFor(t);
    const browser = await signIn(fixture);
    assert.equal((await browser.api('GET', '/event-streams')).status, 200);
    const out = await call(fixture, 'DELETE', '/console/session', browser.headers);
    assert.deepEqual([out.status, out.text], [204, '']);
    assert.deepEqual(out.headers['set-cookie'], [
      'leat_console=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0',
    ]);
    assert.equal((await browser.api('GET', '/event-streams')).status, 401);
    assert.equal((await browser.session()).status, 401);
    const again = await call(fixture, 'DELETE', '/console/session', browser.headers);
    assert.equal(again.status, 401);
    assert.match(again.headers['set-cookie']?.[0] ?? '', /Max-Age=0$/);
  });

  test('an open connection of a session ends with it', async (t) => {
    const fixture = await openFixtureFor(t);
    const browser = await signIn(fixture);
    const url = `http://127.0.0.1:${fixture.port}/api/v2/events`;
    const pull = await openPull(url, undefined, browser.headers);
    assert.equal(pull.status, 200);
    await call(fixture, 'DELETE', '/console/session', browser.headers);
    for (let second = 0; second < 30; second += 1) await fixture.auth.clock.advance(1000);
    await pull.ended;
  });

  test('another end of the session is seen within a second', async (t) => {
    const fixture = await openFixtureFor(t);
    const { store, tenant, clock } = fixture.auth;
    const browser = await signIn(fixture);
    assert.equal((await browser.api('GET', '/event-streams')).status, 200);
    assert.equal(await store.consoleSessions.endMany(tenant.id, 'all'), 1);
    await clock.advance(1000);
    assert.equal((await browser.api('GET', '/event-streams')).status, 401);
  });

  test('a session that has ended changes nothing that clients may do', async (t) => {
    const fixture = await openFixtureFor(t);
    const { store, tenant } = fixture.auth;
    const browser = await signIn(fixture);
    // It is cached now.
    const created = await browser.api('POST', '/clients', {
      name: 'one',
      app_type: 'non_interactive',
    });
    assert.equal(created.status, 201, created.text);
    await store.consoleSessions.endMany(tenant.id, 'all');
    const refused = await browser.api('POST', '/clients', {
      name: 'two',
      app_type: 'non_interactive',
    });
    assert.equal(refused.status, 401, refused.text);
    const { text } = await fixture.send('GET', '/clients');
    assert.deepEqual([text.includes('"one"'), text.includes('"two"')], [true, false]);
  });
});

describe('what a session counts as', () => {
  test('each session has a rate bucket of its own, and the bucket of the tenant besides', async (t) => {
    const fixture = await openFixtureFor(t, { rateLimitBurst: 5, rateLimitPerSecond: 1 });
    const one = await signIn(fixture);
    const other = await signIn(fixture);
    const statuses: number[] = [];
    for (let sent = 0; sent < 6; sent += 1) {
      statuses.push((await one.api('GET', '/event-streams')).status);
    }
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
    assert.equal((await other.api('GET', '/event-streams')).status, 200);
  });

  test('the bucket of the tenant is common to sessions and clients', async (t) => {
    const fixture = await openFixtureFor(t, { tenantRateBurst: 2, tenantRatePerSecond: 1 });
    const one = await signIn(fixture);
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
    assert.equal((await one.api('GET', '/event-streams')).status, 200);
    assert.equal((await one.api('GET', '/event-streams')).status, 429);
  });

  test('the limit of connections is for each session', async (t) => {
    const fixture = await openFixtureFor(t, {}, { pull: { connectionsMax: 2 } });
    const url = `http://127.0.0.1:${fixture.port}/api/v2/events`;
    const one = await signIn(fixture);
    const first = await openPull(url, undefined, one.headers);
    const second = await openPull(url, undefined, one.headers);
    const third = await openPull(url, undefined, (await signIn(fixture)).headers);
    assert.deepEqual([first.status, second.status, third.status], [200, 403, 200]);
    first.close();
    third.close();
  });

  test('the audit log names the session, its user and its role', async (t) => {
    const fixture = await openFixtureFor(t);
    const { auth } = fixture;
    const browser = await signIn(fixture, 'support');
    await browser.api('POST', '/redeliveries', { all: true });
    await browser.api('DELETE', '/event-streams/est_MASi45ub7Qe4ZE36UT5G6c');
    await sendCode(fixture, 'guess-of-a-code');
    await call(fixture, 'DELETE', '/console/session', browser.headers);
    await auth.clock.advance(2000);
    const [session] = [...(await allEntries(auth.store, auth.tenant.id))]
      .filter(({ type }) => type === 'ssa')
      .map(({ details }) => details['session']);
    const actor = { session, user: 'one-time link', role: 'support' };
    const entries = (await allEntries(auth.store, auth.tenant.id))
      .filter(({ clientId }) => clientId === 'console')
      .map(({ type, description, details }) => ({ type, description, details }));
    assert.match(String(session), /^ses_/);
    const of = (type: string, description: string): unknown =>
      entries.find((entry) => entry.type === type && entry.description.startsWith(description))
        ?.details;
    assert.deepEqual(of('ssa', 'Sign in'), {
      targets: [session],
      session,
      user: 'one-time link',
    });
    const redelivery = of('sapi', 'Redeliver') as Record<string, unknown>;
    assert.deepEqual(
      { session: redelivery['session'], user: redelivery['user'], role: redelivery['role'] },
      actor,
    );
    assert.deepEqual(of('fapi', 'Delete an event stream'), {
      method: 'DELETE',
      path: '/api/v2/event-streams/est_MASi45ub7Qe4ZE36UT5G6c',
      targets: ['est_MASi45ub7Qe4ZE36UT5G6c'],
      scopes: ['delete:event_streams'],
      ...actor,
    });
    assert.deepEqual(of('ssa', 'Sign out'), { targets: [session], ...actor });
    assert.deepEqual(of('fsa', 'Refuse'), { targets: [], error: 'invalid_code' });
    const all = JSON.stringify(await allEntries(auth.store, auth.tenant.id));
    assert.ok(!all.includes('guess-of-a-code'));
    assert.ok(!all.includes(browser.cookie.split('=')[1] ?? '-'));
  });

  test('what it creates names its user', async (t) => {
    const fixture = await openFixtureFor(t);
    const browser = await signIn(fixture, 'support');
    const created = await browser.api('POST', '/redeliveries', { all: true });
    assert.equal(created.body.created_by, 'console:one-time link', created.text);
  });
});
