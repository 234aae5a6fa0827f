import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Backlog } from '../../src/delivery/backlog.ts';
import { respondedWith, ok } from '../helpers/transport.ts';
import {
  createDeliveryFixture,
  settings,
  type DeliveryFixture,
  type FixtureOptions,
} from './fixture.ts';

const busy = respondedWith(503, 'busy');

/** A running dispatcher with one stream, whose posts stay open by default. */
async function createFixture(
  t: TestContext,
  options: FixtureOptions = {},
): Promise<DeliveryFixture> {
  const fixture = await createDeliveryFixture(t, { respond: () => undefined, ...options });
  await fixture.addStream();
  await fixture.start();
  return fixture;
}

function backlogOf(fixture: DeliveryFixture): Backlog {
  const [backlog, ...others] = fixture.dispatcher.backlogs();
  assert.ok(backlog !== undefined && others.length === 0);
  return backlog;
}

describe('the backlog of a stream', () => {
  test('the backlog has the events that the cursor has not passed, and the age of the oldest', async (t) => {
    const fixture = await createFixture(t);
    assert.deepEqual(backlogOf(fixture), {
      tenantName: 'main',
      stream: backlogOf(fixture).stream,
      events: 0,
      oldestAt: undefined,
      retries: 0,
    });
    const firstAt = fixture.clock.now();
    await fixture.publish('user.created');
    await fixture.clock.advance(100);
    await fixture.publish('user.created', 'other.made');
    const { events, oldestAt } = backlogOf(fixture);
    assert.deepEqual({ events, oldestAt }, { events: 3, oldestAt: firstAt });

    fixture.transport.open[0]?.end(ok);
    await fixture.clock.advance(settings.settleMs);
    const later = backlogOf(fixture);
    assert.deepEqual([later.events, later.oldestAt], [2, firstAt + 100]);

    fixture.transport.open[0]?.end(ok);
    await fixture.clock.advance(settings.settleMs);
    const end = backlogOf(fixture);
    assert.deepEqual([end.events, end.oldestAt], [0, undefined], 'what it does not want is passed');
  });

  test('the backlog has events that were appended before the node began', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    await fixture.addStream();
    await fixture.publishMany(50);
    const publishedAt = fixture.clock.now();
    await fixture.clock.advance(60_000);
    await fixture.start();
    await fixture.clock.advance(100);
    const { events, oldestAt } = backlogOf(fixture);
    assert.deepEqual({ events, oldestAt }, { events: 50, oldestAt: publishedAt });
  });

  test('the oldest event in memory is taken while older ones are yet to be read', async (t) => {
    let isHeld = false;
    const held = Promise.withResolvers<void>();
    const fixture = await createFixture(t, {
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
    await fixture.publishMany(20);
    await fixture.clock.advance(1000);
    const newestAt = fixture.clock.now();
    await fixture.publishMany(4);
    // The events of its queue from before it fell behind are sent, and no page arrives.
    while (fixture.transport.open.length > 0) {
      for (const post of fixture.transport.open) post.end(ok);
      await fixture.clock.advance(settings.settleMs);
    }
    const behind = backlogOf(fixture);
    assert.ok(behind.events > 4, `${behind.events}`);
    assert.equal(behind.oldestAt, newestAt);
    held.resolve();
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(1000);
    assert.equal(backlogOf(fixture).events, 0);
  });

  test('the backlog counts deliveries that wait for a retry, which the cursor has passed', async (t) => {
    const fixture = await createFixture(t, { respond: () => busy });
    await fixture.publish('user.created', 'user.created');
    await fixture.clock.advance(settings.settleMs);
    const { events, retries } = backlogOf(fixture);
    assert.deepEqual({ events, retries }, { events: 0, retries: 2 });
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(1100);
    assert.equal(backlogOf(fixture).retries, 0);
  });

  test('there is no backlog for a disabled stream, nor before the node has joined', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    assert.deepEqual([...fixture.dispatcher.backlogs()], []);
    await fixture.start();
    await fixture.publish('user.created');
    assert.equal([...fixture.dispatcher.backlogs()].length, 1);
    await fixture.update(stream, { status: 'disabled' });
    assert.deepEqual([...fixture.dispatcher.backlogs()], []);
  });
});

describe('the report of an attempt', () => {
  test('an attempt is reported with the time since the event was accepted, also a retry', async (t) => {
    const fixture = await createFixture(t);
    await fixture.publish('user.created');
    await fixture.clock.advance(250);
    fixture.transport.open[0]?.end(busy);
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(2000);
    const attempts = fixture.reported('attempt');
    assert.deepEqual(
      attempts.map(({ result }) => result),
      ['retry', 'delivered'],
    );
    assert.equal(attempts[0]?.sincePublishedMs, 250);
    const whole = attempts[1]?.sincePublishedMs ?? 0;
    assert.ok(whole >= 1250 && whole <= 2250, `${whole}`);
  });

  test('an attempt of a row of a former owner is reported without the time since acceptance', async (t) => {
    const fixture = await createFixture(t, { respond: () => busy });
    await fixture.publish('user.created');
    await fixture.clock.advance(settings.settleMs);
    fixture.transport.respond = () => ok;
    await fixture.restart();
    await fixture.clock.advance(2000);
    const attempts = fixture.reported('attempt');
    assert.deepEqual(
      attempts.map(({ result, sincePublishedMs }) => [result, sincePublishedMs]),
      [
        ['retry', 0],
        ['delivered', undefined],
      ],
    );
  });
});
