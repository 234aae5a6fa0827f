import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { checkWidths } from '../helpers/console-checks.ts';
import type { Installation } from '../helpers/console-page.ts';
import { filledInstallation, openConsole } from '../helpers/console.ts';

let installation: Installation;
before(async () => {
  installation = await filledInstallation();
});

describe('access', () => {
  test('a client is reached by clicks: its grants, and the commands that change it', async (t) => {
    const console = await openConsole(t, { installation });
    const { page, data } = console;
    await console.goto('/access');
    await page.getByRole('link', { name: 'Warehouse worker' }).click();
    await page.getByRole('heading', { name: 'Warehouse worker', level: 1 }).waitFor();
    const id = data.clients['Warehouse worker'] ?? '';
    await page.getByText(`leat clients rotate-secret ${id}`).waitFor();
    await page.getByText('read:stock').waitFor();
    await page.getByRole('link', { name: 'https://orders.acme.example/' }).click();
    await page.getByRole('heading', { name: 'Orders API', level: 1 }).waitFor();
    await page.getByText('May refund orders').waitFor();
    await page.getByRole('link', { name: 'Grants for it' }).click();
    await page.getByRole('link', { name: 'Warehouse worker' }).waitFor();
    const grants = page.getByRole('region', { name: 'Grants' });
    assert.equal(await grants.getByRole('row').count(), 2);
    assert.deepEqual(console.errors(), []);
  });

  test('roles have counts, and their members lead to users', { tags: ['long'] }, async (t) => {
    const console = await openConsole(t, { installation });
    const { page } = console;
    await console.goto('/access');
    await page.getByRole('link', { name: 'Roles' }).click();
    const row = page.getByRole('row', { name: /Shift lead/ });
    await row.getByRole('cell', { name: '3', exact: true }).waitFor();
    await page.getByRole('searchbox', { name: 'Search', exact: true }).fill('supp');
    await page.waitForURL('**/console/access?tab=roles&name=supp');
    await row.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Support', exact: true }).click();
    await page.getByText('No client has this role.').waitFor();
    await page
      .getByRole('link', { name: /^leat\|/ })
      .first()
      .click();
    await page
      .getByRole('listitem')
      .filter({ hasText: 'Support' })
      .getByText('held', { exact: true })
      .waitFor();
    assert.match(page.url(), /\/console\/users\/leat%7C\w{24}$/);
  });

  test(
    'an id in the box at the top opens what it is of, by keyboard alone',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page, data } = console;
      await console.goto('/access');
      for (const [id, heading] of [
        [data.roles['Support'], 'Support'],
        [data.apis['orders'], 'Orders API'],
        [data.clients['Checkout'], 'Checkout'],
        [data.users['ada@example.com'], 'ada@example.com'],
      ] as const) {
        await page.keyboard.press('/');
        await page.keyboard.type(id ?? '');
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { name: heading, level: 1, exact: true }).waitFor();
      }
      await console.goto('/access?q=cgr_b8dLcukC7edhDQ7cn5d4gE');
      await page.getByText('There is nothing with the id').waitFor();
    },
  );

  test('the browser never receives a secret of a client', { tags: ['long'] }, async (t) => {
    const console = await openConsole(t, { installation });
    const { page, data } = console;
    const bodies: Promise<string>[] = [];
    page.on('response', (response) => {
      if (response.url().includes('/api/v2/clients')) bodies.push(response.text());
    });
    await console.goto('/access');
    await console.goto(`/access?tab=clients&q=${data.clients['Checkout'] ?? ''}`);
    await page.getByText('leat clients delete').waitFor();
    const texts = await Promise.all(bodies);
    assert.ok(texts.length >= 2);
    assert.ok(texts.every((text) => !text.includes('secret')));
  });

  test(
    'other roles are told who may read it, and nothing is requested',
    { tags: ['long'] },
    async (t) => {
      for (const role of ['support', 'viewer'] as const) {
        const console = await openConsole(t, { installation, role });
        for (const path of [
          '/access',
          '/access?q=rol_0123456789abcdef',
          '/users',
          '/users/leat%7C1',
        ]) {
          await console.goto(path);
          await console.page.getByText('The role operator may.').waitFor();
        }
        assert.deepEqual(console.errors(), []);
      }
    },
  );
});

describe('users', () => {
  test(
    'a user is found by a whole e-mail or id, and leads to events about the user',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page, data } = console;
      const id = data.users['zoe.mueller@example.org'] ?? '';
      await console.goto('/users');
      const find = page.getByRole('searchbox', { name: 'Find' });
      await find.fill('zoe');
      await page.getByText('Leat does not search in names').waitFor();
      await find.fill('ZOE.mueller@example.org');
      await page.getByRole('link', { name: 'zoe.mueller@example.org' }).waitFor();
      await find.fill('nobody@example.org');
      await page.getByText('No user has exactly this').waitFor();
      await find.fill(id);
      await page.getByRole('link', { name: 'zoe.mueller@example.org' }).click();
      await page.getByRole('heading', { name: 'zoe.mueller@example.org', level: 1 }).waitFor();
      await page.getByText(`leat users delete '${id}'`).waitFor();
      await page.getByRole('link', { name: 'Events about this user' }).click();
      await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor();
      const { searchParams } = new URL(page.url());
      assert.equal(searchParams.get('filter'), JSON.stringify({ 'data.object.user_id': id }));
      await page.getByText('user.created').first().waitFor();
    },
  );

  test('an id that looks percent-encoded is taken as it is', { tags: ['long'] }, async (t) => {
    const console = await openConsole(t, { installation });
    const user = {
      email: 'percent@example.org',
      user_id: 'a%41/?#b',
      connection: 'Username-Password-Authentication',
      password: 'correct-horse-battery',
    };
    const { status } = await installation.leat.send('POST', '/api/v2/users', user);
    assert.equal(status, 201);
    await console.goto('/users?q=percent@example.org');
    await console.page.getByRole('link', { name: user.email }).click();
    await console.page.getByRole('heading', { name: user.email, level: 1 }).waitFor();
    await console.page.reload();
    await console.page.getByRole('heading', { name: user.email, level: 1 }).waitFor();
    assert.deepEqual(console.errors(), []);
    const deleted = `/api/v2/users/${encodeURIComponent(`leat|${user.user_id}`)}`;
    assert.equal((await installation.leat.send('DELETE', deleted)).status, 204);
  });

  test(
    'the order is in the address, and a deleted user is explained',
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation });
      const { page, data } = console;
      await console.goto('/users');
      await page.getByRole('combobox', { name: 'Order' }).selectOption('E-mail');
      await page.waitForURL('**/console/users?sort=email%3A1');
      await page.getByText('6 users').waitFor();
      const leaver = data.users['leaver@example.com'] ?? '';
      await console.goto(`/users/${encodeURIComponent(leaver)}`);
      await page.getByRole('link', { name: 'What the audit log has about it' }).click();
      await page.getByRole('link', { name: 'Delete a user' }).waitFor();
    },
  );
});

for (const theme of ['light', 'dark'] as const) {
  test(
    `all views of access and users are accessible, wide and narrow: ${theme}`,
    { tags: ['long'] },
    async (t) => {
      const console = await openConsole(t, { installation, theme });
      const { clients, roles, apis, users } = console.data;
      for (const path of [
        '/access',
        '/access?tab=apis',
        '/access?tab=grants',
        '/access?tab=roles',
        `/access?tab=clients&q=${clients['Checkout'] ?? ''}`,
        `/access?q=${apis['orders'] ?? ''}`,
        `/access?q=${roles['Support'] ?? ''}`,
        '/users',
        `/users/${encodeURIComponent(users['ada@example.com'] ?? '')}`,
      ]) {
        await console.goto(path);
        await checkWidths(console, path);
      }
    },
  );
}
