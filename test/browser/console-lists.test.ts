import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openConsole, startInstallation } from '../helpers/console.ts';

test(
  'a list shows at once that a filter is applied, and keeps its rows until the server responds',
  { tags: ['long'] },
  async (t) => {
    const installation = await startInstallation(t, { content: 'empty' });
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
    assert.equal(created.status, 201);
    const { page, goto } = await openConsole(t, { installation });
    await goto('/streams');
    const streams = page.getByRole('region', { name: 'Streams', exact: true });
    const row = page.getByRole('link', { name: 'inspected', exact: true });
    await row.waitFor();
    assert.equal(await streams.getAttribute('aria-busy'), 'false');

    const held = Promise.withResolvers<void>();
    await page.route('**/stream-health?statuses=failing', async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.getByRole('link', { name: 'failing', exact: true }).click();
    await page.locator('.table-frame[aria-busy=true]').waitFor();
    assert.ok(await row.isVisible());
    held.resolve();
    await page.getByText('No stream matches.').waitFor();
    assert.equal(await page.locator('[aria-busy=true]').count(), 0);
  },
);
