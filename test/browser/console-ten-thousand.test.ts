import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import { createStream, eventsOf, expectBody, publishAll } from '../helpers/api-client.ts';
import { nodesOf } from '../helpers/cluster.ts';
import { openConsole, startInstallation } from '../helpers/console.ts';
import { type Endpoint, startEndpoint, text } from '../helpers/endpoint.ts';
import { type Running, waitFor } from '../helpers/leat.ts';

/** Streams are not disabled, however much fails. */
const settings = { LEAT_DISABLE_CONSECUTIVE: '1000000', LEAT_DISABLE_TOTAL: '1000000' };

interface Failing {
  readonly endpoint: Endpoint;
  readonly name: string;
  readonly ids: readonly string[];
}

/** Makes open failures of a stream: its receiver rejects the authorization, which is not retried. */
async function failAll(
  t: TestContext,
  leat: Running,
  { name, total }: { readonly name: string; readonly total: number },
): Promise<Failing> {
  const endpoint = await startEndpoint(text(401, 'the key has expired'));
  t.after(endpoint.close);
  const type = `${name}.changed`;
  const { id } = await createStream(leat, endpoint.url, { name, types: [type] });
  const ids = await publishAll(leat, eventsOf(type, total));
  let seen = 0;
  const areOpen = async (): Promise<boolean> => {
    const path = `/api/v2/delivery-groups?event_stream_ids=${id}`;
    const { groups } = await expectBody<{ groups: { count: number }[] }>(
      200,
      leat.send('GET', path),
    );
    seen = groups[0]?.count ?? 0;
    return seen === total;
  };
  await waitFor(`${total} open failures of ${name}`, areOpen, { progress: () => seen });
  return { endpoint, name, ids };
}

/** The link of the overview that leads to the failures of a stream. */
function groupLink(page: Page, name: string) {
  return page.getByRole('link', { name: new RegExp(`^Look into it ?: HTTP 401 of ${name}$`) });
}

/** Waits until every event was sent once more, and its group is gone from the overview. */
async function expectAllDelivered(page: Page, { endpoint, name, ids }: Failing): Promise<void> {
  const delivered = page.getByText(new RegExp(`^All ${spaced(ids.length)} delivered\\.$`)).first();
  const progress = (): number => endpoint.arrivals.length;
  await waitFor('the end of the redelivery', () => delivered.isVisible(), { progress });
  const again = endpoint.arrivals.slice(ids.length).map(({ event }) => event.id);
  assert.deepEqual(new Set(again), new Set(ids));
  await page.getByRole('link', { name: 'Overview' }).first().click();
  await page.getByRole('heading', { name: 'Largest groups of failures' }).waitFor();
  await groupLink(page, name).waitFor({ state: 'detached' });
}

/** A count as pages show it, as a pattern. */
function spaced(value: number): string {
  return String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, '\\s');
}

/** From the overview to a whole group redelivered, by clicks. */
async function redeliverByClicks(page: Page, { name, ids }: Failing): Promise<void> {
  await groupLink(page, name).click();
  await page.getByRole('button', { name: 'Redeliver', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: `Redeliver HTTP 401 of ${name}` });
  const sent = page.waitForRequest(
    (request) =>
      request.url().endsWith('/api/v2/redeliveries') &&
      request.postData()?.includes('dry_run') === false,
  );
  await dialog
    .getByRole('button', { name: new RegExp(`^Redeliver ${spaced(ids.length)}$`) })
    .click();
  // What fails after the count is not sent.
  const body = (await sent).postDataJSON() as Record<string, unknown>;
  assert.deepEqual(Object.keys(body).toSorted(), ['error_codes', 'event_stream_ids', 'failed_to']);
}

test(
  'ten thousand failures: redelivered from the overview in three clicks',
  { tags: ['long'] },
  async (t) => {
    const installation = await startInstallation(t, { content: 'empty', settings });
    const failing = await failAll(t, installation.leat, { name: 'orders', total: 10_000 });
    const { page, goto, clicks, errors } = await openConsole(t, { installation });
    failing.endpoint.respondWith(204);
    await goto('/');
    await redeliverByClicks(page, failing);
    assert.equal(await clicks(), 3);
    await expectAllDelivered(page, failing);
    assert.deepEqual(errors(), []);
  },
);

test(
  'two nodes on PostgreSQL: failures of the streams of each are redelivered',
  { tags: ['long'] },
  async (t) => {
    const installation = await startInstallation(t, {
      engine: 'PostgreSQL',
      content: 'empty',
      nodes: 2,
      settings,
    });
    const { leat } = installation;
    // Two streams, of which each node owns one.
    const groups = [
      await failAll(t, leat, { name: 'invoices', total: 1000 }),
      await failAll(t, leat, { name: 'refunds', total: 1000 }),
    ];
    let owned: number[] = [];
    const areSpread = async (): Promise<boolean> => {
      owned = (await nodesOf(leat)).map(({ streams }) => streams);
      return owned.length === 2 && owned.every((streams) => streams === 1);
    };
    await waitFor('a stream on each node', areSpread, { progress: () => owned.join() });
    const { page, goto, clicks, errors } = await openConsole(t, { installation });
    for (const group of groups) {
      group.endpoint.respondWith(204);
      await goto('/');
      await redeliverByClicks(page, group);
      assert.equal(await clicks(), 3);
      await expectAllDelivered(page, group);
    }
    assert.deepEqual(errors(), []);
  },
);
