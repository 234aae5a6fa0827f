import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

/** Longer than it takes to claim streams, and shorter than the pause between heartbeats. */
const soonMs = 200;

/** Starts a node beside one that owns nothing, with so many streams; a claim takes some milliseconds. */
async function startBesideAnother(t: TestContext, streams: number): Promise<DeliveryFixture> {
  const fixture = await createDeliveryFixture(t, {
    through: (store) => ({
      ...store,
      ownership: {
        ...store.ownership,
        claim: async (...args) => {
          const taken = await store.ownership.claim(...args);
          await new Promise<void>((resolve) => void fixture.clock.after(6, resolve));
          return taken;
        },
      },
    }),
  });
  await fixture.store.ownership.join('other', 600_000);
  for (let made = 0; made < streams; made += 1) await fixture.addStream();
  await fixture.start();
  return fixture;
}

test('streams that are announced while others are claimed are taken before the next heartbeat', async (t) => {
  const fixture = await startBesideAnother(t, 1);
  await fixture.clock.advance(20_000);
  assert.equal(fixture.dispatcher.state().streams, 1);
  for (let made = 0; made < 100; made += 1) await fixture.addStream();
  await fixture.clock.advance(soonMs);
  assert.equal(fixture.dispatcher.state().streams, 101);
});

test('so are those that are announced during the last of several claims', async (t) => {
  const fixture = await startBesideAnother(t, 300);
  // The last claim is under way.
  while (fixture.dispatcher.state().streams < 128) await fixture.clock.advance(1);
  for (let made = 0; made < 10; made += 1) await fixture.addStream();
  await fixture.clock.advance(soonMs);
  assert.equal(fixture.dispatcher.state().streams, 160);
});
