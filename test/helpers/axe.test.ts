import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { axeFindings } from './axe.ts';
import { type RunningBrowser, startBrowser } from './browser.ts';

describe('axeFindings', () => {
  let running: RunningBrowser;
  before(async () => {
    running = await startBrowser();
  });
  after(() => running.close());

  /** Opens a page with the policy of Leat's pages. */
  async function open(t: TestContext, body: string): Promise<Page> {
    const context = await running.browser.newContext();
    t.after(() => context.close());
    const page = await context.newPage();
    await page.route('**/*', (route) =>
      route.fulfill({
        headers: {
          'content-type': 'text/html; charset=utf-8',
          'content-security-policy': "default-src 'self'",
        },
        body: `<!doctype html><html lang="en"><title>A page</title><body>${body}</body></html>`,
      }),
    );
    await page.goto('http://localhost/');
    return page;
  }

  test(
    'axeFindings names the rule, the element and the problem, under a strict policy',
    { tags: ['long'] },
    async (t) => {
      const page = await open(t, '<main><input id="name"><font color="#ccc">pale</font></main>');
      const found = await axeFindings(page);
      assert.deepEqual(
        found.map(({ rule, element }) => `${rule} ${element}`),
        ['color-contrast font', 'label #name'],
      );
      assert.match(found[0]?.problem ?? '', /insufficient color contrast of 1\.6/);
    },
  );

  test(
    'axeFindings checks a page again after a change, a part of it, or without a rule',
    { tags: ['long'] },
    async (t) => {
      const page = await open(t, '<main>dark</main><div><font color="#ccc">pale</font></div>');
      assert.equal((await axeFindings(page)).length, 1);
      assert.deepEqual(await axeFindings(page, { within: 'main' }), []);
      assert.deepEqual(await axeFindings(page, { exceptRules: ['color-contrast'] }), []);
      await page.evaluate(`document.querySelector('div').remove()`);
      assert.deepEqual(await axeFindings(page), []);
    },
  );
});
