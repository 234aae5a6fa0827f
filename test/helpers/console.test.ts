import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Installation } from './console-page.ts';
import { openConsole, startInstallation } from './console.ts';

describe('the console of an empty service', () => {
  let installation: Installation;
  let close: (() => Promise<void>) | undefined;
  before(async () => {
    installation = await startInstallation({ after: (end) => (close = end) }, { content: 'empty' });
  });
  after(() => close?.());

  test('a tab has a session with the role of its link', { tags: ['long'] }, async (t) => {
    for (const role of ['viewer', 'support', 'operator'] as const) {
      const { page } = await openConsole(t, { installation, role });
      const session = await page.evaluate<{ role: string }>(
        `fetch('/console/session').then((response) => response.json())`,
      );
      assert.equal(session.role, role);
    }
  });

  test('presses are counted over pages, those of keys are not', { tags: ['long'] }, async (t) => {
    const { page, goto, ready, clicks, errors } = await openConsole(t, { installation });
    await goto('/streams');
    assert.equal(await clicks(), 0);
    await page.getByRole('link', { name: 'Overview' }).first().click();
    await ready();
    await page.keyboard.press('Tab');
    await page.getByRole('link', { name: 'Streams' }).first().press('Enter');
    await ready();
    await page.reload();
    await ready();
    assert.equal(await clicks(), 1);
    assert.deepEqual(errors(), []);
  });
});

test('a tab that is signed out shows the ways in', { tags: ['long'] }, async (t) => {
  const { page, goto } = await openConsole(t, { content: 'empty', role: 'signed out' });
  await goto('/streams');
  assert.match(await page.locator('main').innerText(), /leat console/);
});
