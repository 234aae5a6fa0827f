import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createStream, expectBody, publish } from '../helpers/api-client.ts';
import type { Installation, OpenConsole } from '../helpers/console-page.ts';
import { fileScope, openConsole, startInstallation } from '../helpers/console.ts';

/** What holds on every page of the console, also when its service or its network does badly. */
describe('the quality of the console', () => {
  let installation: Installation;
  let tab: OpenConsole;
  let first: string;
  let second: string;
  before(async () => {
    installation = await startInstallation(fileScope, { content: 'empty' });
    [first, second] = [await created('first'), await created('second')];
    tab = await openConsole(fileScope, { installation });
  });

  test(
    'the focus stays near a button that goes away once its work is done',
    { tags: ['long'] },
    async () => {
      const { page, goto } = tab;
      await goto(`/streams/${first}`);
      await page.getByRole('button', { name: 'Pause' }).press('Enter');
      await inDialog(page, 'Pause').press('Enter');
      await focused(page, 'Resume');
      await page.getByRole('button', { name: 'Resume' }).press('Enter');
      await inDialog(page, 'Resume').press('Enter');
      await focused(page, 'Pause');
      await goto(`/streams/${first}?tab=secrets`);
      await page.getByRole('button', { name: 'Show secret' }).press('Enter');
      await inDialog(page, 'Show secret').press('Enter');
      await page.getByRole('button', { name: 'Hide secret' }).press('Enter');
      await focused(page, 'Show secret');
    },
  );

  test(
    'the focus goes to the heading of a part that has no control any more',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      const health = await expectBody<object>(
        200,
        installation.leat.send('GET', `/api/v2/event-streams/${first}/health`),
      );
      let isRetried = false;
      await page.route(/\/health$/, async (route) => {
        await route.fulfill({ json: { ...health, retrying: isRetried ? 0 : 3 } });
      });
      // Not before the press: the page may be read again at any time, and the button would go.
      await page.route(/\/retry-now$/, async (route) => {
        isRetried = true;
        await route.continue();
      });
      t.after(async () => {
        await page.unroute(/\/health$/);
        await page.unroute(/\/retry-now$/);
      });
      await goto(`/streams/${first}`);
      await page.getByRole('button', { name: 'Retry now' }).press('Enter');
      await inDialog(page, 'Retry 3').press('Enter');
      await focused(page, 'Now');
    },
  );

  test(
    'an action is sent once however often Enter is pressed, and keeps the focus',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      const sent: string[] = [];
      const answers: (() => Promise<void>)[] = [];
      await page.route(/\/test$/, (route) => {
        sent.push(route.request().url());
        answers.push(() => route.fulfill({ status: 500, json: { message: 'It failed.' } }));
      });
      t.after(() => page.unroute(/\/test$/));
      await goto(`/streams/${first}`);
      await page.getByRole('button', { name: 'Test' }).press('Enter');
      await inDialog(page, 'Send').focus();
      await page.keyboard.press('Enter');
      await focused(page, 'Sending …');
      await page.keyboard.press('Enter');
      await answers[0]?.();
      await page.getByRole('dialog').getByRole('alert').waitFor();
      await focused(page, 'Send');
      assert.equal(sent.length, 1);
    },
  );

  test(
    'every tab says when no response arrives, and reads again when one does',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      const context = page.context();
      await goto('/streams');
      await page.getByText(/^Live/).waitFor();
      const other = await context.newPage();
      t.after(() => other.close());
      await other.goto(`${installation.origin}/console/redeliveries`);
      await other.getByRole('heading', { level: 1 }).waitFor();
      await context.route('**/api/v2/**', (route) => route.abort());
      t.after(() => context.unroute('**/api/v2/**'));
      await page.goto(`${installation.origin}/console/logs`);
      const cut = 'Leat does not respond, or the network is down';
      await Promise.all([page, other].map((each) => each.getByText(cut).waitFor()));
      await page.getByRole('button', { name: 'Try again' }).waitFor();
      assert.deepEqual(await tab.findings(), []);
      await context.unroute('**/api/v2/**');
      const reading = other.waitForRequest(/\/redeliveries\?/);
      await Promise.all(
        [page, other].map((each) => each.getByText(cut).waitFor({ state: 'detached' })),
      );
      await page.getByRole('table', { name: 'Entries of the audit log' }).waitFor();
      await reading;
    },
  );

  test(
    'a tab that is hidden reads nothing, and reads at once when it is visible again',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      await goto('/streams');
      await page.getByText(/^Live/).waitFor();
      const hidden = await page.context().newPage();
      t.after(() => hidden.close());
      await hidden.route(/v2\/redeliveries\/rdl_/, (route) => route.fulfill({ json: running }));
      await hidden.goto(`${installation.origin}/console/redeliveries/${running.id}`);
      await hidden.getByRole('button', { name: /^Cancel the remaining/ }).waitFor();
      await hide(hidden, true);
      // What was under way then has ended after a read of the other tab.
      await renamed('changed once');
      await page.getByRole('link', { name: 'changed once' }).waitFor();
      const others: string[] = [];
      // Files of other pages are read ahead once, about a second after the page was opened.
      const isData = (url: string): boolean => !url.includes('/console/assets/');
      hidden.on('request', (request) => others.push(...[request.url()].filter(isData)));
      await renamed('changed twice');
      await page.getByRole('link', { name: 'changed twice' }).waitFor();
      assert.deepEqual(others, []);
      const read = hidden.waitForRequest(/\/redeliveries\//);
      await hide(hidden, false);
      await read;
      await renamed('first');
      await page.getByRole('link', { name: 'first', exact: true }).waitFor();
    },
  );

  test(
    'a search keeps what is typed, and the filter that is chosen meanwhile',
    { tags: ['long'] },
    async () => {
      const { page, goto } = tab;
      await goto('/streams');
      const field = page.getByRole('searchbox', { name: 'Search', exact: true });
      await field.pressSequentially('first ');
      await page.waitForURL(/q=first$/);
      await page.getByRole('link', { name: 'first', exact: true }).waitFor();
      await field.pressSequentially('x');
      assert.equal(await field.inputValue(), 'first x');
      await goto('/streams');
      await field.fill('erp');
      await page.getByRole('link', { name: 'disabled' }).click();
      await page.waitForURL(/statuses=disabled.*q=erp|q=erp.*statuses=disabled/);
    },
  );

  test(
    'rows of the filter before are said to be so until those of the new one are there',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      let go = (): void => undefined;
      const released = new Promise<void>((resolve) => (go = resolve));
      await page.route(/statuses=disabled/, async (route) => {
        await released;
        await route.continue();
      });
      t.after(() => page.unroute(/statuses=disabled/));
      await goto('/streams');
      await page.getByRole('link', { name: 'disabled', exact: true }).click();
      const former = page.getByText('Until then the former content is shown');
      await former.waitFor();
      assert.deepEqual(await tab.findings(), []);
      go();
      await former.waitFor({ state: 'detached' });
    },
  );

  test(
    'a title and a command never name the stream that was filtered by before',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = tab;
      const health = `**/event-streams/${second}/health`;
      await page.route(health, () => undefined);
      await page.route(/stream-health\?sort/, (route) =>
        route.fulfill({
          json: {
            streams: [{ event_stream_id: second, name: 'second', failures: { open: 1 } }],
            total: 1,
            as_of: new Date().toISOString(),
          },
        }),
      );
      t.after(() => page.unrouteAll());
      await goto(`/failures?stream=${first}`);
      await page.getByRole('heading', { level: 1, name: 'Failures of first' }).waitFor();
      await page.getByRole('combobox', { name: 'Stream' }).selectOption(second);
      await page.getByRole('heading', { level: 1, name: `Failures of ${second}` }).waitFor();
    },
  );

  test(
    'other pages open without a further file, once theirs were read ahead',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      const ahead = page.waitForResponse(/\/manage-[^/]*\.js$/);
      await goto('/streams');
      await (await ahead).finished();
      await page.route(/\.js$/, (route) => route.abort());
      await page.getByRole('link', { name: 'Audit log' }).click();
      await page.getByRole('table', { name: 'Entries of the audit log' }).waitFor();
    },
  );

  test(
    'a page outlives a service that is killed and started again',
    { tags: ['long'] },
    async (t) => {
      const own = await startInstallation(t, { content: 'empty' });
      const { id } = await createStream(own.leat, 'https://hooks.example/', { name: 'outlives' });
      const { page, goto, findings } = await openConsole(t, { installation: own });
      await goto('/streams');
      await page.getByRole('link', { name: 'outlives' }).waitFor();
      await own.leat.kill();
      await page.getByText('Leat does not respond, or').waitFor();
      await page.getByRole('link', { name: 'outlives' }).click();
      await page.getByRole('button', { name: 'Try again' }).first().waitFor();
      assert.deepEqual(await findings(), []);
      await own.restart();
      // Nobody presses anything.
      await page.getByRole('heading', { level: 1, name: 'outlives' }).waitFor();
      await page.getByText('Leat does not respond, or').waitFor({ state: 'detached' });
      await own.leat.send('POST', `/api/v2/event-streams/${id}/pause`, { reason: 'a check' });
      await page.getByText('a check').first().waitFor();
    },
  );

  test(
    'a page whose files are gone since another version is there offers to reload',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      const files = /\/manage-[^/]*\.js$/;
      await page.route(files, (route) => route.fulfill({ status: 404, body: '' }));
      await goto('/streams');
      await page.getByRole('link', { name: 'Audit log' }).click();
      await page.getByRole('button', { name: 'Reload the page' }).waitFor();
      await page.unroute(files);
      await page.getByRole('button', { name: 'Reload the page' }).press('Enter');
      await page.getByRole('table', { name: 'Entries of the audit log' }).waitFor();
    },
  );

  test(
    'an address that cannot be read leaves the places where they are',
    { tags: ['long'] },
    async () => {
      const { page, goto } = tab;
      await goto('/events/%E0%A4%A');
      await page.getByRole('link', { name: 'Streams' }).first().click();
      await page.getByRole('table', { name: 'Streams' }).waitFor();
    },
  );

  test('all parts of a stream fit on a screen of 768 pixels', { tags: ['long'] }, async (t) => {
    const { page, goto } = await openConsole(t, { installation, width: 768 });
    await goto(`/streams/${first}?tab=received`);
    await page.getByRole('link', { name: 'Received', exact: true }).waitFor();
    const width = await page.evaluate<number>('document.documentElement.scrollWidth');
    assert.equal(width, 768);
  });

  test(
    'a list without events leads to publishing only those who may',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation, role: 'support' });
      await goto('/events?live=1');
      await page.getByText('No new event so far').waitFor();
      assert.equal(await page.getByRole('link', { name: /^Publish/ }).count(), 0);
    },
  );

  test('a chart ends where its panel does', { tags: ['long'] }, async () => {
    const { page, goto } = tab;
    await goto('/');
    const panel = page.getByRole('region', { name: 'Latency', exact: true });
    await panel.locator('canvas').waitFor();
    const bottoms = await Promise.all(
      [panel, panel.locator('canvas')].map(async (each) => {
        const { y = 0, height = 0 } = (await each.boundingBox()) ?? {};
        return y + height;
      }),
    );
    assert.ok((bottoms[0] ?? 0) - (bottoms[1] ?? 0) < 24, bottoms.join(' '));
  });

  test(
    'figures of ten digits fit on a phone, and payloads are seen at twice the size',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation, width: 390 });
      const { leat } = installation;
      const overview = await expectBody<object>(200, leat.send('GET', '/api/v2/overview'));
      const failures = { open: 9_876_543_210, retrying: 9_876_543_210 };
      await page.route(/\/overview$/, (route) =>
        route.fulfill({ json: { ...overview, failures } }),
      );
      await goto('/');
      await page.getByTitle('9\u2009876\u2009543\u2009210').first().waitFor();
      const cut = `[...document.querySelectorAll('.figure .value')]
      .filter((each) => each.scrollWidth > each.clientWidth).length`;
      assert.equal(await page.evaluate(cut), 0);
      await publish(leat, 'order.paid', { number: 1 });
      await page.setViewportSize({ width: 720, height: 450 });
      await goto('/events');
      const preview = page.getByText('{"number":1}').first();
      await preview.waitFor();
      assert.ok(((await preview.boundingBox())?.width ?? 0) > 80);
    },
  );

  test('times are right in a browser whose clock is wrong', { tags: ['long'] }, async (t) => {
    const { page, goto } = await openConsole(t, { installation });
    await page.addInitScript(`{ const { now } = Date; Date.now = () => now() + 3_600_000; }`);
    await goto('/streams');
    const at = await page.getByText(/^Live, as of|^Not live, as of/).innerText();
    // The header Date has whole seconds: the page may be read a moment before what it shows.
    assert.match(at, /as of (?:now|just now|[\d.]+\ss ago)$/);
  });

  async function created(name: string): Promise<string> {
    const configuration = {
      webhook_endpoint: 'https://new.inspector.invalid/',
      webhook_authorization: { method: 'bearer', token: 'a token of the test' },
    };
    const { id } = await expectBody<{ readonly id: string }>(
      201,
      installation.leat.send('POST', '/api/v2/event-streams', {
        name,
        subscriptions: [{ event_type: 'user.created' }],
        destination: { type: 'webhook', configuration },
      }),
    );
    return id;
  }

  async function renamed(name: string): Promise<void> {
    const path = `/api/v2/event-streams/${first}`;
    await expectBody(200, installation.leat.send('PATCH', path, { name }));
  }
});

/** A redelivery under way, as the server returns it. */
const running = {
  id: 'rdl_1111111111111111111111',
  status: 'running',
  created_at: '2026-01-01T00:00:00.000Z',
  created_by: 'a test',
  total: 5,
  delivered: 1,
  failed: 0,
  skipped: 0,
  remaining: 4,
  filter: {},
};

function inDialog(page: Page, name: string) {
  return page.getByRole('dialog').getByRole('button', { name, exact: true });
}

/** Waits until the element that has the focus has this text. */
async function focused(page: Page, text: string): Promise<void> {
  await page.locator(':focus', { hasText: new RegExp(`^${text}$`) }).waitFor();
}

/** Hides a tab, as far as a page can tell: the browser of the tests shows all of its tabs. */
async function hide(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    Object.defineProperty(document, 'visibilityState', {
      value: '${isHidden ? 'hidden' : 'visible'}', configurable: true });
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }));`);
}
