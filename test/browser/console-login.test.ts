import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { sharedBrowser } from '../helpers/console.ts';
import {
  consoleClient,
  type IdentityProvider,
  startIdentityProvider,
} from '../helpers/identity-provider.ts';
import {
  createTempStore,
  freePort,
  type Running,
  runLeat,
  startLeat,
  storeEnvironment,
  type TempStore,
} from '../helpers/leat.ts';

const people = {
  ada: { email: 'ada@example.com', email_verified: true, groups: ['admins'] },
  bob: { email: 'bob@example.com', email_verified: true, groups: ['staff'] },
  eve: { email: 'eve@example.com', email_verified: true, groups: [] },
};
const roles = 'main/groups:admins=operator,main/groups:staff=viewer';

let browser: Browser;
let tempStore: TempStore;
let port: number;
let identity: IdentityProvider;
let leat: Running;

before(async () => {
  browser = await sharedBrowser();
  tempStore = await createTempStore();
  port = await freePort();
  identity = await startIdentityProvider({
    people,
    redirectUris: ['http', 'https'].map(
      (scheme) => `${scheme}://localhost:${port}/console/callback`,
    ),
    inIdToken: true,
  });
  leat = await startLeat(tempStore, settingsWith(roles));
});
after(async () => {
  await leat.kill();
  await identity.close();
  await tempStore.remove();
});

function settingsWith(mappings: string): Record<string, string> {
  return {
    LEAT_PORT: String(port),
    LEAT_CONSOLE_OIDC_ISSUER: identity.issuer,
    LEAT_CONSOLE_OIDC_CLIENT_ID: consoleClient.id,
    LEAT_CONSOLE_OIDC_CLIENT_SECRET: consoleClient.secret,
    LEAT_CONSOLE_ROLES: mappings,
  };
}

async function openContext(t: TestContext): Promise<BrowserContext> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  t.after(() => context.close());
  return context;
}

/** Opens a page of the console without a session, and presses what leads to the provider. */
async function openProvider(
  page: Page,
  path: string,
  base = `http://localhost:${port}`,
): Promise<void> {
  await page.goto(`${base}${path}`);
  await page.getByRole('link', { name: 'Sign in with your identity provider' }).click();
}

/** Signs in as a person does; returns the page and where the callback led to. */
async function signIn(
  context: BrowserContext,
  choice: string,
  base = `http://localhost:${port}`,
): Promise<{ page: Page; location: string }> {
  const page = await context.newPage();
  page.on('dialog', () => assert.fail('a script of another origin runs'));
  await openProvider(page, '/console/streams', base);
  await page.waitForURL((url) => url.origin === identity.issuer);
  const callback = page.waitForResponse((response) => response.url().includes('/console/callback'));
  await page.getByRole('button', { name: choice }).click();
  const { location = '' } = await (await callback).allHeaders();
  await page.waitForURL((url) => url.origin === base && url.pathname.startsWith('/console/'));
  return { page, location };
}

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Sends a request from the page, as the console does. */
function fetchFrom(page: Page, path: string, method = 'GET'): Promise<Answer> {
  const init = JSON.stringify({ method, headers: { 'leat-console': '1' } });
  return page.evaluate(`(async () => {
    const response = await fetch(${JSON.stringify(path)}, ${init});
    return { status: response.status, body: await response.json() };
  })()`);
}

async function cookieNames(context: BrowserContext): Promise<string[]> {
  const cookies = await context.cookies(`http://localhost:${port}`);
  return cookies.map(({ name }) => name);
}

describe('the sign-in at an identity provider in Chromium', () => {
  test('the sign-in in Chromium begins a session with the role of a group, and keeps nothing else', async (t) => {
    const context = await openContext(t);
    const { page, location } = await signIn(context, 'ada');
    assert.equal(location, '/console/streams');
    assert.equal(page.url(), `http://localhost:${port}/console/streams`);
    const { status, body } = await fetchFrom(page, '/console/session');
    const { user, role } = body;
    assert.deepEqual(
      { status, user, role },
      { status: 200, user: 'ada@example.com', role: 'operator' },
    );
    const [cookie, ...others] = await context.cookies(`http://localhost:${port}`);
    assert.deepEqual(others, []);
    const { name, httpOnly, path } = cookie ?? {};
    assert.deepEqual({ name, httpOnly, path }, { name: 'leat_console', httpOnly: true, path: '/' });
    assert.match(JSON.stringify(cookie), /"sameSite":"Strict"/);
    assert.equal(await page.evaluate('document.cookie'), '');
    // Somebody else, whom the provider still knows in this browser.
    await context.clearCookies({ name: 'leat_console' });
    await openProvider(page, '/console/nodes?q=1');
    await page.waitForURL(`http://localhost:${port}/console/nodes?q=1`);
    await page.getByRole('heading', { name: 'Nodes', level: 1 }).waitFor();
    assert.equal((await fetchFrom(page, '/console/session')).status, 200);
  });

  test('the role of a viewer reads and changes nothing', { tags: ['long'] }, async (t) => {
    const { page } = await signIn(await openContext(t), 'bob');
    assert.equal((await fetchFrom(page, '/console/session')).body['role'], 'viewer');
    assert.equal((await fetchFrom(page, '/api/v2/event-streams/stats')).status < 500, true);
    assert.equal((await fetchFrom(page, '/api/v2/logs')).status, 200);
    assert.equal((await fetchFrom(page, '/api/v2/clients')).status, 403);
  });

  for (const [choice, error] of [
    ['eve', 'no_role'],
    ['deny', 'access_denied'],
  ] as const) {
    test(
      `the sign-in of ${choice} in Chromium ends with ${error} and without a session`,
      { tags: ['long'] },
      async (t) => {
        const context = await openContext(t);
        const { page, location } = await signIn(context, choice);
        assert.equal(location, `/console/#error=${error}`);
        assert.equal((await fetchFrom(page, '/console/session')).status, 401);
        assert.deepEqual(await cookieNames(context), []);
      },
    );
  }

  test(
    'a browser that is led to the end of a foreign sign-in is not signed in',
    { tags: ['long'] },
    async (t) => {
      const attacker = await (await openContext(t)).newPage();
      await openProvider(attacker, '/console/');
      await attacker.route('**/console/callback?*', (route) => route.abort());
      const callback = attacker.waitForRequest((request) => request.url().includes('/callback?'));
      await attacker.getByRole('button', { name: 'ada' }).click();
      const url = (await callback).url();

      const context = await openContext(t);
      const victim = await context.newPage();
      const response = victim.waitForResponse(url);
      await victim.goto(url);
      const { location = '' } = await (await response).allHeaders();
      assert.equal(location, '/console/#error=expired');
      assert.deepEqual(await cookieNames(context), []);
    },
  );

  test(
    'a session ends with a start where LEAT_CONSOLE_ROLES has its entry no longer, or with another role',
    { tags: ['long'] },
    async (t) => {
      const context = await openContext(t);
      const other = await openContext(t);
      const { page } = await signIn(context, 'ada');
      const { page: ofBob } = await signIn(other, 'bob');
      const restart = async (mappings: string): Promise<void> => {
        await leat.stop();
        leat = await startLeat(tempStore, settingsWith(mappings));
      };
      const statuses = async (): Promise<number[]> => {
        const answers = [page, ofBob].map((each) => fetchFrom(each, '/console/session'));
        return (await Promise.all(answers)).map(({ status }) => status);
      };
      t.after(() => restart(roles));
      await restart(roles);
      assert.deepEqual(await statuses(), [200, 200]);
      await restart('main/groups:admins=viewer,main/groups:staff=viewer');
      assert.deepEqual(await statuses(), [401, 200]);
      await restart('main/groups:admins=operator,main/email:bob@example.com=viewer');
      assert.deepEqual(await statuses(), [200, 401]);
    },
  );
});

test(
  'over TLS the cookies of the sign-in have the prefix and are Secure',
  { tags: ['long'] },
  async (t) => {
    const own = await createTempStore();
    t.after(() => own.remove());
    const ownPort = await freePort();
    const base = `https://localhost:${ownPort}`;
    const provider = await startIdentityProvider({
      people,
      redirectUris: [`${base}/console/callback`],
    });
    t.after(() => provider.close());
    const secure = await startLeat(own, {
      ...settingsWith(roles),
      LEAT_CONSOLE_OIDC_ISSUER: provider.issuer,
      LEAT_PORT: String(ownPort),
      LEAT_TLS: 'local',
    });
    t.after(() => secure.kill());
    const context = await openContext(t);
    const page = await context.newPage();
    await openProvider(page, '/console/', base);
    await page.waitForURL((url) => url.origin === provider.issuer);
    const during = (await context.cookies(base)).map(({ name, secure: isSecure }) => [
      name,
      isSecure,
    ]);
    assert.deepEqual(during, [['__Host-leat_console_login', true]]);
    await page.getByRole('button', { name: 'ada' }).click();
    await page.waitForURL(`${base}/console/`);
    assert.equal((await fetchFrom(page, '/console/session')).status, 200);
    const [cookie, ...others] = await context.cookies(base);
    assert.deepEqual([cookie?.name, cookie?.secure, others], ['__Host-leat_console', true, []]);
  },
);

test(
  'Leat starts while the provider is down, and says so to whoever signs in',
  { tags: ['long'] },
  async (t) => {
    const own = await createTempStore();
    t.after(() => own.remove());
    const down = await startLeat(own, {
      ...settingsWith(roles),
      LEAT_CONSOLE_OIDC_ISSUER: `http://127.0.0.1:${await freePort()}/`,
      LEAT_PORT: String(await freePort()),
    });
    t.after(() => down.kill());
    const response = await fetch(`http://localhost:${down.port}/console/login`, {
      redirect: 'manual',
    });
    assert.equal(response.headers.get('location'), '/console/#error=provider_unavailable');
    assert.match(down.output(), /a sign-in to the console failed/);
  },
);

test(
  'Leat does not start with a provider over plain HTTP that is not on this machine',
  { tags: ['long'] },
  async (t) => {
    const own = await createTempStore();
    t.after(() => own.remove());
    const { code, output } = await runLeat(['serve'], {
      ...storeEnvironment(own),
      ...settingsWith(roles),
      LEAT_CONSOLE_OIDC_ISSUER: 'http://login.example.com/',
    });
    assert.equal(code, 1);
    assert.match(
      output,
      /^LEAT_CONSOLE_OIDC_ISSUER: "http:\/\/login\.example\.com\/" is not an https:\/\/ URL/m,
    );
  },
);
