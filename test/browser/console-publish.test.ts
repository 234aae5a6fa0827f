import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { filledInstallation, openConsole } from '../helpers/console.ts';
import type { Installation } from '../helpers/console-page.ts';

describe('an empty installation', () => {
  test('three clicks lead to the signed request as it arrived', async (t) => {
    const console = await openConsole(t, { content: 'empty' });
    const { page } = console;
    await console.goto('/');
    await page.getByRole('link', { name: 'Make a first delivery' }).click();
    await page.getByRole('button', { name: 'Make the stream' }).click();
    await page.getByRole('button', { name: 'Send a test event' }).click();
    await page.getByText('signature valid').waitFor();
    assert.equal(await console.clicks(), 3);
    const body = page.getByRole('region', { name: 'body' });
    assert.match(await body.innerText(), /"type": "user\.created"/);
    const headers = page.getByRole('region', { name: 'headers' });
    assert.match(await headers.innerText(), /^webhook-signature: v1,/m);
    assert.deepEqual(await console.findings(), []);
    assert.deepEqual(console.errors(), []);

    // The address alone leads a colleague to the same.
    const address = page.url();
    await page.reload();
    await page.getByText('signature valid').waitFor();
    assert.equal(page.url(), address);
  });

  test(
    'a viewer is told that an operator makes the first stream',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { content: 'empty', role: 'viewer' });
      await console.goto('/first');
      await console.page.getByText('Your role may not create streams').waitFor();
      assert.equal(await console.page.getByRole('button', { name: 'Make the stream' }).count(), 0);
    },
  );
});

describe('publish and test', () => {
  let installation: Installation;
  before(async () => {
    installation = await filledInstallation();
  });

  test(
    'an event is published with the sample of its type, and its page is one click away',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page } = console;
      await console.goto('/publish');
      const data = page.getByRole('textbox', { name: 'Data' });
      await page.waitForFunction(`document.querySelector('#event-data').value.includes('ada')`);
      await page.getByRole('combobox', { name: 'Type' }).fill('user.deleted');
      assert.match(await data.inputValue(), /"object"/);
      await page.getByRole('button', { name: 'Publish' }).click();
      const link = page.getByRole('link', { name: 'What became of it' });
      assert.match((await link.getAttribute('href')) ?? '', /^\/console\/events\/evt_\w{22}$/);
      assert.deepEqual(await console.findings(), []);
      assert.deepEqual(console.errors(), []);
    },
  );

  test(
    'data that are no object are not sent, and the line of the fault is named',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page } = console;
      await console.goto('/publish');
      const data = page.getByRole('textbox', { name: 'Data' });
      for (const [text, problem] of [
        ['{\n  "a": 1,\n  b\n}', /line 3/],
        ['[]', /no object/],
        ['', /Enter a JSON object/],
      ] as const) {
        await data.fill(text);
        assert.match(await page.locator('#data-problem').innerText(), problem);
        assert.ok(await page.getByRole('button', { name: 'Publish' }).isDisabled());
      }
    },
  );

  test(
    'the receiver inside Leat answers as it is told, and shows it',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page, data } = console;
      const stream = data.streams['inspector-playground'];
      assert.ok(stream !== undefined);
      await console.goto(`/publish?to=${stream}&receiver=${stream}`);
      await page.getByRole('spinbutton', { name: 'Answer next with' }).fill('418');
      await page.getByRole('spinbutton', { name: 'this many times' }).fill('1');
      await page.getByRole('button', { name: 'Set the answer' }).click();
      await page.getByText('Answers the next 1 request with 418.').waitFor();
      await page
        .getByRole('textbox', { name: 'Data' })
        .fill('{"note": "<img src=x onerror=alert(1)>"}');
      await page.getByRole('button', { name: 'Send to this stream' }).click();
      await page.getByText('answered 418').first().waitFor();
      const body = page.getByRole('region', { name: 'body' }).first();
      assert.match(await body.innerText(), /"note": "<img src=x onerror=alert\(1\)>"/);
      assert.equal(await page.locator('main img').count(), 0);
      assert.deepEqual(await console.findings(), []);
    },
  );

  test(
    'support and viewers may not publish: the page says so, and no place leads there',
    { tags: ['long'] },
    async (t) => {
      for (const role of ['support', 'viewer'] as const) {
        const console = await openConsole(t, { installation, role });
        await console.goto('/publish');
        await console.page.getByText('Your role may not publish events').waitFor();
        const places = console.page.getByRole('navigation', { name: 'Places', exact: true });
        assert.equal(await places.getByRole('link', { name: 'Publish' }).count(), 0);
      }
    },
  );
});
