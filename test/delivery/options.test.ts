import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createDeliveryFixture } from './fixture.ts';

describe('options of one stream', () => {
  test('concurrency bounds the attempts at once of its stream only', async (t) => {
    const fixture = await createDeliveryFixture(t);
    const narrow = await fixture.addStream({ types: ['a.made'], delivery: { concurrency: 2 } });
    await fixture.addStream({ types: ['b.made'] });
    await fixture.start();
    await fixture.publishHanging(
      ...Array<string>(6).fill('a.made'),
      ...Array<string>(6).fill('b.made'),
    );
    const open = (type: string): number =>
      fixture.transport.open.filter(({ request }) => request.body.includes(type)).length;
    assert.deepEqual([open('a.made'), open('b.made')], [2, 4]);

    await fixture.update(narrow, { delivery: { concurrency: 3 } });
    assert.deepEqual([open('a.made'), open('b.made')], [3, 4]);
  });

  test('timeout_ms reaches the transport, and a row of a long attempt is not due before its end', async (t) => {
    const fixture = await createDeliveryFixture(t);
    await fixture.addStream({ delivery: { timeoutMs: 30_000 } });
    await fixture.addStream();
    await fixture.start();
    const posts = await fixture.publishHanging('user.created');
    assert.deepEqual(
      posts.map(({ request }) => request.timeoutMs),
      [30_000, undefined],
    );
    const [long] = posts;
    // The row of the other stream is due after 15 s, and its event is sent again.
    await fixture.clock.advance(29_000);
    const again = fixture.transport.posts.filter(({ request }) => request.timeoutMs === 30_000);
    assert.deepEqual(again, [long]);
    assert.ok(fixture.transport.posts.length > 2);
  });
});
