import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
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
    'what has changed is read again in the background, and what somebody opens then is not',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      const ofStream = watch(page, `/event-streams/${stream}`);
      await goto(`/streams/${stream}`);
      await page.getByRole('link', { name: 'Overview' }).first().click();
      const refreshed = page.waitForRequest(
        (request) =>
          request.url().endsWith('/overview') && request.headers()['leat-background'] === '1',
      );
      await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
      await rename('changed');
      await refreshed;
      const whileShown = ofStream.length;
      await page.goBack();
      await page.getByRole('heading', { name: 'changed' }).waitFor();
      assert.equal(ofStream[0], false);
      assert.equal(ofStream[whileShown], false);
    },
  );

  async function rename(name: string): Promise<void> {
    const changed = await installation.leat.send('PATCH', `/api/v2/event-streams/${stream}`, {
      name,
    });
    assert.equal(changed.status, 200);
  }
});
