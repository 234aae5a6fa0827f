import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { formatOffset } from '../../src/core/offset.ts';
import { secondTenant } from '../auth/house.ts';
import { openPull, type OpenPull } from '../helpers/pull.ts';
import { openSite, type Site } from './site.ts';

async function siteOf(t: TestContext, ...options: Parameters<typeof openSite>): Promise<Site> {
  const site = await openSite(...options);
  t.after(() => site.close());
  return site;
}

const pullOf = (site: Site, query = '', headers?: Record<string, string>): Promise<OpenPull> =>
  openPull(`http://127.0.0.1:${site.port}/api/v2/events${query}`, site.token, headers);

async function publish(site: Site, ...types: readonly string[]): Promise<void> {
  const events = types.map((type, n) => ({ type, data: { n } }));
  const answer = await site.send('POST', '/events', events);
  assert.equal(answer.status, 202, answer.text);
}

const idsOf = (blocks: readonly { id: string | undefined }[]): (string | undefined)[] =>
  blocks.map(({ id }) => id);

describe('a pull', () => {
  test('begins with the greeting and is given what is published from then on', async (t) => {
    const site = await siteOf(t);
    await publish(site, 'order.early');
    const pull = await pullOf(site);
    assert.equal(pull.status, 200);
    assert.equal(pull.headers['content-type'], 'text/event-stream');
    assert.equal(pull.headers['cache-control'], 'no-store');
    assert.equal(pull.headers['x-accel-buffering'], 'no');
    assert.equal(pull.headers['x-content-type-options'], 'nosniff');
    assert.match(String(pull.headers['x-ratelimit-remaining']), /^\d+$/);
    await pull.until(() => pull.blocks.length >= 2);
    assert.equal(pull.text(), ':connected\n\nretry: 2000\n\n');

    const answer = await site.send('POST', '/events', { type: 'order.paid', data: { n: 1 } });
    const [block] = await pull.events(1);
    assert.equal(block?.event, 'order.paid');
    assert.equal(block.id, answer.body.offset);
    assert.deepEqual(Object.keys(block.data), ['offset', 'event']);
    assert.equal(block.data.offset, answer.body.offset);
    const { id, source, specversion, type, data, svctenant, ...rest } = block.data.event;
    assert.deepEqual(
      { id, source, specversion, type, data, svctenant },
      {
        id: answer.body.id,
        source: 'urn:leat:',
        specversion: '1.0',
        type: 'order.paid',
        data: { n: 1 },
        svctenant: 'main',
      },
    );
    assert.deepEqual(Object.keys(rest), ['time']);
    pull.close();
  });

  test('goes on after an offset, from a time, and after the last id, which wins', async (t) => {
    const site = await siteOf(t);
    await publish(site, 'a.one', 'a.two');
    site.house.clock.move(1000);
    await publish(site, 'a.three');
    const after = (offset: number): string[] =>
      [1, 2, 3].filter((each) => each > offset).map(formatOffset);
    for (const [query, lastEventId, expected] of [
      [`?from=${formatOffset(1)}`, undefined, after(1)],
      [`?from=${formatOffset(0)}`, undefined, after(0)],
      ['?from_timestamp=2026-03-01T09:30:01Z', undefined, after(2)],
      ['?from_timestamp=2026-03-01T09:30:00%2B00:00', undefined, after(0)],
      ['?from_timestamp=1999-01-01T00:00:00Z', undefined, after(0)],
      [`?from=${formatOffset(0)}`, formatOffset(2), after(2)],
      ['?from_timestamp=1999-01-01T00:00:00Z', formatOffset(1), after(1)],
      [`?from=${formatOffset(1)}`, '', after(1)],
    ] as const) {
      const header = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      const pull = await pullOf(site, query, header);
      assert.deepEqual(idsOf(await pull.events(expected.length)), expected, query);
      pull.close();
    }
  });

  test('is given the types it asks for, and no others', async (t) => {
    const site = await siteOf(t);
    const pull = await pullOf(site, '?event_type=a.one&event_type=a.three');
    await publish(site, 'a.one', 'a.two', 'a.three', 'a.two', 'a.one');
    const blocks = await pull.events(3);
    assert.deepEqual(
      blocks.map(({ event }) => event),
      ['a.one', 'a.three', 'a.one'],
    );
    pull.close();
  });

  test('is given nothing of another tenant', async (t) => {
    const site = await siteOf(t, {}, { domain: 'one.example.com' });
    const { tenant } = await secondTenant(site.house);
    const pull = await pullOf(site, '', { host: 'one.example.com' });
    const event = { id: 'evt_2', chosen: false, type: 'a.other', time: 0, body: '{}' };
    await site.house.store.log.append(tenant.id, [event], site.house.clock.now());
    const own = { id: 'evt_1', chosen: false, type: 'a.own', time: 0, body: '{}' };
    await site.house.store.log.append(site.house.tenant.id, [own], site.house.clock.now());
    const [first] = await pull.events(1);
    assert.equal(first?.event, 'a.own');
    pull.close();
  });
});
