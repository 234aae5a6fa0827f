import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Engine } from './engine.ts';
import { createFixture, failed, type Fixture, newEvent, start } from './fixture.ts';

export function overviewContract(engine: Engine): void {
  describe(`${engine.name}: overview.tenant`, () => tenantContract(engine));
  describe(`${engine.name}: overview.behind`, () => behindContract(engine));
}

function tenantContract(engine: Engine): void {
  test('tenant: an empty log and no streams', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    assert.equal(await store.overview.tenant(99), undefined);
    assert.deepEqual(await store.overview.tenant(tenant), {
      head: 0,
      events: 0,
      aboutBytes: 0,
      oldestPublishedAt: undefined,
      newestPublishedAt: undefined,
      streams: { enabled: 0, failing: 0, disabled: 0 },
      openFailures: 0,
      lag: { events: 0, since: undefined },
    });
  });

  test('tenant: counts streams, failures, bytes and the lag of the last stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await withFailure(fixture);
    await fixture.addStream({ status: 'disabled' });
    await publishEach(fixture, 3);
    await fixture.addStream();
    const overview = await store.overview.tenant(tenant);
    assert.deepEqual(overview?.streams, { enabled: 1, failing: 1, disabled: 1 });
    assert.equal(overview.openFailures, 1);
    assert.deepEqual([overview.head, overview.events], [4, 4]);
    assert.deepEqual(overview.lag, { events: 3, since: start + 1000 });
    assert.equal(overview.oldestPublishedAt, start);
    assert.equal(overview.newestPublishedAt, start + 3000);
    const first = newEvent().body.length;
    assert.ok(overview.aboutBytes >= 4 * first && overview.aboutBytes <= 4 * 100);
  });

  test('tenant: the bytes are those of the oldest and the newest hundred', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const sizes = [...Array<number>(100).fill(10), ...Array<number>(50).fill(5000)];
    sizes.push(...Array<number>(100).fill(30));
    await store.log.append(
      tenant,
      sizes.map((size) => newEvent({ body: `"${'x'.repeat(size - 2)}"` })),
    );
    assert.equal((await store.overview.tenant(tenant))?.aboutBytes, 250 * 20);
  });

  test('tenant: the log begins after the events that were pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await fixture.addStream({ status: 'disabled' });
    await publishEach(fixture, 4);
    await store.log.prune(tenant, { olderThanMs: 1500, take: 10 });
    const some = await store.overview.tenant(tenant);
    assert.deepEqual([some?.head, some?.events], [4, 2]);
    assert.equal(some?.oldestPublishedAt, start + 3000);
    assert.equal(some?.newestPublishedAt, start + 4000);
    await store.log.prune(tenant, { olderThanMs: -1, take: 10 });
    const none = await store.overview.tenant(tenant);
    assert.deepEqual([none?.head, none?.events, none?.aboutBytes], [4, 0, 0]);
    assert.deepEqual([none?.oldestPublishedAt, none?.newestPublishedAt], [undefined, undefined]);
  });
}

function behindContract(engine: Engine): void {
  test('behind: enabled streams that are not at the head, the most lagging first', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const [far, other] = [await fixture.addStream(), await fixture.addStream()];
    await fixture.addStream({ status: 'disabled' });
    await publishEach(fixture, 2);
    const near = await fixture.addStream();
    await publishEach(fixture, 1);
    await fixture.addStream();
    const positions = (await store.overview.behind(tenant, 10)).map(
      ({ id, cursor, events, since }) => ({ id, cursor, events, since }),
    );
    assert.deepEqual(positions, [
      { id: far.id, cursor: 0, events: 3, since: start + 1000 },
      { id: other.id, cursor: 0, events: 3, since: start + 1000 },
      { id: near.id, cursor: 2, events: 1, since: start + 3000 },
    ]);
    const [first, second] = await store.overview.behind(tenant, 1);
    assert.deepEqual([first?.id, first?.name, first?.status], [far.id, far.name, 'enabled']);
    assert.equal(second, undefined);
  });

  test('behind: a stream that held on while its events were pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream({ status: 'disabled' });
    await publishEach(fixture, 3);
    await store.log.prune(tenant, { olderThanMs: 500, take: 10 });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'enabled' },
      resume: 'held',
    }));
    const [position] = await store.overview.behind(tenant, 10);
    assert.deepEqual([position?.cursor, position?.events], [0, 1]);
    assert.equal(position?.since, start + 3000);
    const { lag } = (await store.overview.tenant(tenant)) ?? {};
    assert.deepEqual(lag, { events: 1, since: start + 3000 });
  });
}

/** Publishes events one by one, a second apart. */
async function publishEach(fixture: Fixture, count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    fixture.now += 1000;
    await fixture.publish('user.created');
  }
}

/** Adds a stream with one open failure, which has passed its event. */
async function withFailure(fixture: Fixture): Promise<void> {
  const stream = await fixture.addStream();
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  const owned = await fixture.own(stream);
  await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
}
