import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import { createDeliveryFixture, settings } from './fixture.ts';
import { ok } from '../helpers/transport.ts';

describe('a change that its owner learns of late', () => {
  test('what was taken before is neither cut off nor sent again, in whatever state it is', async (t) => {
    const { fixture, release } = await withLateHints(t);
    const stream = await fixture.addStream({ types: ['a.made'] });
    await fixture.start();
    const [underWay] = await fixture.publish('a.made');
    await fixture.update(stream, { types: ['a.made', 'b.made'] });
    const [recorded, gathered, passed, last] = await fixture.publish(
      'a.made',
      'a.made',
      'b.made',
      'a.made',
    );
    // Recorded, about to be recorded, and two under way.
    fixture.transport.open.find(({ eventId }) => eventId === recorded)?.end(ok);
    await fixture.clock.advance(100);
    fixture.transport.open.find(({ eventId }) => eventId === gathered)?.end(ok);
    await release();
    const [wanted] = await fixture.publish('b.made');
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), [underWay, recorded, gathered, last, wanted]);
    assert.ok(!fixture.sent().includes(passed ?? ''));
  });

  test('an event that waits in memory for a slot is sent once', async (t) => {
    const { fixture, release } = await withLateHints(t);
    const stream = await fixture.addStream({ types: ['a.made'] });
    await fixture.start();
    await fixture.update(stream, { types: ['a.made', 'b.made'] });
    const events = await fixture.publish(...Array.from({ length: 20 }, () => 'a.made'));
    await release();
    for (let rounds = 0; rounds < 40; rounds += 1) {
      for (const post of fixture.transport.open) post.end(ok);
      await fixture.clock.advance(100);
    }
    assert.deepEqual(fixture.sent(), events);
  });

  test('once the lease of the owner has ended, no event is taken that comes behind its key', async (t) => {
    // Neither a poll nor a result tells of the change.
    const rare = { pollMs: 60_000, parkAfterMs: 60_000 };
    const { fixture, release, heartbeats } = await withLateHints(t, rare);
    const stream = await fixture.addStream({ types: ['a.made'], delivery: { orderBy: '' } });
    const ref = { tenant: fixture.tenant, stream: stream.id };
    await fixture.start();
    const [before] = await fixture.publish('a.made');
    const { promise, resolve } = Promise.withResolvers<void>();
    heartbeats.way = promise;
    await fixture.update(stream, { types: ['b.made'] });
    assert.equal(await fixture.store.ownership.hasSeen(ref), false);
    await fixture.clock.advance(settings.leaseMs);
    assert.equal(await fixture.store.ownership.hasSeen(ref), true);
    // The response is sent now.
    const [, wanted] = await fixture.publish('a.made', 'b.made');
    resolve();
    await release();
    for (let rounds = 0; rounds < 3; rounds += 1) {
      for (const post of fixture.transport.open) post.end(ok);
      // The lease counts from before the heartbeat that was late: the next one renews it.
      await fixture.clock.advance(settings.heartbeatMs);
    }
    assert.deepEqual(fixture.sent(), [before, wanted]);
  });
});

/** Returns a fixture in which hints of changed streams wait to be released, heartbeats on request; nothing responds. */
async function withLateHints(t: TestContext, changed: Partial<DeliverySettings> = {}) {
  const late: (() => void)[] = [];
  const heartbeats = { way: Promise.resolve() };
  const fixture = await createDeliveryFixture(t, {
    settings: { attemptTimeoutMs: 60_000, ...changed },
    respond: () => undefined,
    through: (store) => ({
      ...store,
      ownership: {
        ...store.ownership,
        heartbeat: async (...args) => {
          await heartbeats.way;
          return store.ownership.heartbeat(...args);
        },
      },
      watch: (listener) =>
        store.watch((hint: Hint) => {
          if (hint.kind === 'stream') late.push(() => listener(hint));
          else listener(hint);
        }),
    }),
  });
  const release = async (): Promise<void> => {
    for (const act of late.splice(0)) act();
    await fixture.clock.advance(0);
  };
  return { fixture, release, heartbeats };
}
