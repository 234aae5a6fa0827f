import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Locator, Page } from 'playwright-core';
import { createStream, publish, publishAll } from '../helpers/api-client.ts';
import type { Installation, OpenConsole } from '../helpers/console-page.ts';
import { tabTo } from '../helpers/console-checks.ts';
import { openConsole, startInstallation } from '../helpers/console.ts';
import { type Endpoint, startEndpoint, text } from '../helpers/endpoint.ts';
import { freePort } from '../helpers/ports.ts';
import { startTcpProxy, type TcpProxy } from '../helpers/tcp-proxy.ts';

const ends: (() => Promise<unknown>)[] = [];
const scope = { after: (end: () => Promise<unknown>) => void ends.unshift(end) };

let installation: Installation;
let endpoint: Endpoint;
let proxy: TcpProxy;
let operator: OpenConsole;
let page: Page;

before(async () => {
  endpoint = await startEndpoint();
  ends.unshift(endpoint.close);
  const port = await freePort();
  // The browser reaches the service through it.
  proxy = await startTcpProxy(port);
  ends.unshift(proxy.close);
  const domain = `localhost:${proxy.port}`;
  const started = await startInstallation(scope, {
    content: 'empty',
    settings: {
      LEAT_PORT: String(port),
      LEAT_TENANT_DOMAIN: domain,
      LEAT_RETRY_DELAYS_MS: '50',
    },
  });
  installation = { ...started, origin: `http://${domain}` };
  // One page of the list is full from the start.
  await publishAll(
    installation.leat,
    Array.from({ length: 50 }, () => ({ type: 'page.filled', data: {} })),
  );
  operator = await openConsole(scope, { installation });
  ({ page } = operator);
});
after(async () => {
  for (const end of ends) await end();
});

/** The rows of the list that is shown. */
function rows(name = 'Events'): Locator {
  return page
    .getByRole('table', { name })
    .getByRole('row')
    .filter({ has: page.getByRole('cell') });
}

async function expectRows(expected: number, name?: string): Promise<void> {
  await rows(name)
    .nth(expected - 1)
    .waitFor();
  await rows(name).nth(expected).waitFor({ state: 'detached' });
}

describe('the search of the log', () => {
  // Just before the search: one read goes no further back than what other tests publish.
  before(async () => {
    await publishAll(installation.leat, [
      ...Array.from({ length: 60 }, (_, number) => ({
        type: 'order.paid',
        data: { object: { number, plan: number % 2 === 0 ? 'pro' : 'free', tags: ['web'] } },
      })),
      { type: 'order.cancelled', data: { object: { number: 1 } } },
      { type: 'user.invited', id: 'invite-42/é %', data: { object: { email: 'ada@example.com' } } },
    ]);
  });

  test('types: chosen by typing, removed by their button, and in the address', async () => {
    await operator.goto('/events');
    await expectRows(50);
    await page.getByRole('combobox', { name: 'Event types' }).fill('order.cancelled');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await expectRows(1);
    await page.getByRole('combobox', { name: 'Event types' }).fill('user.invited');
    await page.getByRole('combobox', { name: 'Event types' }).press('Enter');
    await expectRows(2);
    assert.match(page.url(), /types=order\.cancelled%2Cuser\.invited/);
    await page.getByRole('button', { name: /^order\.cancelled.*remove$/ }).click();
    await expectRows(1);
    assert.match(await rows().innerText(), /user\.invited[^]*ada@example\.com/);
  });

  test('a press that has nothing to do moves the focus to its field', async () => {
    const press = (name: string): Promise<void> =>
      page.getByRole('button', { name, exact: true }).click();
    const expectFocus = (label: string): Promise<void> =>
      page.getByLabel(label).and(page.locator(':focus')).waitFor();
    await operator.goto('/events?since=between&page=kept');
    const address = page.url();
    const steps = await page.evaluate('history.length');
    await press('Open');
    await expectFocus('Id or idempotency key');
    await press('Search this time');
    await expectFocus('From');
    const types = page.getByRole('combobox', { name: 'Event types' });
    for (const typed of ['', ' ,']) {
      await types.fill(typed);
      await press('Add');
      await expectFocus('Event types');
    }
    await types.fill('Order');
    await press('Payload');
    await press('Add');
    await expectFocus('Event types');
    assert.equal(
      await page.evaluate('document.activeElement.validationMessage'),
      'Two or more segments of a-z, 0-9 and _, joined by dots',
    );
    await press('Search payloads');
    await expectFocus('Field 1');
    await page.getByLabel('Field 1').fill('data.object.plan');
    await page.getByLabel('Value 1').fill('pro');
    await press('Add a condition');
    await page.getByLabel('Value 2').fill('free');
    assert.deepEqual([page.url(), await page.evaluate('history.length')], [address, steps]);
    await press('Search payloads');
    await page.waitForURL(/filter=/);
    await press('Search payloads');
    await expectFocus('Field 1');
    await press('JSON');
    await press('Search payloads');
    await expectFocus('Condition as JSON');
    await operator.goto('/events?live=1');
    await press('Payload');
    await press('Follow what matches');
    await expectFocus('Field 1');
  });

  test(
    'types: suggests those of the log, and refuses what is none',
    { tags: ['long'] },
    async () => {
      await operator.goto('/events');
      const field = page.getByRole('combobox', { name: 'Event types' });
      await page.locator('datalist option[value="order.paid"]').waitFor({ state: 'attached' });
      await field.fill('Order');
      assert.equal(await field.getAttribute('aria-invalid'), 'true');
    },
  );

  test('time: windows, and an absolute one', { tags: ['long'] }, async () => {
    await operator.goto('/events');
    await page.getByRole('link', { name: 'Last hour' }).click();
    await expectRows(50);
    assert.match(page.url(), /since=hour/);
    await page.getByRole('link', { name: 'Between …' }).click();
    await page.getByLabel('Before').fill('2020-01-01T00:00:00');
    await page.getByRole('button', { name: 'Search this time' }).click();
    await page.getByText('No event in the log matches.').waitFor();
    await page.getByLabel('From').fill('2020-01-01T00:00:00');
    await page.getByLabel('Before').fill('2100-01-01T00:00:00');
    await page.getByRole('button', { name: 'Search this time' }).click();
    await expectRows(50);
    await page.getByRole('link', { name: 'Any time' }).click();
    await expectRows(50);
    assert.doesNotMatch(page.url(), /date_/);
  });

  test(
    'payload: rows make the condition, which is an address that can be sent',
    { tags: ['long'] },
    async () => {
      await operator.goto('/events');
      await page.getByRole('button', { name: 'Payload', exact: true }).click();
      await page.getByLabel('Field 1').fill('data.object.number');
      await page.getByLabel('Comparison 1').selectOption('is at least');
      await page.getByLabel('Value 1').fill('50');
      await page.getByRole('button', { name: 'Add a condition' }).click();
      await page.getByLabel('Field 2').fill('data.object.plan');
      await page.getByLabel('Value 2').fill('pro');
      await page.getByRole('button', { name: 'Search payloads' }).click();
      await expectRows(5);
      const { searchParams } = new URL(page.url());
      assert.deepEqual(JSON.parse(searchParams.get('filter') ?? ''), {
        'data.object.number': { $gte: 50 },
        'data.object.plan': 'pro',
      });
      await page.reload();
      await expectRows(5);
      assert.equal(await page.getByLabel('Value 2').inputValue(), 'pro');
      await page.getByRole('button', { name: 'Remove the condition' }).click();
      await expectRows(50);
    },
  );

  test(
    'payload: JSON for what rows cannot say, and words for what is wrong',
    { tags: ['long'] },
    async () => {
      await operator.goto('/events');
      await page.getByRole('button', { name: 'Payload', exact: true }).click();
      await page.getByRole('button', { name: 'JSON', exact: true }).click();
      const field = page.getByLabel('Condition as JSON');
      await field.fill('{"$or": [');
      await page.getByText('This is not JSON').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Search payloads' }).isDisabled());
      await field.fill(
        '{"$or": [{"data.object.number": 59}, {"data.object.email": {"$exists": true}}]}',
      );
      await page.getByRole('button', { name: 'Search payloads' }).click();
      await expectRows(2);
      assert.ok(await page.getByRole('button', { name: 'Rows', exact: true }).isDisabled());
      await page.getByLabel('Condition as JSON').fill('{"data.object.n": {"$regex": "x"}}');
      await page.getByRole('button', { name: 'Search payloads' }).click();
      await page.getByText('filter.data.object.n.$regex').waitFor();
      await page.getByText('Unknown operator').waitFor();
    },
  );

  test('pages: the next one, and back to the first', { tags: ['long'] }, async () => {
    await operator.goto('/events?types=order.paid');
    await expectRows(50);
    await page.getByRole('link', { name: 'Next page' }).click();
    await expectRows(10);
    await page.getByRole('link', { name: 'First page' }).click();
    await expectRows(50);
  });

  test('an id and an idempotency key lead to the event', { tags: ['long'] }, async () => {
    await operator.goto('/events');
    await page.getByLabel('Id or idempotency key').fill('invite-42/é %');
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.getByRole('heading', { name: 'user.invited' }).waitFor();
    const id = await page.locator('dd code').first().getAttribute('title');
    await page.getByText('invite-42/é %').first().waitFor();
    await operator.goto('/events');
    await page.getByLabel('Id or idempotency key').fill(String(id));
    await page.getByLabel('Id or idempotency key').press('Enter');
    await page.getByRole('heading', { name: 'user.invited' }).waitFor();
  });

  test(
    'the keyboard alone searches, opens an event and copies it',
    { tags: ['long'] },
    async () => {
      await operator.goto('/events');
      await tabTo(page.getByRole('combobox', { name: 'Event types' }));
      await page.keyboard.type('order.cancelled');
      await page.keyboard.press('Enter');
      await expectRows(1);
      await tabTo(rows().getByRole('link'));
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'order.cancelled' }).waitFor();
      await tabTo(page.getByRole('button', { name: 'Copy as JSON' }));
      await page.keyboard.press('Enter');
      await page
        .getByRole('button', { name: 'Copied as JSON' })
        .or(page.getByText('does not let the page copy'))
        .waitFor();
    },
  );

  test(
    'nothing breaks the policy of the page, and axe finds nothing',
    { tags: ['long'] },
    async () => {
      // Every part of the search is open.
      const filter = '{"data.object.plan":"pro"}';
      await operator.goto(`/events?types=order.paid&since=between&filter=${filter}`);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const width of [390, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          assert.deepEqual(await operator.findings(), [], `${colorScheme} ${width}`);
          const isWider = 'document.documentElement.scrollWidth > innerWidth';
          assert.equal(await page.evaluate(isWider), false, `${width}`);
        }
      }
      await page.emulateMedia({ colorScheme: 'light' });
    },
  );
});

describe('new events', () => {
  test(
    'arrive while the list is open, wait while it is paused, and keep the filter',
    { tags: ['long'] },
    async () => {
      const { leat } = installation;
      await operator.goto('/events?types=tail.one,tail.two');
      await page.getByRole('link', { name: 'Follow new events' }).click();
      await page.getByText('live', { exact: true }).waitFor();
      await publish(leat, 'tail.one', { number: 1 });
      await publish(leat, 'tail.other', { number: 2 });
      await publish(leat, 'tail.two', { number: 3 });
      await expectRows(2, 'New events');
      assert.match(await rows('New events').first().innerText(), /tail\.two[^]*"number":3/);

      await page.getByRole('button', { name: 'Pause', exact: true }).click();
      await publishAll(
        leat,
        Array.from({ length: 12 }, () => ({ type: 'tail.one', data: {} })),
      );
      await page.getByRole('button', { name: '12 new' }).waitFor();
      assert.equal(await rows('New events').count(), 2);
      await page.getByRole('button', { name: '12 new' }).click();
      await expectRows(14, 'New events');
      await publish(leat, 'tail.one');
      await page.getByRole('button', { name: '1 new' }).waitFor();
      await page.getByRole('button', { name: 'Continue', exact: true }).click();
      await expectRows(15, 'New events');
      assert.deepEqual(await operator.findings(), []);
    },
  );

  test(
    'a condition on payloads is applied in the browser, and says so',
    { tags: ['long'] },
    async () => {
      await operator.goto('/events?live=1&types=tail.one&filter={"data.object.n":{"$gt":1}}');
      await page.getByText('live', { exact: true }).waitFor();
      for (const n of [1, 2, 3]) await publish(installation.leat, 'tail.one', { n });
      await page.getByText('2 of 3 events match').waitFor();
      await expectRows(2, 'New events');
      await page.getByText('applied in this browser').waitFor();
      await operator.goto('/events?live=1&filter={"a":{"$regex":1}}');
      await page.getByText('a.$regex: Unknown operator').waitFor();
    },
  );

  test(
    'goes on after the last event when it was cut off, and leaves none out',
    { tags: ['long'] },
    async (t) => {
      t.after(proxy.restore);
      await operator.goto('/events?live=1&types=tail.cut');
      await page.getByText('live', { exact: true }).waitFor();
      await publish(installation.leat, 'tail.cut', { n: 1 });
      await expectRows(1, 'New events');
      proxy.refuse();
      await page.getByText('Cut off just now').waitFor();
      await publish(installation.leat, 'tail.cut', { n: 2 });
      proxy.restore();
      await expectRows(2, 'New events');
      await page.getByText('None is left out.').waitFor();
    },
  );

  test(
    'the connection is there only while the list is, in a tab that is seen',
    { tags: ['long'] },
    async () => {
      const opened = page.waitForRequest(/\/api\/v2\/events\?/);
      await operator.goto('/events?live=1');
      const request = await opened;
      await page.getByText('live', { exact: true }).waitFor();
      const hidden = page.waitForEvent('requestfailed', (one) => one === request);
      await showTab(false);
      await hidden;
      await publish(installation.leat, 'tail.hidden', { n: 1 });
      const again = page.waitForRequest(/\/api\/v2\/events\?/);
      await showTab(true);
      const second = await again;
      await expectRows(1, 'New events');
      const ended = page.waitForEvent('requestfailed', (one) => one === second);
      await page.getByRole('link', { name: 'Back to the search' }).click();
      await ended;
      await expectRows(50);
    },
  );
});

/** Headless tabs are never hidden: the page is told so as a browser does. */
async function showTab(isVisible: boolean): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, 'hidden', { value: ${!isVisible}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  `);
}

describe('payloads that want to be more than text', () => {
  const hostile = {
    html: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    closing: '</pre></code></script><h1>owned</h1>',
    bidi: 'invoice\u202efdp.exe\u2066\u200b',
    keys: { '<b>key</b>': '${window.hacked=1}', __proto__: null, constructor: 'text' },
    type: 'order.paid","type":"forged.type',
  };

  test(
    'are text in the list, live, on the page, and in the error of a receiver',
    { tags: ['long'] },
    async () => {
      const { leat } = installation;
      const former = operator.errors().length;
      const { id: stream } = await createStream(leat, endpoint.url, { types: ['hostile.sent'] });
      endpoint.respondWith(text(418, hostile.html + hostile.bidi));
      await operator.goto('/events?live=1&types=hostile.sent');
      await page.getByText('live', { exact: true }).waitFor();
      const id = await publish(leat, 'hostile.sent', hostile);
      await expectRows(1, 'New events');
      await operator.goto('/events?types=hostile.sent');
      await expectRows(1);
      await operator.goto(`/events/${id}`);
      await page.getByText('failed', { exact: true }).first().waitFor();
      const envelope = await page.getByRole('region', { name: 'envelope' }).innerText();
      assert.ok(envelope.includes(JSON.stringify(hostile.html)));
      assert.ok(envelope.includes(String.raw`invoice\u202efdp.exe\u2066\u200b`));
      const main = page.getByRole('main');
      assert.ok((await main.innerText()).includes('418 - <img src=x onerror='));
      assert.doesNotMatch(await main.innerText(), /[\u202a-\u202e\u2066-\u2069]/);
      assert.equal(await main.locator('img, script').count(), 0);
      assert.equal(await page.evaluate('typeof window.hacked'), 'undefined');
      assert.deepEqual(operator.errors().slice(former), []);
      endpoint.respondWith(204);
      await leat.send('DELETE', `/api/v2/event-streams/${stream}`);
    },
  );

  test('large, deep and exact ones are shown whole', { tags: ['long'] }, async () => {
    const { leat } = installation;
    let deep = '1';
    for (let level = 0; level < 90; level += 1) deep = `{"a":${deep}}`;
    const json = `{"type":"hostile.large","data":{"deep":${deep},"exact":[12345678901234567890,1.0],"text":"${'x'.repeat(200_000)}end"}}`;
    const response = await leat.send('POST', '/api/v2/events', json);
    assert.equal(response.status, 202);
    const { id } = (await response.json()) as { id: string };
    await operator.goto('/events?types=hostile.large');
    await expectRows(1);
    assert.ok((await rows().innerText()).length < 500);
    await operator.goto(`/events/${id}`);
    const envelope = await page.getByRole('region', { name: 'envelope' }).innerText();
    assert.ok(envelope.includes('xend"'));
    assert.match(envelope, /12345678901234567890,\s+1\.0/);
    assert.equal(envelope.match(/"a":/g)?.length, 90);
    const isWider = 'document.documentElement.scrollWidth > innerWidth';
    assert.equal(await page.evaluate(isWider), false);
  });
});

describe('sending an event again', () => {
  test(
    'a delivered one arrives once more with its id, and the page shows both attempts',
    { tags: ['long'] },
    async () => {
      const { leat } = installation;
      await createStream(leat, endpoint.url, { name: 'again', types: ['again.delivered'] });
      const id = await publish(leat, 'again.delivered', { n: 1 });
      await operator.goto(`/events/${id}`);
      await page.getByText('1 delivered').waitFor();
      await page.getByRole('button', { name: 'Send again to again' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('The same on the command line').click();
      await dialog.getByText(`leat replay start again ${id}`).waitFor();
      await dialog.getByRole('button', { name: 'Send again' }).click();
      await expectRows(2, 'Attempts at again');
      assert.equal(endpoint.of(id).length, 2);
      await page.getByRole('button', { name: 'Send again to again' }).waitFor();
    },
  );

  test(
    'a failure is redelivered, and its page follows it to its end',
    { tags: ['long'] },
    async () => {
      const { leat } = installation;
      await createStream(leat, endpoint.url, { name: 'repaired', types: ['again.failed'] });
      endpoint.respondWith(text(500, 'not now'));
      const id = await publish(leat, 'again.failed', { n: 1 });
      await operator.goto(`/events/${id}`);
      await page.getByText('500 - not now').first().waitFor();
      await page.getByText('1 failed').waitFor();
      endpoint.respondWith(204);
      await page.getByRole('button', { name: 'Send again to repaired' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('The same on the command line').click();
      await dialog.getByText(`leat redeliver repaired ${id}`).waitFor();
      await dialog.getByRole('button', { name: 'Send again' }).click();
      await page.getByText('1 delivered').waitFor();
      await page.getByText('redelivery accepted').waitFor();
    },
  );

  test('support may, a viewer sees neither events nor the button', { tags: ['long'] }, async () => {
    await createStream(installation.leat, endpoint.url, {
      name: 'for-support',
      types: ['again.support'],
    });
    const id = await publish(installation.leat, 'again.support', { secret: 'a payload' });
    const support = await openConsole(scope, { installation, role: 'support' });
    await support.goto(`/events/${id}`);
    await support.page.getByRole('button', { name: 'Send again to for-support' }).waitFor();

    const viewer = await openConsole(scope, { installation, role: 'viewer' });
    await viewer.goto('/events');
    await viewer.page.getByText('Your role does not see events.').waitFor();
    await viewer.page.getByLabel('Go to an id').fill(id);
    await viewer.page.getByLabel('Go to an id').press('Enter');
    await viewer.page.getByRole('heading', { name: `Event ${id}` }).waitFor();
    await viewer.page.getByText('Your role does not see events.').waitFor();
    assert.doesNotMatch(await viewer.page.getByRole('main').innerText(), /a payload|Send again/);
    assert.deepEqual(await viewer.findings(), []);
    assert.deepEqual(viewer.errors(), []);
  });

  test('a viewer sees a failure without its payload', { tags: ['long'] }, async () => {
    const { leat } = installation;
    const { id: stream } = await createStream(leat, endpoint.url, { types: ['again.withheld'] });
    endpoint.respondWith(text(400, 'a secret of the receiver'));
    const id = await publish(leat, 'again.withheld', { secret: 'a payload' });
    await operator.goto(`/events/${id}`);
    await page.getByText('1 failed').waitFor();
    const viewer = await openConsole(scope, { installation, role: 'viewer' });
    await viewer.goto(`/events/${id}?stream=${stream}`);
    await viewer.page.getByText('Your role does not see payloads.').waitFor();
    assert.doesNotMatch(await viewer.page.getByRole('main').innerText(), /a payload|a secret/);
    endpoint.respondWith(204);
  });
});

describe('a search that reads much', () => {
  test('says how far it has come without a result, and goes on', { tags: ['long'] }, async () => {
    const { leat } = installation;
    const first = { type: 'bulk.row', data: { object: { wanted: true } } };
    const others = Array.from({ length: 10_100 }, () => ({ type: 'bulk.row', data: {} }));
    await publishAll(leat, [first, ...others]);
    await operator.goto('/events?filter={"data.object.wanted":true}');
    await page.getByText('Nothing among the events that were read so far, back to').waitFor();
    await page.getByRole('link', { name: 'Go on', exact: true }).click();
    await expectRows(1);
    assert.match(await rows().innerText(), /"wanted":true/);
    await page.goBack();
    await page.getByRole('link', { name: 'Go on until something is found' }).click();
    await expectRows(1);
  });

  /** Searches payloads with other clients until the returned function is called. */
  function searchAlongside(): () => Promise<unknown> {
    const { leat } = installation;
    const search = `/api/v2/event-log?filter=${encodeURIComponent('{"data.object.missing":{"$contains":"x"}}')}`;
    const ending = new AbortController();
    const keepSearching = async (): Promise<void> => {
      while (!ending.signal.aborted) await (await leat.send('GET', search)).text();
    };
    const others = Promise.all([keepSearching(), keepSearching(), keepSearching()]);
    return () => {
      ending.abort();
      return others;
    };
  }

  test(
    'shows what was found before while another one is running',
    { tags: ['long'] },
    async (t) => {
      await publishAll(installation.leat, [
        { type: 'found.before', data: { object: { found: true } } },
        ...Array.from({ length: 10_100 }, () => ({ type: 'found.not', data: {} })),
      ]);
      await operator.goto('/events?filter={"data.object.found":true}');
      await page.getByRole('link', { name: 'Go on', exact: true }).click();
      await expectRows(1);
      // From then on a page that is opened again is read again.
      await sleep(2100);
      t.after(searchAlongside());
      await page.goBack();
      await page.getByRole('link', { name: 'Go on', exact: true }).click();
      await page.getByText('Too many requests. These data are from').waitFor();
      await expectRows(1);
    },
  );

  test('explains that another one is running, and searches again', { tags: ['long'] }, async () => {
    const end = searchAlongside();
    const refused = page.getByText('Another search of payloads is running.');
    for (let tries = 0; tries < 20 && !(await refused.isVisible()); tries += 1) {
      await operator.goto(`/events?filter={"data.object.wanted":{"$ne":${tries}}}`);
      await refused.or(page.getByRole('table')).waitFor();
    }
    await refused.waitFor();
    await end();
    await page.getByRole('button', { name: 'Search again' }).click();
    await expectRows(50);
  });
});
