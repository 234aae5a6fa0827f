import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { checkWidths, tabTo } from '../helpers/console-checks.ts';
import type { OpenConsole, Installation } from '../helpers/console-page.ts';
import { filledInstallation, openConsole } from '../helpers/console.ts';

/** Rows of the list, without its header. */
async function rowsOf({ page }: OpenConsole): Promise<string[]> {
  const rows = page.getByRole('region', { name: 'Entries of the audit log' }).getByRole('row');
  return (await rows.allInnerTexts()).slice(1);
}

describe('audit log', () => {
  let installation: Installation;
  before(async () => {
    installation = await filledInstallation();
  });

  test('an entry leads to its details, and they to the target and its other entries', async (t) => {
    const console = await openConsole(t, { installation });
    const { page, data } = console;
    await console.goto('/logs');
    await page.getByRole('combobox', { name: 'What' }).selectOption('Changes');
    await page.waitForURL('**/console/logs?types=sapi');
    await page.getByRole('link', { name: 'Assign a role to users' }).click();
    await page.getByRole('heading', { name: 'Assign a role to users', level: 1 }).waitFor();
    const facts = page.getByRole('region', { name: 'Facts' });
    const role = data.roles['Support'] ?? '';
    await facts.getByText(`POST /api/v2/roles/${role}/users`).waitFor();
    const user = data.users['ada@example.com'] ?? '';
    for (const href of [`/console/access?q=${role}`, `/console/users/${encodeURIComponent(user)}`])
      await facts.locator(`a[href="${href}"]`).waitFor();
    const json = await page.getByRole('region', { name: 'entry as JSON' }).innerText();
    assert.deepEqual((JSON.parse(json) as { details: { changed: string[] } }).details.changed, [
      'users',
    ]);
    await page.getByRole('link', { name: `all entries about it: ${role}` }).click();
    await page.waitForURL(`**/console/logs?target=${role}`);
    await page.getByRole('link', { name: 'Create a role' }).waitFor();
    assert.equal((await rowsOf(console)).length, 3);
    assert.deepEqual(console.errors(), []);
  });

  test(
    'filters and pages are in the address, and a reload shows the same',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page, data } = console;
      await console.goto('/logs');
      assert.equal((await rowsOf(console)).length, 50);
      await page.getByRole('link', { name: 'Next page' }).click();
      await page.waitForURL(/[?&]from=/);
      await page.getByRole('link', { name: 'First page' }).waitFor();
      await page.getByRole('link', { name: 'Last hour' }).click();
      await page.waitForURL('**/console/logs?since=hour');
      const client = data.clients['Warehouse worker'] ?? '';
      await page.getByRole('searchbox', { name: 'Client', exact: true }).fill(client);
      await page.waitForURL(`**/console/logs?since=hour&client=${client}`);
      await page.getByText('the client is unknown or its secret is wrong').waitFor();
      await page.reload();
      await page.getByText('the client is unknown or its secret is wrong').waitFor();
      assert.equal((await rowsOf(console)).length, 1);
      await page.getByText('The same on the command line').click();
      await page.getByText(new RegExp(`leat logs --client ${client} --since `)).waitFor();
      await page.getByRole('link', { name: 'Clear filters' }).click();
      await page.waitForURL('**/console/logs');
    },
  );

  test(
    'between two times: they are typed in the zone of the browser',
    { tags: ['long'] },
    async (t) => {
      const context = { timezoneId: 'Asia/Tokyo' };
      const console = await openConsole(t, { installation, context });
      const { page } = console;
      await console.goto('/logs?since=between');
      await page.getByLabel('From').fill('2020-01-02T09:00:00');
      await page.getByLabel('Before').fill('2020-01-01T09:00:00');
      await page.getByText('It ends before it begins.').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Show this time' }).isDisabled());
      await page.getByLabel('Before').fill('2020-01-03T09:00:00');
      await page.getByRole('button', { name: 'Show this time' }).click();
      await page.getByText('No entry matches').waitFor();
      const { searchParams } = new URL(page.url());
      assert.equal(searchParams.get('date_from'), '2020-01-02T00:00:00.000Z');
      assert.equal(searchParams.get('date_to'), '2020-01-03T00:00:00.000Z');
      await page.getByRole('link', { name: 'Show all entries' }).click();
      await page.waitForURL('**/console/logs');
    },
  );

  test(
    'by keyboard alone: a viewer finds the sign-in of a colleague',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation, role: 'viewer' });
      const { page } = console;
      await console.goto('/logs');
      const what = page.getByRole('combobox', { name: 'What' });
      await tabTo(what);
      await page.keyboard.type('Console');
      await page.waitForURL('**/console/logs?types=ssa');
      const link = page.getByRole('link', { name: 'Sign in to the console' }).first();
      await link.waitFor();
      await tabTo(link);
      await page.keyboard.press('Enter');
      await page.getByText('one-time link').first().waitFor();
      assert.deepEqual(console.errors(), []);
    },
  );

  test(
    'an entry that was removed, and one that never was, are explained',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      await console.goto('/logs/log_b8dLcukC7edhDQ7cn5d4gE');
      await console.page.getByText('entries are removed after LEAT_LOG_RETENTION_DAYS').waitFor();
    },
  );

  for (const theme of ['light', 'dark'] as const) {
    test(`both pages are accessible, wide and narrow: ${theme}`, { tags: ['long'] }, async (t) => {
      const console = await openConsole(t, { installation, theme });
      const { page } = console;
      await console.goto('/logs?since=between&types=sapi');
      const link = page.getByRole('link', { name: 'Assign a role to users' });
      await checkWidths(console);
      await link.click();
      await page.getByRole('region', { name: 'entry as JSON' }).waitFor();
      await checkWidths(console);
    });
  }
});
