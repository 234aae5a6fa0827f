import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Browser, BrowserContextOptions, Locator, Page, Response } from 'playwright-core';
import packageJson from '../../package.json' with { type: 'json' };
import { describedOperations } from '../../src/api/operations.ts';
import { axeFindings } from '../helpers/axe.ts';
import { sharedBrowser } from '../helpers/console.ts';
import {
  bootstrapClient,
  end,
  fetchToken,
  freePort,
  createTempStore,
  type TempStore,
  type Running,
  spawnLeat,
  startLeat,
  waitFor,
  storeEnvironment,
} from '../helpers/leat.ts';

let browser: Browser;
let tempStore: TempStore;
let leat: Running;

before(async () => {
  browser = await sharedBrowser();
  tempStore = await createTempStore();
  // The default limits.
  leat = await startLeat(tempStore, {
    LEAT_RATE_LIMIT_BURST: '100',
    LEAT_RATE_LIMIT_PER_SECOND: '50',
  });
});
after(async () => {
  await leat.kill();
  await tempStore.remove();
});

/** The reference in a browser, and the console of Chromium: errors and violations of the policy. */
interface Opened {
  readonly page: Page;
  readonly messages: readonly string[];
  /** The URLs of all requests. */
  readonly urls: readonly string[];
  readonly response: Response | null;
}

async function open(
  t: { after(close: () => Promise<void>): void },
  url = `${leat.url}/docs`,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext(options);
  t.after(() => context.close());
  const page = await context.newPage();
  const messages: string[] = [];
  const urls: string[] = [];
  page.on('console', (line) => messages.push(line.text()));
  page.on('pageerror', (error) => messages.push(String(error)));
  page.on('request', (request) => urls.push(request.url()));
  const response = await page.goto(url);
  await page.locator('.opblock').first().waitFor();
  return { page, messages, urls, response };
}

async function authorize(page: Page, secret = bootstrapClient.secret): Promise<void> {
  await page.getByLabel('Client id').fill(bootstrapClient.id);
  await page.getByLabel('Client secret').fill(secret);
  await page.getByRole('button', { name: 'Get a token' }).click();
}

/** Opens an operation, executes it and returns the status that the page shows. */
async function execute(page: Page, id: string, body?: object): Promise<string> {
  const block = page.locator(`#operations-${id}`);
  await block.locator('.opblock-summary-control').click();
  await block.locator('.try-out__btn').click();
  if (body !== undefined) await block.locator('textarea').fill(JSON.stringify(body));
  await block.locator('.execute').click();
  return shownStatus(block);
}

async function shownStatus(block: Locator): Promise<string> {
  return (await block.locator('.live-responses-table .response-col_status').last().innerText())
    .trim()
    .slice(0, 3);
}

/** Returns everything that the page has stored in the browser. */
function stored(page: Page): Promise<unknown> {
  return page.evaluate(`(async () => [
    localStorage.length,
    sessionStorage.length,
    document.cookie,
    (await indexedDB.databases()).length,
    (await caches.keys()).length,
  ])()`);
}

/** Returns the ids of the operations that the page shows. */
async function shownIds(page: Page): Promise<string[]> {
  const ids: string[] = await page
    .locator('.opblock:visible')
    .evaluateAll((blocks) => blocks.map(({ id }) => id.slice(id.lastIndexOf('-') + 1)));
  return ids.toSorted();
}

describe('the reference page in Chromium', () => {
  /**
   * For tests that use different operations of the page and need no fresh one: rendering all operations
   * takes seconds.
   */
  let shared: Promise<Opened> | undefined;
  let closeShared: (() => Promise<void>) | undefined;
  const openShared = (): Promise<Opened> =>
    (shared ??= open({ after: (close) => (closeShared = close) }));
  after(() => closeShared?.());

  for (const path of ['/docs', '/docs/']) {
    test(
      `${path} shows every operation with its stage, in order, and violates no rule of the policy`,
      { tags: ['long'] },
      async (t) => {
        const { page, messages, urls } = await open(t, leat.url + path);
        assert.equal(await page.title(), `Leat ${packageJson.version} API reference`);
        const shown = await page.locator('.opblock').evaluateAll((blocks) =>
          blocks.map((block) => {
            const text = (selector: string): string =>
              block.querySelector(selector)?.textContent.replaceAll('\u200B', '') ?? '';
            return `${text('.opblock-summary-method')} ${text('.opblock-summary-path')} ${text('.stage')}`;
          }),
        );
        const operations = describedOperations();
        const tags = [...new Set(operations.map(({ tag }) => tag))];
        const expected = operations.map(
          ({ method, path: at, lifecycle }) =>
            `${method} ${at.replaceAll(/:([a-z_]+)/g, '{$1}')} ${lifecycle}`,
        );
        assert.deepEqual(shown.toSorted(), expected.toSorted());
        const headings = await page.locator('h3.opblock-tag').allInnerTexts();
        assert.deepEqual(headings, tags);
        assert.deepEqual(await page.locator('#contents button').allInnerTexts(), tags);
        assert.deepEqual(messages, []);
        for (const url of urls) assert.ok(url.startsWith(`${leat.url}/`), url);
      },
    );
  }

  test(
    'the reference page in Chromium loads its icons from this server',
    { tags: ['long'] },
    async () => {
      const { page, messages, urls } = await openShared();
      const earlier = messages.length;
      await page.getByRole('button', { name: 'Schemas' }).click();
      await page.getByRole('button', { name: 'Client grants', exact: true }).click();
      await page.locator('#operations-Events-publishEvents .opblock-summary-control').click();
      await page.locator('#operations-Events-publishEvents select').first().waitFor();
      await waitFor(
        'the icons',
        () => urls.filter((url) => url.includes('/docs/icon.')).length > 1,
      );
      assert.deepEqual(messages.slice(earlier), []);
    },
  );

  test(
    'the reference page in Chromium follows the scheme of the system',
    { tags: ['long'] },
    async () => {
      const { page } = await openShared();
      for (const colorScheme of ['light', 'dark', 'light'] as const) {
        await page.emulateMedia({ colorScheme });
        await page
          .locator(`html${colorScheme === 'dark' ? '.dark-mode' : ':not(.dark-mode)'}`)
          .waitFor();
        const colour = await page.evaluate<string>(
          'getComputedStyle(document.body).backgroundColor',
        );
        const brightness = Number(/\d+/.exec(colour)?.[0]);
        assert.equal(brightness > 128 ? 'light' : 'dark', colorScheme);
      }
    },
  );

  test(
    'the reference page in Chromium opens in the dark scheme of the system',
    { tags: ['long'] },
    async (t) => {
      const { page } = await open(t, undefined, { colorScheme: 'dark' });
      assert.equal(await page.locator('html.dark-mode').count(), 1);
    },
  );

  test('the reference page in Chromium gets a token, sends requests with it, and stores it nowhere', async (t) => {
    const { page, messages, urls } = await open(t);
    await authorize(page);
    await page.locator('#status.good').waitFor();
    assert.match(await page.locator('#status').innerText(), /^Token of operator with \d+ scopes/);
    assert.equal(await page.getByLabel('Client secret').inputValue(), '');
    assert.equal(await execute(page, 'Event_streams-listEventStreams'), '200');
    const event = { type: 'order.paid', data: { object: { order_id: '42' } } };
    assert.equal(await execute(page, 'Events-publishEvents', event), '202');
    assert.deepEqual(await stored(page), [0, 0, '', 0, 0]);
    for (const url of urls) assert.doesNotMatch(url, /secret|eyJ/);
    assert.deepEqual(messages, []);

    await page.reload();
    await page.locator('.opblock').first().waitFor();
    assert.match(await page.locator('#status').innerText(), /^No token/);
    assert.equal(await execute(page, 'Event_streams-listEventStreams'), '401');
    assert.deepEqual(await page.context().storageState(), { cookies: [], origins: [] });
  });

  test(
    'the reference page in Chromium offers a body that the service accepts unchanged',
    { tags: ['long'] },
    async (t) => {
      const { page } = await open(t);
      await authorize(page);
      await page.locator('#status.good').waitFor();
      assert.equal(await execute(page, 'Events-publishEvents'), '202');
      assert.equal(await execute(page, 'Users-createUser'), '201');
      assert.equal(await execute(page, 'Event_streams-createEventStream'), '201');
      assert.equal(await execute(page, 'APIs-createResourceServer'), '201');
    },
  );

  test(
    'the reference page in Chromium uses a pasted token, and forgets it on request',
    { tags: ['long'] },
    async () => {
      const { page } = await openShared();
      const token = await fetchToken(leat.url, bootstrapClient);
      await page.getByLabel('Access token').fill(`Bearer ${token}`);
      await page.getByRole('button', { name: 'Use it' }).click();
      await page.locator('#status.good').waitFor();
      assert.equal(await execute(page, 'Users-listUsers'), '200');
      await page.getByRole('button', { name: 'Forget it' }).click();
      const block = page.locator('#operations-Users-listUsers');
      await block.locator('.execute').click();
      await waitFor('the other response', async () => (await shownStatus(block)) === '401');
    },
  );

  test(
    'the reference page in Chromium does not offer to try endless responses',
    { tags: ['long'] },
    async () => {
      const { page } = await openShared();
      const block = page.locator('#operations-Events-pullEvents');
      await block.locator('.opblock-summary-control').click();
      await block.getByText('This page cannot try it').waitFor();
      assert.equal(await block.locator('.try-out__btn').count(), 0);
    },
  );

  test(
    'the reference page in Chromium shows why there is no token',
    { tags: ['long'] },
    async () => {
      const { page } = await openShared();
      await authorize(page, 'wrong');
      await page.locator('#status.bad').waitFor();
      const status = page.locator('#status');
      assert.equal(await status.innerText(), 'No token: Client authentication failed');
      await page.getByLabel('Access token').fill('nonsense');
      await page.getByRole('button', { name: 'Use it' }).click();
      await page.getByText('The text is not a JWT').waitFor();
    },
  );

  for (const [width, colorScheme] of [
    [320, 'light'],
    [390, 'dark'],
    [768, 'light'],
    [1440, 'dark'],
  ] as const) {
    test(
      `at ${width} px in the ${colorScheme} scheme the page fits, its search works, and axe-core finds nothing`,
      { tags: ['long'] },
      async (t) => {
        const viewport = { width, height: 844 };
        const isMobile = width < 768;
        const { page, messages } = await open(t, undefined, { viewport, colorScheme, isMobile });
        const checked = async (): Promise<void> => {
          assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width);
          assert.deepEqual(await axeFindings(page), []);
        };
        await checked();

        await page.keyboard.press('/');
        const field = page.getByLabel('Search operations');
        assert.equal(await page.evaluate<string>('document.activeElement.id'), 'search');
        await page.keyboard.type('redeliver failures');
        assert.deepEqual(await shownIds(page), ['redeliverEvents', 'startRedelivery']);
        assert.match(await page.locator('#matches').innerText(), /^2 of \d+ operations$/);
        assert.deepEqual(await page.locator('h3.opblock-tag:visible').allInnerTexts(), [
          'Deliveries',
        ]);
        await checked();
        await field.fill('/redeliveries/{redelivery_id} delete');
        assert.deepEqual(await shownIds(page), ['cancelRedelivery']);
        await page.keyboard.press('Enter');
        await page.keyboard.press('Enter');
        await page.locator('#operations-Deliveries-cancelRedelivery .try-out__btn').waitFor();
        await field.fill('no such operation');
        assert.deepEqual(await shownIds(page), []);
        await page.getByText('No operation has all of these words').waitFor();
        await checked();
        await field.press('Escape');
        assert.equal((await shownIds(page)).length, describedOperations().length);

        // A block of code is as wide as its longest line.
        assert.equal(await execute(page, 'Events-publishEvents'), '401');
        await page.locator('#operations-Event_streams-createEventStream button').first().click();
        await page.getByRole('button', { name: 'Schemas' }).click();
        await page.locator('.models article').first().waitFor();
        await checked();
        const refused = 'Failed to load resource: the server responded with a status of 401';
        assert.deepEqual(
          messages.filter((message) => !message.startsWith(refused)),
          [],
        );
      },
    );
  }

  test(
    'a subject that is opened during a search shows matches only',
    { tags: ['long'] },
    async (t) => {
      const { page } = await open(t);
      const heading = page.locator('h3.opblock-tag', { hasText: 'Deliveries' });
      await heading.click();
      await page.locator('#operations-Deliveries-startRedelivery').waitFor({ state: 'detached' });
      await page.getByLabel('Search operations').fill('startRedelivery');
      await heading.click();
      await page.locator('#operations-Deliveries-startRedelivery').waitFor();
      assert.deepEqual(await shownIds(page), ['startRedelivery']);
      await page.getByLabel('Client id').fill('a/b');
      assert.equal(await page.getByLabel('Client id').inputValue(), 'a/b');
    },
  );

  test(
    'the reference page in Chromium submits no input where its script does not run',
    { tags: ['long'] },
    async (t) => {
      const context = await browser.newContext({ javaScriptEnabled: false });
      t.after(() => context.close());
      const page = await context.newPage();
      await page.goto(`${leat.url}/docs`);
      await authorize(page);
      await page.waitForURL(/\?/);
      assert.equal(page.url(), `${leat.url}/docs?`);
    },
  );
});

test(
  'over LEAT_TLS=local the page works and requires strict transport security',
  { tags: ['long'] },
  async (t) => {
    const own = await createTempStore();
    t.after(() => own.remove());
    const port = await freePort();
    const { child, output } = spawnLeat(['serve'], {
      ...storeEnvironment(own),
      LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
      LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
      LEAT_LOG_LEVEL: 'warn',
      LEAT_TLS: 'local',
      LEAT_PORT: String(port),
    });
    t.after(() => end(child, 'SIGINT'));
    await waitFor('the program to be up', () => {
      assert.equal(child.exitCode, null, output());
      return output().includes('NODE_EXTRA_CA_CERTS=');
    });
    const url = `https://localhost:${port}/docs`;
    const { page, messages, response } = await open(t, url, { ignoreHTTPSErrors: true });
    assert.equal(response?.headers()['strict-transport-security'], 'max-age=300');
    await authorize(page);
    await page.locator('#status.good').waitFor();
    assert.equal(await execute(page, 'Event_streams-listEventStreams'), '200');
    assert.deepEqual(messages, []);
  },
);
