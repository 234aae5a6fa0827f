import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LogQuery } from '../../../src/store/port/log.ts';
import { ok } from '../../helpers/transport.ts';
import { newEvent } from '../../store/contract/fixture.ts';
import { createDeliveryScene, settings, type DeliveryScene } from '../fixture.ts';

async function publishBig(scene: DeliveryScene, count: number, bytes: number): Promise<void> {
  const body = JSON.stringify({ data: 'x'.repeat(bytes) });
  const events = Array.from({ length: count }, () => newEvent({ body, time: scene.clock.now() }));
  await scene.store.log.append(scene.tenant, events);
  await scene.clock.advance(0);
}

describe('streams that are behind', () => {
  test('are read ahead, so that sending does not wait for the store', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    await scene.addStream();
    const ids = await scene.publishMany(60);
    const pages: LogQuery[] = [];
    const { page } = scene.store.log;
    Object.assign(scene.store.log, {
      page: (tenant: number, query: LogQuery) => {
        pages.push(query);
        return page(tenant, query);
      },
    });
    await scene.start();
    assert.equal(pages.length, 1);
    // Half of the page of 20 is left when the second is read.
    while (pages.length === 1) {
      scene.transport.open[0]?.end(ok);
      await scene.clock.advance(0);
    }
    const sentWhenRead = scene.sent().length;
    assert.ok(sentWhenRead >= 10 && sentWhenRead < 20, `${sentWhenRead} sent`);
    assert.ok(scene.sent().every((id, index) => id === ids[index]));
  });

  test('hold a bounded part of the log in memory, however many they are', async (t) => {
    const pageBytes = 20_000;
    const scene = await createDeliveryScene(t, {
      settings: { pageBytes, pageEvents: 1000, tailBytesMax: 50_000 },
      respond: () => undefined,
    });
    for (let count = 0; count < 100; count += 1) await scene.addStream();
    await publishBig(scene, 100, 1000);
    await scene.start();
    // Known to be quick, so that it has a slot.
    await scene.publish('idle.made');
    await publishBig(scene, 100, 1000);
    const { queuedBytes } = scene.dispatcher.state();
    // Sixteen full pages, and a small one for each stream beyond.
    const most = 16 * pageBytes + 100 * 16_384;
    assert.ok(queuedBytes > 0 && queuedBytes <= most, `${queuedBytes} characters`);

    scene.transport.respond = () => ok;
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(20_000);
    assert.equal(scene.transport.posts.length, 100 * 200);
    assert.equal(scene.dispatcher.state().queuedBytes, 0);
    assert.equal(scene.dispatcher.state().behind, 0);
  });

  test('leave an idle stream its next event, however much they hold in memory', async (t) => {
    const pageBytes = 2000;
    const scene = await createDeliveryScene(t, {
      settings: { pageBytes, tailBytesMax: 50_000 },
      respond: ({ request }) => (request.body.includes('idle.made') ? ok : undefined),
    });
    for (let count = 0; count < 60; count += 1) await scene.addStream();
    await scene.addStream({ types: ['idle.made'] });
    await scene.start();
    // Known to be quick, so that it has a slot.
    await scene.publish('idle.made');
    await publishBig(scene, 100, 1000);
    const { queuedBytes } = scene.dispatcher.state();
    assert.ok(queuedBytes >= 16 * pageBytes, `${queuedBytes} characters`);
    const [first] = await scene.publish('idle.made');
    assert.ok(first !== undefined && scene.sent().includes(first));
    const [second] = await scene.publish('idle.made');
    assert.ok(second !== undefined && scene.sent().includes(second));
  });

  test('pass a long stretch without a match, and the cursor follows', async (t) => {
    const scene = await createDeliveryScene(t, { settings: { lagOffsetsMax: 100 } });
    const stream = await scene.addStream({ types: ['rare.made'] });
    await scene.publishMany(500);
    const [id] = await scene.publish('rare.made');
    await scene.publishMany(500);
    await scene.start();
    await scene.clock.advance(settings.settleMs);
    assert.deepEqual(scene.sent(), [id]);
    assert.equal(await scene.cursor(stream), 1001);
  });

  test('leave the events that have a row to that row', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(3);
    const [, second] = scene.transport.open;
    // The first stays open, so the row of the second is above the cursor.
    second?.end({ kind: 'error', cause: 'timeout', detail: undefined });
    await scene.clock.advance(20);
    assert.equal(await scene.cursor(stream), 0);
    scene.transport.respond = () => ok;
    await scene.crash();
    await scene.clock.advance(5000);
    const counts = ids.map((id) => scene.sent().filter((sent) => sent === id).length);
    assert.deepEqual(counts, [2, 2, 2]);
    assert.equal(await scene.cursor(stream), 3);
  });

  test('give way to others of the process while they are read', async (t) => {
    let elapsedMs = 0;
    let readsInTurn = 0;
    let mostReadsInTurn = 0;
    const scene = await createDeliveryScene(t, {
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (...args) => {
            // A page takes three milliseconds of the process's time.
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
    for (let count = 0; count < 50; count += 1) await scene.addStream({ types: ['never.made'] });
    await scene.publishMany(5);
    await scene.start();
    await scene.clock.advance(1000);
    assert.equal(scene.dispatcher.state().behind, 0);
    assert.equal(elapsedMs, 150);
    assert.ok(mostReadsInTurn <= 3, `${mostReadsInTurn} pages without a pause`);
  });
});

describe('streams at the head', () => {
  test('read nothing from the store', async (t) => {
    let pages = 0;
    const scene = await createDeliveryScene(t, {
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
    for (let count = 0; count < 5; count += 1) await scene.addStream();
    await scene.start();
    for (let round = 0; round < 10; round += 1) await scene.publishMany(10);
    await scene.clock.advance(100);
    assert.equal(scene.sent().length, 500);
    assert.equal(pages, 0);
  });
});
