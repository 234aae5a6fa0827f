import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { expectBody, publish } from '../helpers/api-client.ts';
import type { ConsoleData } from '../helpers/console-data.ts';
import type { Installation, OpenConsole } from '../helpers/console-page.ts';
import { filledInstallation, openConsole } from '../helpers/console.ts';
import { waitFor } from '../helpers/wait.ts';

const ends: (() => Promise<unknown>)[] = [];
const scope = { after: (end: () => Promise<unknown>) => void ends.unshift(end) };

let installation: Installation;
let data: ConsoleData;
let operator: OpenConsole;
let page: Page;

before(async () => {
  installation = await filledInstallation();
  operator = await openConsole(scope, { installation });
  ({ page, data } = operator);
});
after(async () => {
  for (const end of ends) await end();
});

/** Opens an event and returns what its page says of one stream. */
async function at(event: string, stream: string): Promise<string> {
  await operator.goto(`/events/${event}`);
  const item = page
    .getByRole('listitem')
    .filter({ has: page.getByRole('link', { name: stream, exact: true }) });
  await item.waitFor();
  return item.innerText();
}

interface Traced {
  readonly deliveries: readonly { readonly event_stream_id: string; readonly state: string }[];
}

/** Publishes an event and waits until a stream has it in a state. */
async function published(
  type: string,
  object: object,
  stream: string,
  state: string,
): Promise<string> {
  const { leat } = installation;
  const id = await publish(leat, type, object);
  await waitFor(`${type} is ${state}`, async () => {
    const traced = await expectBody<Traced>(200, leat.send('GET', `/api/v2/event-log/${id}`));
    const found = traced.deliveries.find(({ event_stream_id: each }) => each === stream);
    return found?.state === state ? found : undefined;
  });
  return id;
}

describe('the page of an event', () => {
  test('delivered to some streams and failed at another one', async () => {
    const failed = await at(data.events.order, 'warehouse-orders');
    assert.match(
      failed,
      /failed[^]*HTTP 503\. The receiver is overloaded[^]*503 - upstream connect/,
    );
    assert.match(
      await at(data.events.order, 'audit-archive'),
      /delivered[^]*Accepted by the receiver/,
    );
    const counts = page.getByRole('list', { name: 'Streams by state' });
    assert.match(await counts.innerText(), /3 delivered[^]*1 failed/);
    const attempts = page.getByRole('table', { name: 'Attempts at warehouse-orders' });
    assert.match(
      await attempts.innerText(),
      /Attempt\s+Time\s+Result\s+Duration\s+HTTP\s+Error\s+4\s/,
    );
  });

  test('retrying, with its next attempt', { tags: ['long'] }, async () => {
    const text = await at(data.events.retrying, 'shipping-notifications');
    assert.match(text, /retrying[^]*Its next attempt is due/);
  });

  test('blocked behind its key, and what it waits for', { tags: ['long'] }, async () => {
    assert.match(
      await at(data.events.blocked, 'inventory-sync'),
      /blocked[^]*behind an earlier event/,
    );
    assert.match(
      await at(data.events.blocking, 'inventory-sync'),
      /failed[^]*quantity must not be/,
    );
  });

  test('skipped, and sent after all', { tags: ['long'] }, async () => {
    await operator.goto(`/events/${data.events.skipped}`);
    await page.getByText('this one was left out').waitFor();
    await page.getByRole('button', { name: 'Send again to' }).first().waitFor();
  });

  test('dismissed', { tags: ['long'] }, async () => {
    assert.match(
      await at(data.events.dismissed, 'crm-contacts'),
      /dismissed[^]*somebody dismissed/,
    );
  });

  test('filtered, with what the stream selects now', { tags: ['long'] }, async () => {
    const { 'pro-plan-onboarding': stream } = data.streams;
    const id = await published('subscription.started', { plan: 'free' }, stream, 'filtered');
    assert.match(await at(id, 'pro-plan-onboarding'), /filtered[^]*as they were then, left it out/);
    await page.getByText('What it selects now: pro-plan-onboarding').click();
    await page.getByText('It is subscribed to this type. Its filter does not match').waitFor();
    const filter = page.getByRole('region', { name: 'filter of pro-plan-onboarding' });
    assert.match(await filter.innerText(), /"data\.object\.plan"/);
  });

  test('waiting for a stream that is slow', { tags: ['long'] }, async () => {
    const { 'search-index': stream } = data.streams;
    const id = await published('product.updated', { sku: 'sku-1' }, stream, 'waiting');
    assert.match(await at(id, 'search-index'), /waiting[^]*has not come to it yet/);
    assert.equal(await page.getByRole('button', { name: 'to search-index' }).count(), 0);
  });

  test('an event of a test is not in the log, and says so', { tags: ['long'] }, async () => {
    const { leat } = installation;
    const path = `/api/v2/event-streams/${data.streams['warehouse-orders']}/test`;
    const { id } = await expectBody<{ id: string }>(
      202,
      leat.send('POST', path, { event_type: 'order.paid' }),
    );
    await waitFor('the test has failed', async () => {
      const response = await leat.send('GET', `/api/v2/event-log/${id}`);
      return (await response.text()).includes('"failed"') ? true : undefined;
    });
    await operator.goto(`/events/${id}`);
    await page.getByText('A test event').waitFor();
    await page.getByText('not in the log', { exact: true }).waitFor();
  });

  test('an id that nothing has: says what may have become of it', { tags: ['long'] }, async () => {
    await operator.goto('/events/evt_0000000000000000000000');
    await page.getByRole('heading', { name: 'No such event' }).waitFor();
    await page.getByText('LEAT_EVENT_RETENTION_DAYS').waitFor();
    await page.getByRole('link', { name: 'Search the log' }).click();
    await page.getByRole('table', { name: 'Events' }).waitFor();
  });

  test('axe finds nothing, and nothing is wider than the screen', { tags: ['long'] }, async () => {
    const { order, largestGroup } = data.events;
    for (const path of [order, largestGroup, 'unknown']) {
      await operator.goto(`/events/${path}`);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const width of [390, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          assert.deepEqual(await operator.findings(), [], `${path} ${colorScheme} ${width}`);
          const isWider = 'document.documentElement.scrollWidth > innerWidth';
          assert.equal(await page.evaluate(isWider), false, `${path} ${width}`);
        }
      }
    }
  });
});
