import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Backlog } from '../../src/delivery/backlog.ts';
import { answered, ok } from '../helpers/transport.ts';
import { createDeliveryScene, settings, type DeliveryScene, type SceneGiven } from './fixture.ts';

const busy = answered(503, 'busy');

/** A scene at work with one stream, whose posts stay open unless told otherwise. */
async function sceneOf(t: TestContext, given: SceneGiven = {}): Promise<DeliveryScene> {
  const scene = await createDeliveryScene(t, { respond: () => undefined, ...given });
  await scene.addStream();
  await scene.start();
  return scene;
}

function backlogOf(scene: DeliveryScene): Backlog {
  const [backlog, ...others] = scene.dispatcher.backlogs();
  assert.ok(backlog !== undefined && others.length === 0);
  return backlog;
}

describe('the backlog of a stream', () => {
  test('is what its cursor has not passed, since the oldest of that was accepted', async (t) => {
    const scene = await sceneOf(t);
    assert.deepEqual(backlogOf(scene), {
      tenantName: 'main',
      stream: backlogOf(scene).stream,
      events: 0,
      oldestAt: undefined,
      retries: 0,
    });
    const firstAt = scene.clock.now();
    await scene.publish('user.created');
    await scene.clock.advance(100);
    await scene.publish('user.created', 'other.made');
    const { events, oldestAt } = backlogOf(scene);
    assert.deepEqual({ events, oldestAt }, { events: 3, oldestAt: firstAt });

    scene.transport.open[0]?.end(ok);
    await scene.clock.advance(settings.settleMs);
    const later = backlogOf(scene);
    assert.deepEqual([later.events, later.oldestAt], [2, firstAt + 100]);

    scene.transport.open[0]?.end(ok);
    await scene.clock.advance(settings.settleMs);
    const end = backlogOf(scene);
    assert.deepEqual([end.events, end.oldestAt], [0, undefined], 'what it does not want is passed');
  });

  test('has what was appended before the node began, however long ago', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    await scene.addStream();
    await scene.publishMany(50);
    const publishedAt = scene.clock.now();
    await scene.clock.advance(60_000);
    await scene.start();
    await scene.clock.advance(100);
    const { events, oldestAt } = backlogOf(scene);
    assert.deepEqual({ events, oldestAt }, { events: 50, oldestAt: publishedAt });
  });

  test('has the oldest event in memory stand for those that are yet to be read', async (t) => {
    let isHeld = false;
    const held = Promise.withResolvers<void>();
    const scene = await sceneOf(t, {
      settings: { streamConcurrency: 1, pageEvents: 2, tailEventsMax: 4 },
      through: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: async (...args) => {
            if (isHeld) await held.promise;
            return store.log.page(...args);
          },
        },
      }),
    });
    isHeld = true;
    await scene.publishMany(20);
    await scene.clock.advance(1000);
    const newestAt = scene.clock.now();
    await scene.publishMany(4);
    // What was in its queue before it fell behind is sent, and no page comes.
    while (scene.transport.open.length > 0) {
      for (const post of scene.transport.open) post.end(ok);
      await scene.clock.advance(settings.settleMs);
    }
    const behind = backlogOf(scene);
    assert.ok(behind.events > 4, `${behind.events}`);
    assert.equal(behind.oldestAt, newestAt);
    held.resolve();
    scene.transport.respond = () => ok;
    await scene.clock.advance(1000);
    assert.equal(backlogOf(scene).events, 0);
  });

  test('has the deliveries that wait for a retry, which the cursor has passed', async (t) => {
    const scene = await sceneOf(t, { respond: () => busy });
    await scene.publish('user.created', 'user.created');
    await scene.clock.advance(settings.settleMs);
    const { events, retries } = backlogOf(scene);
    assert.deepEqual({ events, retries }, { events: 0, retries: 2 });
    scene.transport.respond = () => ok;
    await scene.clock.advance(1100);
    assert.equal(backlogOf(scene).retries, 0);
  });

  test('is not told of a disabled stream, nor of any before the node has joined', async (t) => {
    const scene = await createDeliveryScene(t, { respond: () => undefined });
    const stream = await scene.addStream();
    assert.deepEqual([...scene.dispatcher.backlogs()], []);
    await scene.start();
    await scene.publish('user.created');
    assert.equal([...scene.dispatcher.backlogs()].length, 1);
    await scene.update(stream, { status: 'disabled' });
    assert.deepEqual([...scene.dispatcher.backlogs()], []);
  });
});

describe('the report of an attempt', () => {
  test('tells how long ago the event was accepted, also of a retry', async (t) => {
    const scene = await sceneOf(t);
    await scene.publish('user.created');
    await scene.clock.advance(250);
    scene.transport.open[0]?.end(busy);
    scene.transport.respond = () => ok;
    await scene.clock.advance(2000);
    const attempts = scene.reported('attempt');
    assert.deepEqual(
      attempts.map(({ result }) => result),
      ['retry', 'delivered'],
    );
    assert.equal(attempts[0]?.sincePublishedMs, 250);
    const whole = attempts[1]?.sincePublishedMs ?? 0;
    assert.ok(whole >= 1250 && whole <= 2250, `${whole}`);
  });

  test('does not tell it of what this node did not take from the log', async (t) => {
    const scene = await sceneOf(t, { respond: () => busy });
    await scene.publish('user.created');
    await scene.clock.advance(settings.settleMs);
    scene.transport.respond = () => ok;
    await scene.restart();
    await scene.clock.advance(2000);
    const attempts = scene.reported('attempt');
    assert.deepEqual(
      attempts.map(({ result, sincePublishedMs }) => [result, sincePublishedMs]),
      [
        ['retry', 0],
        ['delivered', undefined],
      ],
    );
  });
});
