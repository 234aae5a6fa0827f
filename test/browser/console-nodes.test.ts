import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { startAlertReceiver } from '../helpers/alerts.ts';
import { checkWidths, tabTo } from '../helpers/console-checks.ts';
import type { Installation } from '../helpers/console-page.ts';
import { fileScope, openConsole, startInstallation } from '../helpers/console.ts';
import { freePort } from '../helpers/leat.ts';

const marker = 'hunter2';
let installation: Installation;
let chat: Awaited<ReturnType<typeof startAlertReceiver>>;
before(async () => {
  chat = await startAlertReceiver();
  fileScope.after(() => chat.close());
  installation = await startInstallation(fileScope, {
    content: 'empty',
    settings: {
      LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${chat.port}/T0/${marker}?t=${marker}`,
      LEAT_ALERT_EMAIL: 'ops@example.com',
      // Nothing listens there.
      LEAT_SMTP_URL: `smtp://leat:${marker}@127.0.0.1:${await freePort()}`,
    },
  });
});

describe('nodes', () => {
  test('the node and its store are shown, and read again while the page is visible', async (t) => {
    const console = await openConsole(t, { installation });
    const { page } = console;
    await console.goto('/nodes');
    const row = page.getByRole('region', { name: 'Nodes' }).getByRole('row').nth(1);
    await row.getByText('sends this page').waitFor();
    await row.getByText('ok', { exact: true }).waitFor();
    await page.getByText('SQLite, one node').waitFor();
    const again = await page.waitForRequest('**/api/v2/nodes');
    assert.equal((await again.allHeaders())['leat-background'], '1');
    await page.getByText('The same on the command line').click();
    await page.getByText('leat nodes', { exact: true }).waitFor();
    assert.deepEqual(console.errors(), []);
  });
});

describe('words', () => {
  test('the menu of the user leads to the words', async (t) => {
    const { page, goto, errors } = await openConsole(t, { installation });
    await goto('/nodes');
    await page.getByRole('button', { name: /, operator$/ }).click();
    await page.getByRole('link', { name: 'Words' }).click();
    await page.getByRole('definition').filter({ hasText: 'may use the management API' }).waitFor();
    assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Words');
    assert.deepEqual(errors(), []);
  });
});

describe('settings', () => {
  test(
    'changed settings come first, a search finds meanings, and no secret arrives',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page } = console;
      const body = page.waitForResponse('**/api/v2/settings').then((response) => response.text());
      await console.goto('/settings');
      assert.ok(!(await body).includes(marker));
      const names = page
        .getByRole('region', { name: 'Settings', exact: true })
        .locator('td.first code');
      const all = await names.allInnerTexts();
      assert.ok(all.indexOf('LEAT_SMTP_URL') < all.indexOf('LEAT_LOG_RETENTION_DAYS'));
      await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('audit days');
      await page.waitForURL('**/console/settings?q=audit+days');
      assert.deepEqual(await names.allInnerTexts(), ['LEAT_LOG_RETENTION_DAYS']);
      await page.reload();
      await page.getByText('LEAT_LOG_RETENTION_DAYS').waitFor();
      await page.getByText('Rotate and revoke keys').click();
      await page.getByText('leat keys rotate --webhooks').waitFor();
    },
  );

  test(
    'by keyboard alone: a test alert is sent, and each channel has its result',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page } = console;
      await console.goto('/settings');
      await tabTo(page.getByRole('button', { name: 'Send a test alert' }));
      await page.keyboard.press('Enter');
      await page.getByRole('dialog', { name: 'Send a test alert' }).waitFor();
      await tabTo(page.getByRole('button', { name: 'Send it' }));
      await page.keyboard.press('Enter');
      const result = page.getByRole('listitem');
      await result.filter({ hasText: 'Webhook' }).getByText('sent', { exact: true }).waitFor();
      await result.filter({ hasText: 'E-mail' }).getByText('not sent', { exact: true }).waitFor();
      const button = page.getByRole('button', { name: 'Send a test alert' });
      assert.equal(await button.and(page.locator(':focus')).count(), 1);
      assert.deepEqual(await console.findings(), []);
      assert.deepEqual(console.errors(), []);
    },
  );
});

describe('who may not see the service', () => {
  const paths = ['/nodes', '/settings'];

  test(
    'other roles are told which one may, and nothing is requested',
    { tags: ['long'] },
    async (t) => {
      for (const role of ['support', 'viewer'] as const) {
        const console = await openConsole(t, { installation, role });
        for (const path of paths) {
          await console.goto(path);
          await console.page.getByText(`Your role, ${role}, may not see this.`).waitFor();
        }
        assert.deepEqual(console.errors(), []);
      }
    },
  );

  test(
    'the operator of another tenant is told that it is of the whole service',
    { tags: ['long'] },
    async (t) => {
      // The browser of tests resolves no other host than localhost, which is the first tenant's.
      const domain = `127.0.0.1:${new URL(installation.origin).port}`;
      await installation.operator('tenants', 'create', 'acme', domain);
      const link = async (): Promise<string> => {
        const output = await installation.operator('console', '--tenant', 'acme');
        // The test has no certificate of this tenant.
        return (
          /https?:\/\/\S+\/console\/#code=[\w-]+/.exec(output)?.[0].replace('https', 'http') ?? ''
        );
      };
      const acme: Installation = { ...installation, origin: `http://${domain}`, link };
      const console = await openConsole(t, { installation: acme });
      for (const path of paths) {
        await console.goto(path);
        await console.page.getByText('This concerns the whole service').waitFor();
        assert.deepEqual(await console.findings(), []);
      }
      const places = console.page.getByRole('navigation', { name: 'Places', exact: true });
      assert.equal(await places.getByRole('link', { name: 'Nodes' }).count(), 0);
    },
  );
});

for (const theme of ['light', 'dark'] as const) {
  test(
    `nodes and settings are accessible, wide and narrow: ${theme}`,
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation, theme });
      for (const path of ['/nodes', '/settings']) {
        await console.goto(path);
        await checkWidths(console, path);
      }
    },
  );
}
