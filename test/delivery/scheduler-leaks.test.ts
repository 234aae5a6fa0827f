import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import { respondedWith, ok, timedOut } from '../helpers/transport.ts';
import { addTenant, newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture } from './fixture.ts';

/** Random receivers, names, changes and limits: in the end all events were sent and all slots are free. */
function randomOf(seed: number) {
  let state = seed;
  return (max: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

for (let seed = 1; seed <= 20; seed += 1) {
  test(`all slots and bytes are released, and no stream is stuck: history ${seed}`, async (t) => {
    const random = randomOf(seed * 7919);
    const pick = <T>(all: readonly T[]): T => all[random(all.length)] as T;
    let isCalm = false;
    const concurrency = pick([1, 2, 3, 4, 8, 16]);
    const streamConcurrency = pick([1, 2, 3, 8]);
    const inflightBytesMax = pick([1000, 20_000, 1_000_000]);
    const fixture = await createDeliveryFixture(t, {
      settings: {
        concurrency,
        streamConcurrency,
        inflightBytesMax,
        claimedBytes: 500,
        retryDelaysMs: [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_000],
        disable: { consecutive: 100_000, total: 1_000_000 },
        pageEvents: 20,
      },
      respond: (post) => {
        const chance = isCalm ? 0 : random(10);
        if (chance < 5) return ok;
        if (chance < 6) return respondedWith(503);
        const ms = chance < 8 ? random(900) : chance < 9 ? 1000 + random(5000) : 10_000;
        fixture.clock.after(ms, () => post.end(ms === 10_000 ? timedOut : ok));
        return undefined;
      },
    });
    const tenants = [
      fixture.tenant,
      (await addTenant(fixture.store, 'two')).id,
      (await addTenant(fixture.store, 'three')).id,
    ];
    fixture.transport.prepare = () => {
      if (isCalm || random(5) > 0) return true;
      return new Promise((resolve) => void fixture.clock.after(random(3000), () => resolve()));
    };
    await fixture.start();
    const streams: Stream[] = [];
    for (let n = 0; n < 6; n += 1) {
      const tenant = pick(tenants);
      streams.push(await fixture.addStream({ tenant, types: [`t${n}.made`] }));
    }
    const wanted = new Set<string>();
    for (let step = 0; step < 40; step += 1) {
      const n = random(streams.length);
      const stream = streams[n];
      assert.ok(stream);
      const time = fixture.clock.now();
      const body = JSON.stringify({ data: 'x'.repeat(pick([1, 10, 400, 3000])) });
      const events = Array.from({ length: 1 + random(12) }, () =>
        newEvent({ type: `t${n}.made`, time, body }),
      );
      for (const { id } of events) wanted.add(id);
      await fixture.store.log.append(stream.tenant, events);
      await fixture.clock.advance(random(1500));
      if (random(20) === 0) await fixture.crash();
      assert.ok(fixture.dispatcher.state().inFlight <= concurrency);
    }
    isCalm = true;
    await fixture.clock.advance(120_000);
    const state = fixture.dispatcher.state();
    const sent = new Set(fixture.sent());
    const missing = [...wanted].filter((id) => !sent.has(id)).length;
    const about = JSON.stringify({ concurrency, streamConcurrency, inflightBytesMax, ...state });
    assert.equal(missing, 0, about);
    assert.equal(state.inFlight, 0, about);
    assert.equal(state.inFlightBytes, 0, about);
    assert.equal(state.waiting, 0, about);
    assert.equal(state.queuedBytes, 0, about);
    assert.equal(fixture.transport.open.length, 0, about);
    // Delivery continues: a burst of each stream is sent within a second.
    const more = new Set<string>();
    for (const [n, stream] of streams.entries()) {
      const time = fixture.clock.now();
      const events = Array.from({ length: 5 }, () => newEvent({ type: `t${n}.made`, time }));
      for (const { id } of events) more.add(id);
      await fixture.store.log.append(stream.tenant, events);
    }
    await fixture.clock.advance(1000);
    const sentNow = new Set(fixture.sent());
    assert.equal([...more].filter((id) => !sentNow.has(id)).length, 0, about);
  });
}
