import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { LogPage, LogQuery } from '../../src/store/port/log.ts';
import { ok } from '../helpers/transport.ts';
import { addTenant, newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

const events = 40;
const streams = 8;

interface LaggingFixture extends DeliveryFixture {
  readonly lagging: readonly Stream[];
  /** Lets the store respond to the reads of the log that wait, and to all later ones. */
  respond(): void;
  /** Number of events that each stream was sent. */
  counts(): readonly number[];
}

/** Starts a node whose streams lag behind, have filters, and wait for their pages of the log. */
async function createLagging(t: TestContext): Promise<LaggingFixture> {
  const opened = Promise.withResolvers<void>();
  const page = async (read: () => Promise<LogPage>): Promise<LogPage> => {
    await opened.promise;
    return read();
  };
  const fixture = await createDeliveryFixture(t, {
    respond: () => ok,
    settings: { tailEventsMax: 2 },
    through: (store) => ({
      ...store,
      log: {
        ...store.log,
        page: (tenant: number, query: LogQuery) => page(() => store.log.page(tenant, query)),
      },
    }),
  });
  const lagging: Stream[] = [];
  for (let index = 0; index < streams; index += 1) {
    lagging.push(await fixture.addStream({ filter: anyNumber(-index) }));
  }
  await fixture.store.log.append(fixture.tenant, Array.from({ length: events }, numbered));
  await fixture.start();
  await fixture.clock.advance(100);
  const { dispatcher } = fixture;
  assert.equal(dispatcher.state().streams, streams);
  return {
    ...fixture,
    dispatcher,
    lagging,
    respond: opened.resolve,
    counts: () =>
      lagging.map(
        ({ id }) => fixture.transport.posts.filter(({ request }) => request.stream === id).length,
      ),
  };
}

/** Returns a filter that rejects no event. */
const anyNumber = (from: number): string => JSON.stringify({ 'data.object.n': { $gte: from } });

function numbered(_: unknown, n: number) {
  const { id, type } = newEvent();
  return newEvent({ id, type, body: JSON.stringify({ id, type, data: { object: { n } } }) });
}

/** Returns the counts when only these streams are sent the events. */
function onlyOf({ lagging }: LaggingFixture, kept: readonly Stream[]): readonly number[] {
  return lagging.map((stream) => (kept.includes(stream) ? events : 0));
}

describe('streams that are lost while they wait for a page of the log', () => {
  test('the others are sent everything when one is deleted', async (t) => {
    const fixture = await createLagging(t);
    const [lost, ...kept] = fixture.lagging.toReversed();
    assert.ok(lost);
    await fixture.store.streams.delete(fixture.tenant, lost.id);
    await fixture.clock.advance(100);
    fixture.respond();
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.counts(), onlyOf(fixture, kept));
  });

  test('the others are sent everything when three are disabled, and those after they were enabled', async (t) => {
    const fixture = await createLagging(t);
    const [first, , second, third, ...others] = fixture.lagging.toReversed();
    assert.ok(first && second && third);
    const lost = [first, second, third];
    for (const stream of lost) await fixture.update(stream, { status: 'disabled' });
    await fixture.clock.advance(100);
    fixture.respond();
    await fixture.clock.advance(5000);
    const kept = fixture.lagging.filter((stream) => !lost.includes(stream));
    assert.equal(kept.length, others.length + 1);
    assert.deepEqual(fixture.counts(), onlyOf(fixture, kept));
    for (const stream of lost) await fixture.update(stream, { status: 'enabled' }, 'held');
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.counts(), onlyOf(fixture, fixture.lagging));
  });

  test('the others are sent everything when half of them move to another node', async (t) => {
    const fixture = await createLagging(t);
    await fixture.store.ownership.join('other', 60_000);
    await fixture.clock.advance(5000);
    const { streams: left } = fixture.dispatcher.state();
    assert.equal(left, streams / 2);
    fixture.respond();
    await fixture.clock.advance(5000);
    assert.equal(fixture.counts().filter((count) => count === events).length, left);
    assert.equal(fixture.counts().filter((count) => count > 0).length, left);
  });

  test('another tenant is sent its events when the tenant of all of them is removed', async (t) => {
    const fixture = await createLagging(t);
    const { store, tenant, clock, dispatcher } = fixture;
    const { id: other } = await addTenant(store, 'other');
    await fixture.addStream({ tenant: other, filter: anyNumber(0) });
    await store.tenants.leave(tenant);
    await store.tenants.removeStep(tenant, { take: 100 });
    await clock.advance(100);
    fixture.respond();
    await store.log.append(other, Array.from({ length: events }, numbered));
    await clock.advance(5000);
    assert.deepEqual(fixture.counts(), onlyOf(fixture, []));
    assert.equal(fixture.transport.posts.length, events);
    assert.equal(dispatcher.state().streams, 1);
  });
});
