import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { filledInstallation, openConsole } from '../helpers/console.ts';
import type { Installation } from '../helpers/console-page.ts';

const largestGroup = 60;

describe('failures of the console', () => {
  let installation: Installation;
  before(async () => {
    installation = await filledInstallation();
  });

  test('groups say what their cause means and lead to their failures and events', async (t) => {
    const { page, data, goto, errors } = await openConsole(t, { installation });
    await goto('/failures');
    const row = rowOf(page, 'HTTP 400 of crm-contacts');
    await row.getByText('The receiver rejects the request.').waitFor();
    // A busy machine keeps the status only.
    await row.getByText(/^400(?: - .*email: is required|$)/).waitFor();
    assert.match(await row.innerText(), new RegExp(`\\b${largestGroup}\\b`));
    await row.getByRole('link', { name: 'HTTP 400 of crm-contacts' }).click();
    await page.getByRole('heading', { name: 'HTTP 400 of crm-contacts' }).waitFor();
    assert.equal(
      await page.evaluate('location.search'),
      `?stream=${data.streams['crm-contacts']}&code=http_400`,
    );
    const figures = page.getByRole('region', { name: 'Open failures', exact: true });
    assert.match(await figures.innerText(), new RegExp(`^${largestGroup}\\s+open failures`));
    const sample = page.getByRole('region', { name: 'Newest failure' });
    await sample.getByText(/^400(?: - .*invalid_contact|$)/).waitFor();
    // Of so many some have the text, however busy the machine is.
    await failures(page)
      .getByText('400 - {"error":"invalid_contact","message":"email: is required"}')
      .first()
      .waitFor();
    await page.getByText('50 failures on this page').waitFor();
    await page.getByRole('link', { name: 'Next page' }).click();
    await page.getByText('10 failures on this page').waitFor();
    const event = failures(page).getByRole('link').first();
    assert.match((await event.getAttribute('href')) ?? '', /^\/console\/events\/evt_/);
    assert.deepEqual(errors(), []);
  });

  test(
    'filters are in the address, and what is counted follows them',
    { tags: ['long'] },
    async (t) => {
      const { page, data, goto } = await openConsole(t, { installation });
      await goto('/failures');
      await page.getByRole('combobox', { name: 'Cause' }).selectOption('http_4xx');
      await page.getByRole('heading', { name: 'HTTP 4xx of all streams' }).waitFor();
      await page
        .getByRole('combobox', { name: 'Stream' })
        .selectOption(data.streams['crm-contacts']);
      await page.getByRole('heading', { name: 'HTTP 4xx of crm-contacts' }).waitFor();
      await page.getByRole('combobox', { name: 'Cause' }).selectOption('');
      await page.getByRole('heading', { name: 'Failures of crm-contacts' }).waitFor();
      await page.getByText('Event types and times').click();
      await page.getByLabel('Event types', { exact: true }).fill('contact.deleted');
      await expectRows(failures(page), 17);
      assert.match(await page.evaluate<string>('location.search'), /types=contact\.deleted/);
      await page.getByRole('button', { name: 'Redeliver', exact: true }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Redeliver 17' }).waitFor();
      await dialog.getByText('The same on the command line').click();
      await dialog.getByText('leat redeliver crm-contacts --type contact.deleted').waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      assert.equal(await page.evaluate('document.activeElement.textContent'), 'Redeliver');
      await page.getByLabel('Failed before').fill('2020-01-01T00:00');
      await page.getByText('No open failure matches.').waitFor();
      await page.getByRole('link', { name: 'Show all failures' }).click();
      await page.getByRole('heading', { name: 'Failures', exact: true }).waitFor();
      await goto(`/failures?stream=${data.streams['shipping-notifications']}&status=retrying`);
      await failures(page, 'Deliveries that wait for a retry')
        .getByText('retrying', { exact: true })
        .first()
        .waitFor();
      assert.equal(await page.getByRole('button', { name: /^(Redeliver|Dismiss)/ }).count(), 0);
    },
  );

  test(
    'failures that come back are said plainly; from the overview by keyboard alone',
    { tags: ['long'] },
    async (t) => {
      const { page, goto, clicks } = await openConsole(t, { installation });
      await goto('/');
      await press(page, page.getByRole('link', { name: /^Look into it ?: HTTP 503 of warehouse/ }));
      await page.getByRole('heading', { name: 'HTTP 503 of warehouse-orders' }).waitFor();
      await press(page, page.getByRole('button', { name: 'Redeliver', exact: true }));
      await press(page, page.getByRole('button', { name: 'Redeliver 38' }));
      const progress = page.getByRole('region', { name: 'Redelivery', exact: true });
      await progress.getByText('38 failed again').waitFor();
      await progress.getByText('503 - upstream connect error').waitFor();
      await progress.getByText('done', { exact: true }).waitFor();
      assert.equal(await clicks(), 0);
      await page.getByText('Attempts of this failure').click();
      await page.getByRole('region', { name: 'Attempts of the newest' }).waitFor();
      await progress.getByRole('link', { name: 'Its page' }).click();
      await page.getByRole('heading', { name: 'Redelivery', exact: true }).waitFor();
      await page.getByText('38 failed again', { exact: true }).waitFor();
    },
  );

  test(
    'selected failures of one stream are dismissed, of several streams nothing is done',
    { tags: ['long'] },
    async (t) => {
      const { page, data, goto, errors } = await openConsole(t, { installation });
      await goto('/failures?types=contact.deleted,subscription.renewed');
      const boxes = page.getByRole('checkbox', { name: /^Select evt_/ });
      await page.getByRole('checkbox', { name: 'Select this page' }).check();
      await page.getByText('20 failures selected of 2 streams').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Dismiss selected' }).isDisabled());
      await goto(`/failures?stream=${data.streams['label-printer']}`);
      await boxes.first().check();
      await boxes.nth(1).check();
      await page.getByRole('button', { name: 'Dismiss selected' }).click();
      const dialog = page.getByRole('dialog', {
        name: 'Dismiss 2 selected failures of label-printer',
      });
      await dialog.getByRole('button', { name: 'Dismiss 2' }).click();
      const progress = page.getByRole('region', { name: 'Dismissal', exact: true });
      await progress.getByText('done', { exact: true }).waitFor();
      await expectRows(failures(page), 7);
      await progress.getByRole('button', { name: 'Reopen 2' }).click();
      await page
        .getByRole('dialog', { name: 'Reopen the failures' })
        .getByRole('button', { name: 'Reopen 2' })
        .click();
      await progress.getByText('Reopened', { exact: true }).waitFor();
      await expectRows(failures(page), 9);
      assert.equal(await progress.getByRole('button', { name: /^Reopen/ }).count(), 0);
      await page.getByRole('link', { name: 'Hide this dismissal' }).click();
      await progress.waitFor({ state: 'detached' });
      assert.deepEqual(errors(), []);
    },
  );

  test('past redeliveries: one that runs is cancelled', { tags: ['long'] }, async (t) => {
    const { page, data, goto } = await openConsole(t, { installation });
    await goto('/failures');
    await page.getByRole('link', { name: 'Past redeliveries' }).click();
    await page.getByRole('heading', { name: 'Redeliveries' }).waitFor();
    const { running, finished } = data.redeliveries;
    await page.locator(`a[href$="${finished}"]`).waitFor();
    await page.locator(`a[href$="${running}"]`).click();
    await page.getByRole('progressbar', { name: 'Redelivery' }).waitFor();
    await page.getByRole('button', { name: /^Cancel the remaining \d+$/ }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel the redelivery' });
    await dialog.getByRole('button', { name: /^Cancel the remaining \d+$/ }).click();
    await page.getByText('cancelled', { exact: true }).waitFor();
    await page.getByText('What had not begun stays an open failure.').waitFor();
    await goto(`/dismissals/${data.dismissal}`);
    await page.getByText('Dismissed', { exact: true }).waitFor();
    await goto('/redeliveries/rdl_0000000000000000000000');
    await page.getByText('There is no such thing any more').waitFor();
  });

  test(
    'roles: a viewer sees neither actions nor texts of receivers, support may act',
    { tags: ['long'] },
    async (t) => {
      const { page, data, goto } = await openConsole(t, { installation, role: 'viewer' });
      const group = `/failures?stream=${data.streams['crm-contacts']}&code=http_400`;
      const acting = (tab: Page): Locator =>
        tab.getByRole('button', { name: /^(Redeliver|Dismiss)/ });
      await goto('/failures');
      await rowOf(page, 'HTTP 400 of crm-contacts').waitFor();
      assert.equal(await acting(page).count(), 0);
      assert.doesNotMatch(await page.locator('main').innerText(), /invalid_contact/);
      await goto(group);
      await failures(page).getByText('400', { exact: true }).first().waitFor();
      assert.equal(await acting(page).count(), 0);
      assert.equal(await page.getByRole('checkbox').count(), 0);
      assert.doesNotMatch(await page.locator('main').innerText(), /invalid_contact/);
      const support = await openConsole(t, { installation, role: 'support' });
      await support.goto(group);
      await support.page.getByRole('button', { name: 'Redeliver', exact: true }).click();
      await support.page.getByRole('button', { name: `Redeliver ${largestGroup}` }).waitFor();
    },
  );

  test(
    'every view is accessible and within its width, on phones and screens, light and dark',
    { tags: ['long'] },
    async (t) => {
      const { page, data, goto, findings } = await openConsole(t, { installation });
      const { streams, redeliveries, dismissal } = data;
      const check = async (what: string): Promise<void> => {
        for (const width of [390, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          const wide = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)';
          assert.equal(await page.evaluate(wide), 0, `${what} at ${width}`);
          for (const colorScheme of ['light', 'dark'] as const) {
            await page.emulateMedia({ colorScheme });
            assert.deepEqual(await findings(), [], `${what} at ${width}, ${colorScheme}`);
          }
        }
      };
      for (const path of [
        // Few rows, as the check of each takes its time.
        `/failures?stream=${streams['crm-contacts']}&types=contact.deleted&redelivery=${redeliveries.finished}`,
        '/redeliveries',
        `/redeliveries/${redeliveries.running}`,
        `/dismissals/${dismissal}`,
        '/failures',
      ]) {
        await goto(path);
        await page.locator('main :is(tbody, [role=progressbar]):visible').first().waitFor();
        await check(path);
      }
      await page.getByRole('button', { name: 'Redeliver all' }).click();
      await page.getByRole('button', { name: /^Redeliver \d/ }).waitFor();
      await check('the dialog');
    },
  );
});

test('without failures the pages say so', { tags: ['long'] }, async (t) => {
  const { page, goto, findings } = await openConsole(t, { content: 'empty' });
  await goto('/failures');
  await page.getByText('Nothing has failed that is not repaired.').waitFor();
  assert.equal(await page.getByRole('button', { name: /^(Redeliver|Dismiss)/ }).count(), 0);
  assert.deepEqual(await findings(), []);
  await goto('/redeliveries');
  await page.getByText('No failures were redelivered together').waitFor();
});

/** The row of a group. */
function rowOf(page: Page, name: string): Locator {
  return page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
}

/** The table of single failures. */
function failures(page: Page, name = 'Failures'): Locator {
  return page.getByRole('table', { name, exact: true });
}

/** Waits until a table has so many rows, without its head. */
async function expectRows(table: Locator, count: number): Promise<void> {
  await table
    .getByRole('row')
    .nth(count + 1)
    .waitFor({ state: 'detached' });
  await table.getByRole('row').nth(count).waitFor();
}

/** Moves the focus with the Tab key to a control, and presses Enter. */
async function press(page: Page, control: Locator): Promise<void> {
  await control.waitFor();
  for (let steps = 0; steps < 150; steps += 1) {
    await page.keyboard.press('Tab');
    if (await control.evaluate((element) => element === element.ownerDocument.activeElement)) {
      await page.keyboard.press('Enter');
      return;
    }
  }
  assert.fail(`the Tab key does not reach ${String(control)}`);
}
