import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guidanceOf } from '../../src/alerting/guidance.ts';
import { alertExamples } from '../helpers/alerts.ts';
import { openConsole } from '../helpers/console.ts';
import { createStream } from '../helpers/api-client.ts';

test(
  'the link of every kind of alert leads to a page that shows its subject',
  { tags: ['long'] },
  async (t) => {
    const console = await openConsole(t, { content: 'empty' });
    const { page, installation } = console;
    const { id } = await createStream(installation.leat, 'https://new.inspector.invalid/', {
      name: 'crm',
    });
    for (const [kind, { alert }] of Object.entries(alertExamples({ id, name: 'crm' }))) {
      const { link } = guidanceOf(alert, `${installation.origin}/`);
      await console.goto(new URL(link).href.slice(`${installation.origin}/console`.length));
      assert.equal(await page.getByRole('heading', { name: 'Nothing here' }).count(), 0, kind);
      // The name of a stream is read after the page is there.
      if (alert.stream !== undefined) await page.locator('h1', { hasText: 'crm' }).waitFor();
    }
    assert.deepEqual(console.errors(), []);
  },
);
