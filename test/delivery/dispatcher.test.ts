import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createDeliveryScene } from './scene.ts';

describe('the dispatcher', () => {
  test('delivers an event that is appended, settles it and raises the cursor', async (t) => {
    const scene = await createDeliveryScene(t);
    const stream = await scene.addStream();
    await scene.start();
    const [id] = await scene.publish('user.created');
    assert.deepEqual(scene.sent(), [id]);
    await scene.clock.advance(10);
    assert.equal(await scene.cursor(stream), 1);
  });
});
