import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTextQueue } from '../../src/delivery/text-queue.ts';
import { createManualClock } from '../helpers/clock.ts';
import { respondedWith } from '../helpers/transport.ts';
import { addTenant } from '../store/contract/fixture.ts';
import { createDeliveryFixture } from './fixture.ts';

function createFixture() {
  const clock = createManualClock();
  let workedMs = 0;
  const queue = createTextQueue({ ...clock, elapsedMs: () => clock.elapsedMs() + workedMs });
  const done: string[] = [];
  return {
    clock,
    queue,
    done,
    /** Runs work of a tenant that takes so long. */
    run: (tenant: number, name: string, tookMs = 8) =>
      queue.run(tenant, (waitedMs) => {
        done.push(`${name} ${waitedMs}`);
        workedMs += tookMs;
      }),
  };
}

describe('createTextQueue', () => {
  test('long work is followed by a pause as long as it', async () => {
    const { clock, done, run } = createFixture();
    for (const name of ['a', 'b', 'c']) run(1, name);
    assert.deepEqual(done, ['a 0']);
    await clock.advance(7);
    assert.deepEqual(done, ['a 0']);
    await clock.advance(1);
    assert.deepEqual(done, ['a 0', 'b 8']);
    await clock.advance(8);
    assert.deepEqual(done, ['a 0', 'b 8', 'c 24']);
    await clock.advance(8);
    assert.equal(clock.pending, 0);
  });

  test('short work is done at once, until it took 2 ms', async () => {
    const { clock, done, run } = createFixture();
    for (const name of ['a', 'b', 'c', 'd']) run(1, name, 1);
    assert.deepEqual(done, ['a 0', 'b 0']);
    await clock.advance(1);
    assert.deepEqual(done, ['a 0', 'b 0', 'c 1']);
    await clock.advance(2);
    assert.deepEqual(done, ['a 0', 'b 0', 'c 1', 'd 4']);
  });

  test('work that takes no time waits for nothing', () => {
    const { clock, done, run } = createFixture();
    for (let n = 0; n < 100; n++) run(1, String(n), 0);
    assert.equal(done.length, 100);
    assert.equal(clock.pending, 0);
  });

  test('tenants take turns', async () => {
    const { clock, done, run } = createFixture();
    for (let n = 0; n < 100; n++) run(1, 'one');
    run(2, 'two');
    await clock.advance(32);
    assert.ok(
      done.some((each) => each.startsWith('two')),
      String(done),
    );
  });

  test('nothing is done after a close', async () => {
    const { clock, queue, done, run } = createFixture();
    for (const name of ['a', 'b']) run(1, name);
    queue.close();
    run(1, 'c');
    await clock.advance(1000);
    assert.deepEqual(done, ['a 0']);
    assert.equal(clock.pending, 0);
  });
});

describe('responses with texts that arrive at once', () => {
  /** A dispatcher whose clock goes on by `stepMs` with each reading, once `burn` was called. */
  async function createBusyFixture(t: Parameters<typeof createDeliveryFixture>[0], stepMs: number) {
    let burntMs = 0;
    let isBurning = false;
    const fixture = await createDeliveryFixture(t, {
      clock: (clock) => ({
        ...clock,
        elapsedMs: () => clock.elapsedMs() + (burntMs += isBurning ? stepMs : 0),
      }),
      respond: () => undefined,
    });
    return { fixture, burn: () => (isBurning = true), rest: () => (isBurning = false) };
  }

  test('responses with texts that arrive at once are read one by one, tenants in turns, each slot in use meanwhile', async (t) => {
    const { fixture, burn } = await createBusyFixture(t, 1);
    const { transport, clock } = fixture;
    const { id: other } = await addTenant(fixture.store, 'other');
    await fixture.addStream({ types: ['a.made'] });
    const honest = await fixture.addStream({ tenant: other, types: ['b.made'] });
    await fixture.start();
    await fixture.publishTo(fixture.tenant, 4, 'a.made');
    await fixture.publishTo(other, 1, 'b.made');
    await clock.advance(10);
    const posts = transport.open;
    assert.equal(posts.length, 5);
    burn();
    for (const post of posts) post.end(respondedWith(400, '\\\\'));
    await Promise.resolve();
    await new Promise(setImmediate);
    assert.equal(fixture.reported('attempt').length, 1);
    assert.equal(fixture.dispatcher.state().inFlight, 4);
    await clock.advance(1000);
    const streams = fixture.reported('attempt').map(({ stream }) => stream);
    assert.equal(streams.length, 5);
    assert.ok(streams.indexOf(honest.id) <= 2, String(streams));
    assert.equal(fixture.dispatcher.state().inFlight, 0);
  });

  test('the text of a response that waited for a second is not stored', async (t) => {
    const { fixture, burn, rest } = await createBusyFixture(t, 400);
    const { transport, clock } = fixture;
    await fixture.addStream({ types: ['a.made'] });
    await fixture.start();
    await fixture.publishTo(fixture.tenant, 2, 'a.made');
    await clock.advance(10);
    burn();
    for (const post of transport.open) post.end(respondedWith(400, 'no'));
    await new Promise(setImmediate);
    rest();
    await clock.advance(20_000);
    const errors = fixture.reported('attempt').map(({ error }) => error);
    assert.deepEqual(errors, ['400 - no', '400']);
  });
});
