import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { respondedWith, ok, type ScriptedPost } from '../helpers/transport.ts';
import { addTenant } from '../store/contract/fixture.ts';
import { createDeliveryFixture } from './fixture.ts';

type Behaviour = 'hang' | 'busy' | AttemptResult;

async function createFixture(t: TestContext, options: Partial<DeliverySettings>) {
  const behaviour = new Map<string, Behaviour>();
  const sent = new Map<string, number>();
  const idOf = (post: ScriptedPost) => String(JSON.parse(post.request.body).svcstream);
  const fixture = await createDeliveryFixture(t, {
    settings: {
      concurrency: 16,
      streamConcurrency: 16,
      pageEvents: 1000,
      settleMax: 64,
      parkAfterEvents: 64,
      tailEventsMax: 1000,
      ...options,
    },
    respond: (post) => {
      const id = idOf(post);
      sent.set(id, (sent.get(id) ?? 0) + 1);
      const how = behaviour.get(id) ?? ok;
      return typeof how === 'string' ? undefined : how;
    },
  });
  const { id: other } = await addTenant(fixture.store, 'other');
  const { id: third } = await addTenant(fixture.store, 'third');
  await fixture.start();
  return {
    fixture,
    other,
    third,
    behaviour,
    add: (tenant: number, type: string) => fixture.addStream({ tenant, types: [type] }),
    publish: fixture.publishTo,
    sentTo: ({ id }: Stream) => sent.get(id) ?? 0,
    openOf: ({ id }: Stream) => fixture.transport.open.filter((post) => idOf(post) === id),
  };
}

describe('a tenant that waits', () => {
  test('a waiting tenant continues as soon as another tenant has released slots', async (t) => {
    const { fixture, other, behaviour, add, publish, sentTo, openOf } = await createFixture(t, {});
    const main = fixture.tenant;
    const bursts = [];
    for (let n = 0; n < 3; n += 1) bursts.push(await add(other, 'busy.made'));
    const hangs = [];
    for (let n = 0; n < 8; n += 1) hangs.push(await add(main, 'hang.made'));
    const quick = await add(main, 'quick.made');
    await publish(other, 3, 'busy.made');
    await publish(main, 3, 'quick.made');
    await fixture.clock.advance(100);
    for (const { id } of hangs) behaviour.set(id, 'hang');
    await publish(main, 1, 'hang.made');
    await fixture.clock.advance(1500);
    assert.equal(fixture.dispatcher.state().inFlight, 8);
    // The other tenant has a burst: it takes some 50 ms.
    for (const { id } of bursts) behaviour.set(id, 'busy');
    await publish(other, 20, 'busy.made');
    await publish(main, 5, 'quick.made');
    for (const { id } of bursts) behaviour.set(id, ok);
    await fixture.clock.advance(50);
    for (const busy of bursts) for (const post of openOf(busy)) post.end(ok);
    await fixture.clock.advance(100);
    for (const busy of bursts) assert.equal(sentTo(busy), 23);
    assert.ok(fixture.dispatcher.state().inFlight <= 8, 'half of the slots are free');
    await fixture.clock.advance(2000);
    assert.equal(
      sentTo(quick),
      8,
      `${fixture.dispatcher.state().inFlight} in flight of 16, ${fixture.dispatcher.state().waiting} waiting`,
    );
  });

  test('a waiting tenant continues when its claimed rows have fewer bytes than reserved', async (t) => {
    // The smallest LEAT_INFLIGHT_BYTES, and otherwise the settings of production.
    const { fixture, other, behaviour, add, publish, sentTo } = await createFixture(t, {
      concurrency: 1024,
      streamConcurrency: 64,
      inflightBytesMax: 1_048_576,
      claimedBytes: 262_144,
      retryDelaysMs: [1000, 2000, 4000],
    });
    const main = fixture.tenant;
    await add(other, 'other.made');
    const fails = await add(main, 'fails.made');
    const quick = await add(main, 'quick.made');
    await publish(main, 3, 'quick.made');
    await publish(main, 1, 'fails.made');
    behaviour.set(fails.id, respondedWith(503));
    await publish(main, 10, 'fails.made');
    await fixture.clock.advance(500);
    behaviour.set(fails.id, 'hang');
    await fixture.clock.advance(600);
    // Between the moment when the retries are due and the claim.
    await publish(main, 5, 'quick.made');
    await fixture.clock.advance(200);
    const state = fixture.dispatcher.state();
    assert.equal(
      sentTo(quick),
      8,
      `${state.inFlight} in flight, ${state.inFlightBytes} bytes, ${state.waiting} waiting`,
    );
  });

  test('a stream does not wait for a large body of another stream of its tenant', async (t) => {
    const { fixture, behaviour, add, publish, sentTo } = await createFixture(t, {
      concurrency: 1024,
      streamConcurrency: 64,
      inflightBytesMax: 1_048_576,
      claimedBytes: 262_144,
    });
    const main = fixture.tenant;
    const hangs = await add(main, 'hang.made');
    await add(main, 'large.made');
    const quick = await add(main, 'quick.made');
    await publish(main, 20, 'hang.made');
    await publish(main, 3, 'quick.made');
    await publish(main, 3, 'large.made');
    behaviour.set(hangs.id, 'hang');
    await publish(main, 4, 'hang.made', 215_000);
    await publish(main, 1, 'large.made', 240_000);
    await publish(main, 5, 'quick.made');
    await fixture.clock.advance(3000);
    const state = fixture.dispatcher.state();
    assert.equal(
      sentTo(quick),
      8,
      `${state.inFlight} in flight, ${state.inFlightBytes} bytes, ${state.waiting} waiting`,
    );
  });

  test('a tenant is not skipped because another tenant waits with a large body', async (t) => {
    const { fixture, other, third, behaviour, add, publish, sentTo } = await createFixture(t, {
      concurrency: 1024,
      streamConcurrency: 64,
      inflightBytesMax: 1_048_576,
      claimedBytes: 262_144,
    });
    const main = fixture.tenant;
    const hangs = await add(main, 'hang.made');
    const large = await add(other, 'large.made');
    const quick = await add(third, 'quick.made');
    await publish(main, 20, 'hang.made');
    await publish(other, 3, 'large.made');
    await publish(third, 3, 'quick.made');
    await fixture.clock.advance(100);
    behaviour.set(hangs.id, 'hang');
    await publish(main, 4, 'hang.made', 262_000);
    const small = await add(third, 'small.made');
    behaviour.set(small.id, 'hang');
    await publish(third, 1, 'small.made', 2000);
    await fixture.clock.advance(1500);
    await publish(other, 4, 'large.made', 262_100);
    // Each event wakes the scheduler once.
    await publish(third, 1, 'quick.made');
    await fixture.clock.advance(300);
    const state = fixture.dispatcher.state();
    assert.equal(
      sentTo(quick),
      4,
      `${sentTo(large)} large; ${state.inFlight} in flight, ${state.inFlightBytes} bytes, ${state.waiting} waiting`,
    );
  });

  test('a quick stream continues when the burst of another tenant is over', async (t) => {
    const { fixture, other, behaviour, add, publish, sentTo, openOf } = await createFixture(t, {
      concurrency: 64,
      streamConcurrency: 64,
    });
    const main = fixture.tenant;
    const burst = await add(other, 'burst.made');
    const quick = await add(main, 'quick.made');
    await publish(other, 3, 'burst.made');
    await publish(main, 3, 'quick.made');
    await fixture.clock.advance(100);
    behaviour.set(burst.id, 'busy');
    behaviour.set(quick.id, 'busy');
    await publish(other, 60, 'burst.made');
    await publish(main, 40, 'quick.made');
    behaviour.set(burst.id, ok);
    for (let round = 0; round < 10; round += 1) {
      for (const post of openOf(burst)) post.end(ok);
      await fixture.clock.advance(1);
    }
    assert.equal(openOf(burst).length, 0);
    // Some of its attempts take 900 ms, the others would end at once.
    behaviour.set(quick.id, ok);
    const before = openOf(quick).length;
    let waited = 0;
    for (; sentTo(quick) < 43 && waited < 20_000; waited += 100) {
      await fixture.clock.advance(100);
      if (waited === 800) for (const post of openOf(quick)) post.end(ok);
    }
    assert.ok(
      waited <= 500,
      `after ${waited} ms, ${before} open, ${fixture.dispatcher.state().inFlight} of 64 slots in use`,
    );
  });

  test('a stream whose connection is idle again does not wait for a name', async (t) => {
    const { fixture, behaviour, add, publish, sentTo, openOf } = await createFixture(t, {});
    const main = fixture.tenant;
    const quick = await add(main, 'quick.made');
    await publish(main, 3, 'quick.made');
    // As the real transport: true while a connection is idle.
    fixture.transport.isReady = () => openOf(quick).length === 0;
    fixture.transport.prepare = () => fixture.transport.isReady('') || new Promise(() => undefined);
    behaviour.set(quick.id, 'busy');
    await publish(main, 2, 'quick.made');
    behaviour.set(quick.id, ok);
    for (const post of openOf(quick)) post.end(ok);
    await fixture.clock.advance(5000);
    assert.equal(sentTo(quick), 5);
  });
});
