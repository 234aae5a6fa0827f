import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createStream } from '../helpers/api-client.ts';
import { fileScope, openConsole, startInstallation } from '../helpers/console.ts';
import { acceptLink, followLink, type Installation } from '../helpers/console-page.ts';

describe('signing in to the console with a one-time link', () => {
  let installation: Installation;
  before(async () => {
    installation = await startInstallation(fileScope, { content: 'empty' });
  });

  const heading = (page: Page, name: string): Promise<void> =>
    page.getByRole('heading', { name, level: 1 }).waitFor();

  test('the code is gone from the address and the history, and no script can read the session', async (t) => {
    const { page, goto, errors } = await openConsole(t, { installation });
    await heading(page, 'Overview');
    assert.equal(page.url(), `${installation.origin}/console/`);
    await goto('/streams');
    await page.goBack();
    await heading(page, 'Overview');
    assert.doesNotMatch(page.url(), /code/);
    const cookies = await page.context().cookies();
    assert.equal(cookies.length, 1);
    const [cookie] = JSON.parse(JSON.stringify(cookies)) as Record<string, unknown>[];
    assert.partialDeepStrictEqual(
      cookie,
      JSON.parse(
        '{ "name": "leat_console", "httpOnly": true, "sameSite": "Strict", "path": "/" }',
      ) as object,
    );
    assert.equal(await page.evaluate('document.cookie'), '');
    const stored = await page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}])');
    assert.doesNotMatch(String(stored), new RegExp(cookies[0]?.value ?? 'none'));
    assert.deepEqual(errors(), []);
  });

  test(
    'a link works once: the second use says so and names the command for a new one',
    { tags: ['long'] },
    async (t) => {
      const { page, findings } = await openConsole(t, { installation, role: 'signed out' });
      const link = await installation.link();
      await followLink(page, link);
      await heading(page, 'Overview');
      const [cookie] = await page.context().cookies();
      const log = installation.leat.output();
      for (const secret of [new URL(link).hash.slice('#code='.length), cookie?.value ?? '']) {
        assert.ok(secret.length > 20);
        assert.equal(log.includes(secret), false, 'in no log');
      }
      await page.context().clearCookies();
      // Another fragment alone would not load the page again.
      await page.goto('about:blank');
      await page.goto(link);
      await heading(page, 'Sign in to Leat');
      await page.getByText('This link was used already').waitFor();
      await page.getByRole('region', { name: 'command' }).getByText('leat console').waitFor();
      assert.deepEqual(await findings(), []);
    },
  );

  test(
    'a link that is opened on the page for signing in signs in',
    { tags: ['long'] },
    async (t) => {
      const { page } = await openConsole(t, { installation, role: 'signed out' });
      await page.goto(`${installation.origin}/console/streams`);
      await heading(page, 'Sign in to Leat');
      const { hash } = new URL(await installation.link());
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await acceptLink(page);
      await heading(page, 'Streams');
      assert.equal(page.url(), `${installation.origin}/console/streams`);
    },
  );

  test(
    'a link that is opened over a page with another session signs in, and its code is gone',
    { tags: ['long'] },
    async (t) => {
      const { page } = await openConsole(t, { installation, role: 'viewer' });
      await heading(page, 'Overview');
      const { hash } = new URL(await installation.link('operator'));
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await acceptLink(page);
      const places = page.getByRole('navigation', { name: 'Places', exact: true });
      await places.getByRole('link', { name: 'Users' }).waitFor();
      assert.equal(page.url(), `${installation.origin}/console/`);
    },
  );

  test('a page of another site that leads to a link signs nobody in unless they say so, and the replaced session ends', async (t) => {
    const { page, findings } = await openConsole(t, { installation, role: 'viewer' });
    await heading(page, 'Overview');
    const [former] = await page.context().cookies();
    const evil = await page.context().newPage();
    const link = await installation.link('operator');
    const other = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(`<a href="${link}">A cat</a>`);
    }).listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    await evil.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    await evil.getByRole('link', { name: 'A cat' }).click();
    await heading(evil, 'Sign in as operator by this link?');
    // Whoever types on confirms nothing.
    await evil.keyboard.press('Enter');
    assert.doesNotMatch(evil.url(), /code/);
    assert.deepEqual(await page.context().cookies(), [former], 'nothing has happened');

    await evil.getByText('You are signed in to main as one-time link (viewer).').waitFor();
    await evil.getByRole('button', { name: 'Stay signed in' }).click();
    await evil.getByRole('button', { name: 'one-time link, viewer' }).waitFor();
    assert.deepEqual(await page.context().cookies(), [former]);
    const { hash } = new URL(link);
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await heading(page, 'Sign in as operator by this link?');
    assert.deepEqual(await findings(), []);

    await evil.goto('about:blank');
    await followLink(evil, link);
    await heading(evil, 'Overview');
    const [present] = await page.context().cookies();
    assert.notEqual(present?.value, former?.value);
    const cookie = `leat_console=${former?.value ?? ''}`;
    const headers = { cookie, 'sec-fetch-site': 'same-origin', 'leat-console': '1' };
    const session = await fetch(`${installation.origin}/console/session`, { headers });
    assert.equal(session.status, 401, 'the replaced session has ended');

    await evil.goto('about:blank');
    await evil.goto(link);
    await evil.getByText('The link was used already').waitFor();
    await evil.getByRole('button', { name: 'one-time link, operator' }).waitFor();
  });

  test(
    'after signing out nothing is shown and the cookie opens nothing',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      await goto('/streams');
      const cookies = await page.context().cookies();
      await page.getByRole('button', { name: /one-time link/ }).click();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await heading(page, 'Sign in to Leat');
      await page.goBack();
      await heading(page, 'Sign in to Leat');
      await page.context().addCookies(cookies);
      await page.reload();
      await heading(page, 'Sign in to Leat');
    },
  );

  test(
    'a session that an operator ends shows so without a press, and a new one leads back',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await openConsole(t, { installation });
      await goto('/streams?q=crm');
      await installation.operator('console', 'end', '--all');
      // The connection for changes ends with its session.
      await heading(page, 'Sign in to Leat');
      await page.getByText('Your session has ended.').waitFor();
      const { hash } = new URL(await installation.link());
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await acceptLink(page);
      await heading(page, 'Streams');
      assert.match(page.url(), /\/console\/streams\?q=crm$/);
    },
  );

  test(
    'changes of a form outlive a visit to another page and the end of the session, in this tab alone',
    { tags: ['long'] },
    async (t) => {
      const { id } = await createStream(installation.leat, 'https://hooks.example/', {
        name: 'changed',
      });
      const { page, goto } = await openConsole(t, { installation });
      await goto(`/streams/${id}?tab=settings&edit=yes`);
      const name = page.getByLabel('Name', { exact: true });
      await name.fill('changed-by-hand');
      await page.getByLabel('Attempts per second').fill('not yet a number');
      const places = page.getByRole('navigation', { name: 'Places', exact: true });
      await places.getByRole('link', { name: 'Streams' }).click();
      await page.getByRole('link', { name: 'changed', exact: true }).click();
      await page.getByRole('link', { name: 'Settings', exact: true }).last().click();
      await page.getByRole('link', { name: 'Go on with unsaved changes' }).click();
      await page.getByText('You have not saved these changes yet.').waitFor();
      assert.equal(await name.inputValue(), 'changed-by-hand');

      await installation.operator('console', 'end', '--all');
      await page.getByText('What you have not saved is kept in this tab').waitFor();
      const other = await page.context().newPage();
      await followLink(other, await installation.link());
      await heading(other, 'Overview');
      // Headless tabs never lose the focus: the page is told so as a browser does.
      await page.evaluate(`dispatchEvent(new Event('focus'))`);
      await heading(page, 'changed');
      assert.equal(await name.inputValue(), 'changed-by-hand');
      const stored = await page.evaluate(
        'JSON.stringify([{...localStorage}, {...sessionStorage}])',
      );
      assert.doesNotMatch(String(stored), /changed-by-hand/);
      const perSecond = page.getByLabel('Attempts per second');
      assert.equal(await perSecond.inputValue(), 'not yet a number');
      await perSecond.fill('5');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('The settings are saved.').waitFor();
      await heading(page, 'changed-by-hand');
    },
  );

  test('changes of a form are not for who signs in next', { tags: ['long'] }, async (t) => {
    const { id } = await createStream(installation.leat, 'https://hooks.example/', {
      name: 'kept',
    });
    const { page, goto } = await openConsole(t, { installation });
    await goto(`/streams/${id}?tab=settings&edit=yes`);
    await page.getByLabel('Name', { exact: true }).fill('not-for-others');
    await page.getByRole('button', { name: /one-time link/ }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await heading(page, 'Sign in to Leat');
    const { hash } = new URL(await installation.link());
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await acceptLink(page);
    await heading(page, 'kept');
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'kept');
  });

  test(
    'a service that does not respond is said to be out of reach, and another try helps',
    { tags: ['long'] },
    async (t) => {
      const { page } = await openConsole(t, { installation, role: 'signed out' });
      await page.route('**/console/session', (route) => route.abort());
      await page.goto(`${installation.origin}/console/`);
      await heading(page, 'Leat is out of reach');
      await page.unroute('**/console/session');
      await page.getByRole('button', { name: 'Try again' }).click();
      await heading(page, 'Sign in to Leat');
    },
  );

  const places: readonly (readonly [role: 'viewer' | 'support' | 'operator', names: string[]])[] = [
    ['viewer', ['Overview', 'Streams', 'Failures', 'Audit log']],
    ['support', ['Overview', 'Streams', 'Failures', 'Events', 'Audit log']],
    [
      'operator',
      [
        'Overview',
        'Streams',
        'Failures',
        'Events',
        'Publish',
        'Audit log',
        'Access',
        'Users',
        'Nodes',
        'Settings',
      ],
    ],
  ];
  for (const [role, names] of places) {
    test(`${role}: only places of the role are offered`, { tags: ['long'] }, async (t) => {
      const { page } = await openConsole(t, { installation, role });
      const links = page.getByRole('navigation', { name: 'Places', exact: true }).getByRole('link');
      assert.deepEqual(await links.allInnerTexts(), names);
    });
  }

  test(
    'on a narrow screen the places are at the bottom, the rest in a menu',
    { tags: ['long'] },
    async (t) => {
      const { page, findings } = await openConsole(t, { installation, width: 390, height: 844 });
      await page.getByRole('button', { name: 'More' }).click();
      await page.getByRole('navigation').getByRole('link', { name: 'Audit log' }).click();
      assert.match(page.url(), /\/console\/logs$/);
      assert.equal(await page.getByRole('link', { name: 'Users' }).isVisible(), false);
      assert.deepEqual(await findings(), []);
    },
  );

  test(
    'keys alone: the jump box, the menu of the user and the theme',
    { tags: ['long'] },
    async (t) => {
      const { page } = await openConsole(t, { installation });
      await heading(page, 'Overview');
      await page.keyboard.press('/');
      await page.keyboard.type('crm');
      await page.keyboard.press('Enter');
      await heading(page, 'Streams');
      assert.match(page.url(), /streams\?q=crm$/);
      await page.getByRole('button', { name: /one-time link/ }).focus();
      await page.keyboard.press('Enter');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark');
      await page.keyboard.press('Escape');
      await page.reload();
      await heading(page, 'Streams');
      assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark');
    },
  );

  test('the menu of the user leads to the reference of the API', { tags: ['long'] }, async (t) => {
    const { page } = await openConsole(t, { installation });
    await page.getByRole('button', { name: /one-time link/ }).click();
    await page.getByRole('link', { name: 'API reference' }).click();
    await page.waitForURL(`${installation.origin}/docs`);
  });
});
