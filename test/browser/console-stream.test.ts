import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { expectBody } from '../helpers/api-client.ts';
import type { ConsoleRole, Installation, OpenConsole } from '../helpers/console-page.ts';
import { filledInstallation, openConsole } from '../helpers/console.ts';
import type { StreamShown } from '../../src/schemas/streams.ts';

/** The page of one stream, in a browser, against a service with much to see. */
describe('the page of a stream', () => {
  let installation: Installation;
  const ends: (() => Promise<void>)[] = [];
  const scope = { after: (end: () => Promise<void>) => void ends.unshift(end) };
  before(async () => {
    installation = await filledInstallation();
  });
  after(async () => {
    for (const end of ends) await end();
  });
  // A tab for each role: signing in takes as long as a test.
  const tabs = new Map<ConsoleRole, Promise<OpenConsole>>();
  const open = (role: ConsoleRole = 'operator'): Promise<OpenConsole> => {
    const opened = tabs.get(role) ?? openConsole(scope, { installation, role });
    tabs.set(role, opened);
    return opened;
  };

  const stream = (key: Parameters<typeof idOf>[1]): string => idOf(installation, key);
  const read = (key: Parameters<typeof idOf>[1]): Promise<StreamShown> =>
    expectBody<StreamShown>(
      200,
      installation.leat.send('GET', `/api/v2/event-streams/${stream(key)}`),
    );

  test('the overview leads to the failures of a cause and to the event of an attempt', async (t) => {
    const { page, goto, errors } = await openConsole(t, { installation });
    await goto(`/streams/${stream('crm-contacts')}`);
    await page.getByRole('heading', { level: 1, name: 'crm-contacts' }).waitFor();
    const causes = page.getByRole('region', { name: 'Failures by cause' });
    await causes.getByText('The receiver rejects the request.').waitFor();
    assert.equal(
      await causes.getByRole('link', { name: /^Look into it.*HTTP 400$/ }).getAttribute('href'),
      `/console/failures?stream=${stream('crm-contacts')}&code=http_400`,
    );
    const attempts = page.getByRole('region', { name: 'Newest attempts' });
    const event = attempts.getByRole('link', { name: /^evt_/ }).first();
    assert.match((await event.getAttribute('href')) ?? '', /^\/console\/events\/evt_\w{22}$/);
    await page.locator('main').getByRole('link', { name: 'Settings', exact: true }).click();
    await page.getByText('hooks.acme.example').waitFor();
    assert.match(page.url(), /\?tab=settings$/);
    await page.goBack();
    await attempts.waitFor();
    assert.deepEqual(errors(), []);
  });

  test('deliveries that wait for a retry are sent now', { tags: ['long'] }, async () => {
    const { page, goto } = await open('support');
    await goto(`/streams/${stream('shipping-notifications')}`);
    await page.getByRole('button', { name: 'Retry now' }).click();
    await page.getByText(/leat streams retry-now shipping-notifications/).waitFor({
      state: 'attached',
    });
    await page.getByRole('button', { name: /^Retry \d+$/ }).click();
    await page.getByText(/due now\./).waitFor();
  });

  test(
    'a secret is shown after a second step, and is in the history',
    { tags: ['long'] },
    async () => {
      const { page, goto } = await open();
      await goto(`/streams/${stream('warehouse-orders')}?tab=secrets`);
      const secret = page.getByText(/^whsec_/);
      await page.getByRole('button', { name: 'Show secret' }).click();
      await page.getByText(/leaves a line in the audit log/).waitFor();
      assert.equal(await secret.count(), 0);
      await page.getByRole('dialog').getByRole('button', { name: 'Show secret' }).click();
      await secret.waitFor();
      const { leat } = installation;
      assert.equal(leat.output().includes(await secret.innerText()), false, 'in no log');
      await tab(page, 'History');
      await page
        .getByRole('link', { name: 'Read the signing secret of an event stream' })
        .waitFor();
      await tab(page, 'Secrets');
      await page.getByRole('button', { name: 'Show secret' }).waitFor();
      assert.equal(await secret.count(), 0, 'hidden again when left');
    },
  );

  test(
    'a secret is rotated again only when the former one may end',
    { tags: ['long'] },
    async () => {
      const { page, goto } = await open();
      await goto(`/streams/${stream('audit-archive')}?tab=secrets`);
      const rotate = page.getByRole('button', { name: 'Rotate secret' });
      const inDialog = page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' });
      await rotate.click();
      await page.getByLabel('The present secret stays valid for').selectOption('1 hour');
      await inDialog.click();
      await page.getByText(/^whsec_/).waitFor();
      await page.getByRole('cell', { name: 'Former' }).waitFor();
      await rotate.click();
      assert.ok(await inDialog.isDisabled());
      await page.getByLabel('End the former secret now').check();
      await page.getByText(/--rotate --overlap 86400 --force/).waitFor({ state: 'attached' });
      await inDialog.click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    },
  );

  test(
    'settings are changed by keyboard alone, and only what differs is sent',
    { tags: ['long'] },
    async () => {
      const { page, goto } = await open();
      await goto(`/streams/${stream('billing')}?tab=settings`);
      const former = await read('billing');
      await page.getByRole('link', { name: 'Edit settings' }).press('Enter');
      const perSecond = page.getByLabel('Attempts per second');
      await perSecond.focus();
      await page.keyboard.type('many');
      await page.keyboard.press('Enter');
      await page.getByText('A number from 0.1 to 10000').waitFor();
      const focused = page.locator(':focus');
      assert.equal(await focused.getAttribute('id'), await perSecond.getAttribute('id'));
      await page.keyboard.press('ControlOrMeta+A');
      await page.keyboard.type('25');
      const sent = page.waitForRequest((request) => request.method() === 'PATCH');
      await page.keyboard.press('Enter');
      const body = (await sent).postDataJSON() as Record<string, unknown>;
      assert.deepEqual(Object.keys(body), ['delivery']);
      await page.getByText('The settings are saved.').waitFor();
      await page.getByRole('link', { name: 'Edit settings' }).waitFor();
      assert.equal(await page.locator(':focus').textContent(), 'Edit settings');
      const now = await read('billing');
      assert.deepEqual(now.delivery, { ...former.delivery, per_second: 25 });
      assert.deepEqual(now.destination, former.destination);
    },
  );

  test('Add leads to its field, with and without an event type in it', async (t) => {
    const { page, goto } = await openConsole(t, { installation });
    await goto(`/streams/${stream('billing')}?tab=settings&edit=yes`);
    const field = page.getByLabel('Event type to add');
    const add = page.getByRole('button', { name: 'Add the event type' });
    await page.getByLabel('Name').and(page.locator(':focus')).waitFor();
    await add.click();
    await field.and(page.locator(':focus')).waitFor();
    await field.fill('order.added');
    await add.click();
    await page.getByRole('button', { name: 'Remove order.added' }).waitFor();
    await field.and(page.locator(':focus')).waitFor();
    assert.equal(await field.inputValue(), '');
  });

  test('what the server refuses is shown at its field', { tags: ['long'] }, async () => {
    const { page, goto } = await open();
    await goto(`/streams/${stream('billing')}?tab=settings&edit=yes`);
    await page.getByLabel('Attempts at once').fill('1000000');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText(/greater than maximum \d+ \(LEAT_STREAM_CONCURRENCY\)/).waitFor();
    const atOnce = page.getByLabel('Attempts at once');
    assert.equal(await atOnce.getAttribute('aria-invalid'), 'true');
    await page.getByLabel('URL').fill('https://elsewhere.example/');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText(/Type it again/).waitFor();
  });

  test(
    'rows of a filter and its JSON say the same; a dry run counts',
    { tags: ['long'] },
    async () => {
      const { page, goto } = await open();
      await goto(`/streams/${stream('pro-plan-onboarding')}?tab=settings&edit=yes`);
      const json = page.getByLabel('The same as JSON');
      assert.equal(
        await page.getByLabel('Value of condition 2').inputValue(),
        'pro, team, enterprise',
      );
      await page.getByLabel('Value of condition 2').fill('pro');
      assert.match(await json.inputValue(), /"\$in": \[\s+"pro"\s+\]/);
      await page.getByRole('button', { name: 'Remove condition 1' }).click();
      assert.equal(await page.locator(':focus').textContent(), 'Add a condition');
      await json.fill('{"data.object.plan": {"$exists": true}}');
      await page.getByLabel('Comparison of condition 1').waitFor();
      assert.equal(await page.getByLabel('Comparison of condition 1').inputValue(), 'exists');
      await page.getByRole('button', { name: 'Try the filter' }).click();
      await page.getByText(/of the newest .* match\.$/).waitFor();
      await json.fill('{"$or": [{"a": 1}]}');
      await page.getByText(/which rows cannot show/).waitFor();
      await json.fill('{"a": {"$regex": "x"}}');
      await page.getByText(/Unknown operator.*at a\.\$regex/).waitFor();
    },
  );

  test(
    'the schedule of the service is drawn for those who may see its settings',
    { tags: ['long'] },
    async () => {
      const settings = `/streams/${stream('billing')}?tab=settings`;
      const operator = await open();
      await operator.goto(settings);
      await operator.page.getByText('Of the service: 4 attempts within 700 ms').waitFor();
      await operator.page.getByRole('img', { name: /^Time line .* 4 attempts/ }).waitFor();
      const support = await open('support');
      await support.goto(settings);
      await support.page.getByText('As LEAT_RETRY or LEAT_RETRY_DELAYS_MS says').waitFor();
      assert.equal(await support.page.getByRole('img', { name: /^Time line/ }).count(), 0);
    },
  );

  test(
    'a stream of the receiver inside Leat shows what it received',
    { tags: ['long'] },
    async () => {
      const { page, goto } = await open();
      await goto(`/streams/${stream('inspector-flaky')}`);
      await tab(page, 'Received');
      await page.getByText('signature valid').first().waitFor();
    },
  );

  test('a past range and a skipped range are sent again', { tags: ['long'] }, async () => {
    const { page, goto } = await open('support');
    await goto(`/streams/${stream('returns-desk')}?tab=replays`);
    await page.getByRole('button', { name: /^Send these 90 events/ }).click();
    await page.getByRole('button', { name: 'Send 90' }).click();
    await page.getByText('The skipped events are being sent.').waitFor();
    const done = page.getByRole('region', { name: 'Replays' }).getByText('done');
    await done.first().waitFor();
    await page.getByRole('button', { name: 'Start a replay' }).click();
    await page.getByLabel('Accepted from').fill('2020-01-01T00:00');
    await page.getByText(/of these types in this range/).waitFor();
    await page.getByRole('button', { name: 'Start the replay' }).click();
    await page.getByText('The replay is running.').waitFor();
  });

  test(
    'a replay sends no event types but those of the stream, and says so',
    { tags: ['long'] },
    async (t) => {
      const { page, goto } = await open();
      const { subscriptions } = await read('warehouse-orders');
      const path = `/api/v2/event-streams/${stream('warehouse-orders')}`;
      const subscribe = (wanted: StreamShown['subscriptions']): Promise<unknown> =>
        expectBody(200, installation.leat.send('PATCH', path, { subscriptions: wanted }));
      await subscribe([]);
      t.after(() => subscribe(subscriptions));
      await goto(`/streams/${stream('warehouse-orders')}?tab=replays`);
      await page.getByRole('button', { name: 'Start a replay' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('The stream has no event types').waitFor();
      assert.equal(await dialog.locator('.skeleton').count(), 0);
      const types = dialog.getByLabel(/^Event types/);
      const submit = dialog.getByRole('button', { name: 'Start the replay' });
      await types.fill('order.created');
      assert.ok(await submit.isDisabled());
      await subscribe([{ event_type: 'order.created' }]);
      await dialog.getByText(/of these types in this range/).waitFor();
      await types.fill('order.created, user.created');
      await dialog.getByText('not sent: user.created.').waitFor();
      assert.ok(await submit.isEnabled());
      await types.fill('user.created');
      await dialog.locator('[type=submit]:disabled').waitFor();
      assert.equal(await dialog.getByText(/of these types in this range/).count(), 0);
    },
  );

  test('a replay is cancelled', { tags: ['long'] }, async () => {
    const { page, goto, data } = await open();
    await goto(`/streams/${stream('analytics-replica')}?tab=replays`);
    await page.getByRole('button', { name: `Cancel the replay ${data.replays.running}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the replay' }).click();
    await page.getByText('cancelled').first().waitFor();
  });

  test('a stream is deleted when its name was typed', { tags: ['long'] }, async () => {
    const { page, goto } = await open();
    await goto(`/streams/${stream('label-printer')}?tab=settings`);
    await page.getByRole('button', { name: 'Delete this stream' }).click();
    const confirm = page.getByRole('button', { name: 'Delete the stream' });
    assert.ok(await confirm.isDisabled());
    await page.getByRole('dialog').getByRole('textbox').fill('label-printer');
    await confirm.click();
    await page.getByText('label-printer is deleted.').waitFor();
    assert.match(page.url(), /\/console\/streams$/);
    await goto(`/streams/${stream('label-printer')}`);
    await page.getByText('There is no such thing any more').first().waitFor();
  });

  test('a viewer sees no action, no secret and no response body', { tags: ['long'] }, async () => {
    const { page, goto } = await open('viewer');
    await goto(`/streams/${stream('crm-contacts')}`);
    await page.getByText('The receiver rejects the request.').waitFor();
    assert.equal(await page.getByText('invalid_contact').count(), 0);
    for (const name of ['Secrets', 'Replays', 'Settings']) {
      await tab(page, name);
      await page.locator('main .panel').first().waitFor();
      const actions = page.locator('main').getByRole('button', {
        name: /Show secret|Rotate|Start a replay|Delete|Pause|Test|Retry/,
      });
      assert.equal(await actions.count(), 0, name);
    }
    await goto(`/streams/${stream('crm-contacts')}?tab=settings&edit=yes`);
    await page.getByText('hooks.acme.example').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Save' }).count(), 0);
  });

  for (const view of [
    { theme: 'light', width: 1440 },
    { theme: 'dark', width: 390 },
  ] as const) {
    test(
      `no part has a finding of axe, ${view.theme} at ${view.width}`,
      { tags: ['long'] },
      async (t) => {
        const { page, goto, findings, errors } = await openConsole(t, { installation, ...view });
        for (const [key, query, text] of [
          ['crm-contacts', '', 'HTTP 400'],
          ['long-name', '?tab=attempts', 'Those of the newest events first'],
          ['pro-plan-onboarding', '?tab=settings', 'is one of'],
          ['subscription-renewals', '?tab=settings&edit=yes', 'Add a condition'],
          ['billing', '?tab=secrets', 'Signs until'],
          ['billing', '?tab=replays', 'Skipped ranges'],
          ['billing', '?tab=history', 'Create an event stream'],
        ] as const) {
          await goto(`/streams/${stream(key)}${query}`);
          await page.getByText(text).first().waitFor({ state: 'attached' });
          assert.deepEqual(await findings(), [], query);
          const wide = 'document.documentElement.scrollWidth - innerWidth';
          assert.ok((await page.evaluate<number>(wide)) <= 0, `${query} scrolls sideways`);
        }
        assert.deepEqual(errors(), []);
      },
    );
  }
});

function idOf(
  { data }: Installation,
  key: keyof NonNullable<Installation['data']>['streams'],
): string {
  assert.ok(data);
  return data.streams[key];
}

async function tab(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Parts of the stream' }).getByText(name).click();
}
