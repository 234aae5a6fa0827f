import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LogQuery } from '../../../src/store/port/log.ts';
import { ok } from '../../helpers/transport.ts';
import { newEvent } from '../../store/contract/fixture.ts';
import { createDeliveryFixture, settings, type DeliveryFixture } from '../fixture.ts';

async function publishBig(fixture: DeliveryFixture, count: number, bytes: number): Promise<void> {
  const body = JSON.stringify({ data: 'x'.repeat(bytes) });
  const events = Array.from({ length: count }, () => newEvent({ body, time: fixture.clock.now() }));
  await fixture.store.log.append(fixture.tenant, events);
  await fixture.clock.advance(0);
}

describe('streams that are behind', () => {
  test('streams that are behind are read ahead, so that sending does not wait for the store', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    await fixture.addStream();
    const ids = await fixture.publishMany(60);
    const pages: LogQuery[] = [];
    const { page } = fixture.store.log;
    Object.assign(fixture.store.log, {
      page: (tenant: number, query: LogQuery) => {
        pages.push(query);
        return page(tenant, query);
      },
    });
    await fixture.start();
    assert.equal(pages.length, 1);
    // Half of the page of 20 is left when the second is read.
    while (pages.length === 1) {
      fixture.transport.open[0]?.end(ok);
      await fixture.clock.advance(0);
    }
    const sentWhenRead = fixture.sent().length;
    assert.ok(sentWhenRead >= 10 && sentWhenRead < 20, `${sentWhenRead} sent`);
    assert.ok(fixture.sent().every((id, index) => id === ids[index]));
  });

  test(
    'any number of streams that are behind has a bounded part of the log in memory',
    { tags: ['long'] },
    async (t) => {
      const pageBytes = 20_000;
      const fixture = await createDeliveryFixture(t, {
        settings: { pageBytes, pageEvents: 1000, tailBytesMax: 50_000 },
        respond: () => undefined,
      });
      for (let count = 0; count < 100; count += 1) await fixture.addStream();
      await publishBig(fixture, 100, 1000);
      await fixture.start();
      // Quick so far, so that it has a slot.
      await fixture.publish('idle.made');
      await publishBig(fixture, 100, 1000);
      const { queuedBytes } = fixture.dispatcher.state();
      // Sixteen full pages, and a small one for each further stream.
      const most = 16 * pageBytes + 100 * 16_384;
      assert.ok(queuedBytes > 0 && queuedBytes <= most, `${queuedBytes} characters`);

      fixture.transport.respond = () => ok;
      for (const post of fixture.transport.open) post.end(ok);
      await fixture.clock.advance(20_000);
      assert.equal(fixture.transport.posts.length, 100 * 200);
      assert.equal(fixture.dispatcher.state().queuedBytes, 0);
      assert.equal(fixture.dispatcher.state().behind, 0);
    },
  );

  test('an idle stream is sent its next event although others use all queue memory', async (t) => {
    const pageBytes = 2000;
    const fixture = await createDeliveryFixture(t, {
      settings: { pageBytes, tailBytesMax: 50_000 },
      respond: ({ request }) => (request.body.includes('idle.made') ? ok : undefined),
    });
    for (let count = 0; count < 60; count += 1) await fixture.addStream();
    await fixture.addStream({ types: ['idle.made'] });
    await fixture.start();
    // Quick so far, so that it has a slot.
    await fixture.publish('idle.made');
    await publishBig(fixture, 100, 1000);
    const { queuedBytes } = fixture.dispatcher.state();
    assert.ok(queuedBytes >= 16 * pageBytes, `${queuedBytes} characters`);
    const [first] = await fixture.publish('idle.made');
    assert.ok(first !== undefined && fixture.sent().includes(first));
    const [second] = await fixture.publish('idle.made');
    assert.ok(second !== undefined && fixture.sent().includes(second));
  });

  test('a stream passes a long stretch without a match, and the cursor follows', async (t) => {
    const fixture = await createDeliveryFixture(t, { settings: { lagOffsetsMax: 100 } });
    const stream = await fixture.addStream({ types: ['rare.made'] });
    await fixture.publishMany(500);
    const [id] = await fixture.publish('rare.made');
    await fixture.publishMany(500);
    await fixture.start();
    await fixture.clock.advance(settings.settleMs);
    assert.deepEqual(fixture.sent(), [id]);
    assert.equal(await fixture.cursor(stream), 1001);
  });

  test('events that have a row are not read from the log', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(3);
    const [, second] = fixture.transport.open;
    // The first stays open, so the row of the second is above the cursor.
    second?.end({ kind: 'error', cause: 'timeout', detail: undefined });
    await fixture.clock.advance(20);
    assert.equal(await fixture.cursor(stream), 0);
    fixture.transport.respond = () => ok;
    await fixture.crash();
    await fixture.clock.advance(5000);
    const counts = ids.map((id) => fixture.sent().filter((sent) => sent === id).length);
    assert.deepEqual(counts, [2, 2, 2]);
    assert.equal(await fixture.cursor(stream), 3);
  });

  test('reading pages yields to other work of the process', async (t) => {
    let elapsedMs = 0;
    let readsInTurn = 0;
    let mostReadsInTurn = 0;
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (...args) => {
            // A page takes three milliseconds of processor time.
            elapsedMs += 3;
            readsInTurn += 1;
            mostReadsInTurn = Math.max(mostReadsInTurn, readsInTurn);
            return store.log.page(...args);
          },
        },
      }),
      clock: (clock) => ({
        ...clock,
        elapsedMs: () => clock.elapsedMs() + elapsedMs,
        after: (ms, action) =>
          clock.after(ms, () => {
            readsInTurn = 0;
            action();
          }),
      }),
    });
    for (let count = 0; count < 50; count += 1) await fixture.addStream({ types: ['never.made'] });
    await fixture.publishMany(5);
    await fixture.start();
    await fixture.clock.advance(1000);
    assert.equal(fixture.dispatcher.state().behind, 0);
    assert.equal(elapsedMs, 150);
    assert.ok(mostReadsInTurn <= 3, `${mostReadsInTurn} pages without a pause`);
  });
});

describe('streams at the head', () => {
  test('streams at the head read nothing from the store', async (t) => {
    let pages = 0;
    const fixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (...args) => {
            pages += 1;
            return store.log.page(...args);
          },
        },
      }),
    });
    for (let count = 0; count < 5; count += 1) await fixture.addStream();
    await fixture.start();
    for (let round = 0; round < 10; round += 1) await fixture.publishMany(10);
    await fixture.clock.advance(100);
    assert.equal(fixture.sent().length, 500);
    assert.equal(pages, 0);
  });
});
