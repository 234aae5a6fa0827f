import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  createFixture,
  delivered,
  failed,
  start,
  type Fixture,
  waitRule,
} from './fixture.ts';

const firstPage = { after: undefined, take: 10 };
const always = { since: 0, upTo: start + 1_000_000 };

export function alertStateContract(engine: Engine): void {
  describe(`${engine.name}: alertState.record`, () => recordContract(engine));
  describe(`${engine.name}: alertState.failingStreams`, () => failingStreamsContract(engine));
  describe(`${engine.name}: alertState.standings`, () => standingsContract(engine));
}

function recordContract(engine: Engine): void {
  test('record: the state is read as it was written, for each tenant', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    const state = { at: start, state: '{"told": "ä𝄞"}' };
    assert.equal(await store.alertState.last(tenant), undefined);
    assert.equal(await store.alertState.record(tenant, undefined, state, false), true);
    assert.deepEqual(await store.alertState.last(tenant), state);
    assert.equal(await store.alertState.last(other.id), undefined);
  });

  test('record: one of several concurrent writers succeeds', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    for (const [after, at] of [
      [undefined, start],
      [start, start + 1],
    ] as const) {
      const alertState = ['a', 'b', 'c'].map((state) => ({ at, state }));
      const written = await Promise.all(
        alertState.map((state) => store.alertState.record(tenant, after, state, true)),
      );
      assert.deepEqual(
        alertState.filter((_, index) => written[index]),
        [await store.alertState.last(tenant)],
      );
    }
  });

  test('record: a writer with an outdated state is refused', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.alertState.record(tenant, undefined, { at: start, state: 'one' }, true);
    await store.alertState.record(tenant, start, { at: start + 1, state: 'two' }, true);
    assert.equal(
      await store.alertState.record(tenant, start, { at: start + 2, state: 'late' }, true),
      false,
    );
    assert.equal(
      await store.alertState.record(tenant, undefined, { at: start, state: 'no' }, true),
      false,
    );
    assert.deepEqual(await store.alertState.last(tenant), { at: start + 1, state: 'two' });
  });
}

function standingsContract(engine: Engine): void {
  const quiet = { last: undefined, mayBeFailing: false };

  test('standings: each tenant has its own state and failures, in the order of the request', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const other = await addTenant(store, 'other');
    const stream = await fixture.addStream();
    const tenants = [other.id, 999, tenant];
    assert.deepEqual(await store.alertState.standings(tenants), [quiet, quiet, quiet]);
    const state = { at: start, state: '{"told": 1}' };
    await store.alertState.record(other.id, undefined, state, false);
    await end(fixture, stream, 'failed');
    assert.deepEqual(await store.alertState.standings(tenants), [
      { last: state, mayBeFailing: false },
      quiet,
      { last: undefined, mayBeFailing: true },
    ]);
    assert.deepEqual(await store.alertState.standings([]), []);
  });

  test('standings: a stream that a limit disabled counts as failing, even when it is enabled again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    fixture.limits = { consecutive: 1, total: 100 };
    await end(fixture, stream, 'failed');
    await change(fixture, stream, { status: 'enabled' });
    const [failure] = (await store.deliveries.listFailures(tenant, stream.id, firstPage)).items;
    assert.ok(failure);
    await store.deliveries.redeliver(tenant, stream.id, failure.event.id);
    const owned = await ownedOf(fixture, stream);
    await fixture.settle(owned, {
      outcomes: [delivered(failure.event, { kind: 'redelivery', hasRow: true })],
    });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.deepEqual(await store.alertState.standings([tenant]), [
      { last: undefined, mayBeFailing: true },
    ]);
  });
}

function failingStreamsContract(engine: Engine): void {
  test('failingStreams: leaves out a stream without failures', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await end(fixture, stream, 'delivered');
    assert.deepEqual(await fixture.store.alertState.failingStreams(fixture.tenant, always), []);
  });

  test('failingStreams: returns the counters, and whether failures are within the window', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ name: 'crm' });
    for (const seconds of [0, 1, 2, 3]) {
      fixture.now = start + seconds * 1000;
      await end(fixture, stream, 'failed');
    }
    await end(fixture, stream, 'delivered');
    const window = { since: start, upTo: start + 2000 };
    assert.deepEqual(await fixture.store.alertState.failingStreams(fixture.tenant, window), [
      {
        id: stream.id,
        name: 'crm',
        status: 'enabled',
        health: { consecutive: 0, total: 4 },
        disabledAt: undefined,
        disabledReason: undefined,
        failedWithin: true,
      },
    ]);
    for (const empty of [
      { since: start - 2, upTo: start - 1 },
      { since: start + 3000, upTo: Number.MAX_SAFE_INTEGER },
    ]) {
      const found = await fixture.store.alertState.failingStreams(fixture.tenant, empty);
      assert.deepEqual(
        found.map(({ failedWithin }) => failedWithin),
        [false],
      );
    }
  });

  test('failingStreams: leaves out other tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const other = await addTenant(fixture.store, 'other');
    await end(fixture, await fixture.addStream(), 'failed');
    assert.deepEqual(await fixture.store.alertState.failingStreams(other.id, always), []);
  });

  test('failingStreams: returns when a limit disabled a stream, even after it is enabled again', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    fixture.limits = { consecutive: 1, total: 100 };
    await end(fixture, stream, 'failed');
    const disabledAt = async () => {
      const [found] = await fixture.store.alertState.failingStreams(fixture.tenant, always);
      return found?.disabledAt;
    };
    assert.equal(await disabledAt(), start);
    await change(fixture, stream, { name: 'renamed' });
    assert.equal(await disabledAt(), start);
    await change(fixture, stream, { status: 'enabled' });
    assert.equal(await disabledAt(), start);
    await change(fixture, stream, { status: 'disabled' });
    assert.equal(await disabledAt(), start);
  });
}

/** Settles one event of the stream with this outcome. */
async function end(fixture: Fixture, stream: Stream, how: 'delivered' | 'failed'): Promise<void> {
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  const { epoch, run, cursor } = await ownedOf(fixture, stream);
  const { tenant, id, version } = stream;
  const outcomes = [how === 'failed' ? failed(event) : delivered(event)];
  const settlement = { tenant, stream: id, epoch, run, version, cursor, outcomes };
  const [settled] = await fixture.settleMany([settlement]);
  assert.equal(settled?.result, 'recorded');
}

async function ownedOf(fixture: Fixture, stream: Stream) {
  const ref = { tenant: stream.tenant, stream: stream.id };
  const node = await fixture.node();
  const [owned] = await fixture.store.ownership.owned(node, [ref], waitRule);
  return owned ?? fixture.own(stream);
}

async function change(fixture: Fixture, stream: Stream, to: Partial<Stream>): Promise<void> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, ...to },
  }));
  assert.ok('updated' in result);
}
