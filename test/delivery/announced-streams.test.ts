import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

/** Longer than it takes to claim streams, and shorter than the pause between heartbeats. */
const soonMs = 200;

/** Starts a node beside one that owns nothing; a claim takes some milliseconds. */
async function startAtItsShare(t: TestContext): Promise<DeliveryFixture> {
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
  await fixture.start();
  await fixture.store.ownership.join('other', 600_000);
  await fixture.addStream();
  await fixture.clock.advance(20_000);
  assert.equal(fixture.dispatcher.state().streams, 1);
  return fixture;
}

test('streams that are announced while others are claimed are taken before the next heartbeat', async (t) => {
  const fixture = await startAtItsShare(t);
  for (let made = 0; made < 100; made += 1) await fixture.addStream();
  await fixture.clock.advance(soonMs);
  assert.equal(fixture.dispatcher.state().streams, 101);
});
