import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import { newEntry } from './audit-log.ts';
import type { Engine } from './engine.ts';
import {
  claimDue,
  createFixture,
  failed,
  type Fixture,
  type LoggedEvent,
  parked,
  retry,
} from './fixture.ts';

const hourMs = 3_600_000;

interface Waiting {
  readonly stream: Stream;
  readonly owned: OwnedStream;
  readonly events: readonly LoggedEvent[];
}

/** Creates a stream whose events wait for a retry, the first one for the longest time. */
async function withWaiting(fixture: Fixture, count: number): Promise<Waiting> {
  const stream = await fixture.addStream({ delivery: { retry: 'hours' } });
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...Array<string>(count).fill('user.created'));
  const outcomes = events.map((event, index) => retry(event, { delayMs: hourMs - index * 1000 }));
  await fixture.settle(owned, { outcomes });
  return { stream, owned, events };
}

async function claimedIds(fixture: Fixture, owned: OwnedStream): Promise<string[]> {
  const { rows } = await claimDue(fixture, owned, 5000);
  return rows.map(({ event }) => event.id);
}

/** Defines the tests of waiting retries that become due before their time. */
export function waitingContract(engine: Engine): void {
  test('retryNow: makes waiting retries of all kinds due; attempts go on, failures stay', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withWaiting(fixture, 2);
    const [over, runs, again] = await fixture.publish(...Array<string>(3).fill('user.created'));
    assert.ok(over && runs && again);
    await fixture.settle(owned, { outcomes: [failed(over), parked(runs), failed(again)] });
    await store.deliveries.redeliver(tenant, stream.id, again.id);
    await claimDue(fixture, owned);
    const redelivery = { kind: 'redelivery', hasRow: true, delayMs: hourMs } as const;
    await fixture.settle(owned, { outcomes: [retry(again, redelivery)] });
    fixture.hints.length = 0;
    assert.equal(await store.deliveries.retryNow(tenant, stream.id), 3);
    assert.deepEqual(fixture.hints, [{ kind: 'stream', tenant, stream: stream.id }]);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      new Set(rows.map(({ event, kind, attempt }) => `${event.id} ${kind} ${attempt}`)),
      new Set([...events.map(({ id }) => `${id} first 2`), `${again.id} redelivery 2`]),
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
  });

  test('retryNow: nothing waits, nothing is due', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream } = await withWaiting(fixture, 0);
    fixture.hints.length = 0;
    assert.equal(await store.deliveries.retryNow(tenant, stream.id), 0);
    assert.equal(await store.deliveries.retryNow(tenant, 'est_unknown'), 0);
    assert.deepEqual(fixture.hints, []);
  });

  test('retryNow: of a disabled stream only redeliveries are due', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withWaiting(fixture, 1);
    const [replayed] = await fixture.publish('user.created');
    assert.ok(replayed);
    await fixture.settle(owned, {
      outcomes: [retry(replayed, { kind: 'replay', delayMs: hourMs })],
    });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    assert.equal(await store.deliveries.retryNow(tenant, stream.id), 0);
  });

  test('retryNow: thousands of retries become due, with one entry in the audit log', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withWaiting(fixture, 2500);
    const entry = newEntry(tenant);
    const recording = store.recording(entry);
    assert.equal(await recording.deliveries.retryNow(tenant, stream.id), 2500);
    const ids = await claimedIds(fixture, owned);
    assert.deepEqual(new Set(ids), new Set(events.map((event) => event.id)));
    assert.equal((await store.auditLog.get(tenant, entry.id))?.count, 1);
  });

  test('releaseWaiting: makes those of a range due in the order of the log, for the owner only', async (t) => {
    const fixture = await createFixture(engine, t);
    const { deliveries } = fixture.store;
    const { stream, owned, events } = await withWaiting(fixture, 5);
    const { tenant, id } = stream;
    const request = { tenant, stream: id, epoch: owned.epoch, after: 0, upTo: 4, take: 2 };
    const stale = { ...request, epoch: owned.epoch - 1 };
    assert.deepEqual(await deliveries.releaseWaiting(stale), { due: 0, upTo: 4 });
    fixture.hints.length = 0;
    assert.deepEqual(await deliveries.releaseWaiting(request), { due: 2, upTo: 2 });
    assert.deepEqual(fixture.hints, [], 'the caller knows');
    const idsOf = (some: readonly LoggedEvent[]) => new Set(some.map((event) => event.id));
    assert.deepEqual(new Set(await claimedIds(fixture, owned)), idsOf(events.slice(0, 2)));
    const rest = { ...request, after: 2, take: 100 };
    assert.deepEqual(await deliveries.releaseWaiting(rest), { due: 2, upTo: 4 });
    assert.deepEqual(new Set(await claimedIds(fixture, owned)), idsOf(events.slice(2, 4)));
    assert.deepEqual(await deliveries.releaseWaiting(request), { due: 0, upTo: 4 }, 'all run');
  });

  test('bringForward: makes one waiting delivery after another due, in the order of the log', async (t) => {
    const fixture = await createFixture(engine, t);
    const { deliveries } = fixture.store;
    const { stream, owned, events } = await withWaiting(fixture, 3);
    const request = { tenant: stream.tenant, stream: stream.id, epoch: owned.epoch };
    let after = 0;
    for (const [index, event] of events.entries()) {
      const found = await deliveries.bringForward({ ...request, after });
      const waitMs = hourMs - index * 1000;
      assert.deepEqual(found, { eventId: event.id, offset: event.offset, waitMs });
      assert.deepEqual(await claimedIds(fixture, owned), [event.id]);
      after = found?.offset ?? 0;
    }
    assert.equal(await deliveries.bringForward({ ...request, after }), undefined);
    assert.equal(await deliveries.bringForward({ ...request, after: 0 }), undefined, 'all run');
  });

  test('bringForward: leaves failures, redeliveries, tests and disabled streams alone', async (t) => {
    const fixture = await createFixture(engine, t);
    const { deliveries, streams } = fixture.store;
    const { stream, owned } = await withWaiting(fixture, 0);
    const [over, again, waits] = await fixture.publish(...Array<string>(3).fill('user.created'));
    assert.ok(over && again && waits);
    await fixture.settle(owned, { outcomes: [failed(over), failed(again)] });
    await deliveries.redeliver(fixture.tenant, stream.id, again.id);
    await claimDue(fixture, owned);
    const redelivery = { kind: 'redelivery', hasRow: true, delayMs: hourMs } as const;
    await fixture.settle(owned, { outcomes: [retry(again, redelivery)] });
    const { tenant, id } = stream;
    const request = { tenant, stream: id, epoch: owned.epoch, after: 0 };
    assert.equal(await deliveries.bringForward(request), undefined);
    await fixture.settle(owned, { outcomes: [retry(waits, { kind: 'replay', delayMs: hourMs })] });
    const stale = { ...request, epoch: owned.epoch - 1 };
    assert.equal(await deliveries.bringForward(stale), undefined);
    await streams.update(tenant, id, (before) => ({ after: { ...before, status: 'disabled' } }));
    assert.equal(await deliveries.bringForward(request), undefined);
    await streams.update(tenant, id, (before) => ({ after: { ...before, status: 'enabled' } }));
    assert.equal((await deliveries.bringForward(request))?.eventId, waits.id);
  });
}
