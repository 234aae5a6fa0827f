import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page, Request, Route } from 'playwright-core';
import { fileScope, openConsole, startInstallation } from '../helpers/console.ts';
import type { Installation } from '../helpers/console-page.ts';

/** Reads that nobody asked for have the header `Leat-Background`: they do not keep a session in use. */
describe('what the console reads in the background', () => {
  let installation: Installation;
  let stream: string;
  before(async () => {
    installation = await startInstallation(fileScope, { content: 'empty' });
    const created = await installation.leat.send('POST', '/api/v2/event-streams', {
      name: 'inspected',
      subscriptions: [{ event_type: 'user.created' }],
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://new.inspector.invalid/',
          webhook_authorization: { method: 'bearer', token: 'a token of the test' },
        },
      },
    });
    ({ id: stream } = (await created.json()) as { readonly id: string });
  });

  /** Returns for each request of a path so far whether it was in the background. */
  function watch(page: Page, path: string): boolean[] {
    const found: boolean[] = [];
    page.on('request', (request) => {
      if (!new URL(request.url()).pathname.endsWith(path)) return;
      found.push(request.headers()['leat-background'] === '1');
    });
    return found;
  }

  test(
    'what is read again by a timer is in the background, its first read is not',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      const reads = watch(page, '/received');
      await goto(`/first?stream=${stream}`);
      while (reads.length < 3) await page.waitForRequest(/\/received$/);
      assert.deepEqual(reads.slice(0, 3), [false, true, true]);
    },
  );

  test(
    'what is shown is read again in the background, and what somebody opens then is not',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      const ofStream = watch(page, `/event-streams/${stream}`);
      await goto(`/streams/${stream}`);
      while (ofStream.length < 2) await page.waitForRequest(new RegExp(`${stream}$`));
      await page.getByRole('link', { name: 'Overview' }).first().click();
      await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
      const whileShown = ofStream.length;
      await page.waitForRequest((request) => isRepeated(request, '/overview'));
      assert.equal(ofStream.length, whileShown, 'what is not shown is not read');
      await page.goBack();
      while (ofStream.length === whileShown) await page.waitForRequest(new RegExp(`${stream}$`));
      assert.deepEqual(ofStream.slice(0, 2), [false, true]);
      assert.equal(ofStream[whileShown], false);
    },
  );

  test(
    'what has not changed is 304, and what has replaces neither input, focus, selection nor scroll',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation, height: 300 });
      await goto(`/streams/${stream}?tab=settings&edit=yes`);
      const field = page.getByLabel('URL');
      await field.fill('https://typed.example/');
      await page.evaluate('document.activeElement.setSelectionRange(8, 13), scrollBy(0, 40)');
      await page.evaluate(`new MutationObserver(() => {
        window.wasEmptied ||= document.querySelector('.skeleton') !== null;
      }).observe(document.body, { childList: true, subtree: true });`);
      const state = `[document.activeElement.value, document.activeElement.selectionStart,
        document.activeElement.selectionEnd, scrollY]`;
      const was = await page.evaluate(state);
      assert.deepEqual((was as unknown[]).slice(0, 3), ['https://typed.example/', 8, 13]);
      const again = await page.waitForResponse((response) =>
        isRepeated(response.request(), `/event-streams/${stream}`),
      );
      assert.equal(again.status(), 304);
      await rename('renamed');
      await page.getByRole('heading', { name: 'renamed', level: 1 }).waitFor();
      assert.deepEqual(await page.evaluate(state), was);
      assert.equal(await page.evaluate('window.wasEmptied ?? false'), false);
    },
  );

  test('the last data stay while reads in the background fail', { tags: ['long'] }, async (t) => {
    const { page, goto } = await openConsole(t, { installation });
    await goto('/streams');
    const row = page.getByRole('row').nth(1);
    await page.getByText(/^Live, as of/).waitFor();
    for (const [fail, notice] of [
      [(route: Route) => route.abort(), 'Leat does not respond'],
      [
        (route: Route) => route.fulfill({ status: 503, json: { message: 'No store.' } }),
        'Leat cannot reach its store at the moment.',
      ],
      [
        (route: Route) => route.fulfill({ status: 500, json: { message: 'A defect.' } }),
        'Leat has failed with status 500.',
      ],
    ] as const) {
      await page.route(/\/stream-health/, fail);
      await page.getByText(notice).waitFor();
      await page.getByText(/^Not live, as of/).waitFor();
      assert.ok(await row.isVisible(), notice);
      await page.unroute(/\/stream-health/);
      await page.getByText(/^Live, as of/).waitFor();
      await page.getByText(notice).waitFor({ state: 'detached' });
    }
  });

  test(
    'a failed first read is shown until it succeeds, without a press',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      await page.route(/\/stream-health/, (route) =>
        route.fulfill({ status: 503, json: { message: 'No store.' } }),
      );
      await goto('/streams');
      const button = page.getByRole('button', { name: 'Try again' });
      await button.focus();
      await page.waitForRequest(/\/stream-health/);
      assert.equal(await page.evaluate('document.activeElement.textContent'), 'Try again');
      await page.unroute(/\/stream-health/);
      await page.getByText(/^Live, as of/).waitFor();
    },
  );

  async function rename(name: string): Promise<void> {
    const changed = await installation.leat.send('PATCH', `/api/v2/event-streams/${stream}`, {
      name,
    });
    assert.equal(changed.status, 200);
  }
});

/** Returns whether a request reads a path again that nobody has asked for. */
function isRepeated(request: Request, path: string): boolean {
  return (
    new URL(request.url()).pathname.endsWith(path) && request.headers()['leat-background'] === '1'
  );
}
