import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NewEvent } from '../../src/core/types.ts';
import { newEvent, newId } from '../store/contract/fixture.ts';
import { ok } from '../helpers/transport.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

/** Events of numbers, of which filters select some. */
function numbered(count: number, from = 0): NewEvent[] {
  return Array.from({ length: count }, (_, index) => withData({ n: from + index }));
}

function withData(object: object, type = 'user.created'): NewEvent {
  const id = newEvent().id;
  return newEvent({ id, type, body: JSON.stringify({ id, type, data: { object } }) });
}

const even = JSON.stringify({
  'data.object.n': { $in: Array.from({ length: 500 }, (_, n) => 2 * n) },
});
const atLeast = (n: number): string => JSON.stringify({ 'data.object.n': { $gte: n } });

async function append(fixture: DeliveryFixture, events: readonly NewEvent[]): Promise<string[]> {
  await fixture.store.log.append(fixture.tenant, events);
  await fixture.clock.advance(0);
  return events.map(({ id }) => id);
}

function halves(ids: readonly string[]): string[] {
  return ids.filter((_, index) => index % 2 === 0);
}

describe('a stream with a filter', () => {
  test('receives the events that match, and its cursor passes the others', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    const stream = await fixture.addStream({ filter: even });
    await fixture.start();
    const ids = await append(fixture, numbered(10));
    await fixture.clock.advance(100);
    assert.deepEqual(fixture.sent(), halves(ids));
    await fixture.clock.advance(120_000);
    assert.equal(await fixture.cursor(stream), 10);
    assert.deepEqual(await fixture.store.streams.health(fixture.tenant, stream.id), {
      consecutive: 0,
      total: 0,
    });
  });

  test('a stream far behind reads pages, and is sent the events that match', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    await fixture.addStream({ filter: even });
    const ids = await append(fixture, numbered(450));
    await fixture.start();
    await fixture.clock.advance(5000);
    assert.deepEqual(fixture.sent(), halves(ids));
  });

  test('a stream that left the head of the log misses no event', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    await fixture.addStream({ filter: even });
    await fixture.start();
    const ids = [
      ...(await append(fixture, numbered(90))),
      ...(await append(fixture, numbered(90))),
      ...(await append(fixture, numbered(20))),
    ];
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.sent(), halves(ids));
  });

  test('a new filter applies from the next event on, also for a stream far behind', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => undefined });
    const stream = await fixture.addStream();
    await fixture.start();
    const before = await append(fixture, numbered(150));
    await fixture.update(stream, { filter: even });
    const filtered = await append(fixture, numbered(150));
    await fixture.update(stream, { filter: atLeast(100) });
    const last = await append(fixture, numbered(150));
    fixture.transport.respond = () => ok;
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(2000);
    assert.deepEqual(fixture.sent(), [...before, ...halves(filtered), ...last.slice(100)]);
  });

  test('a stream that resumes with held receives what its filters of then select', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    const stream = await fixture.addStream({ filter: even });
    await fixture.start();
    await fixture.update(stream, { status: 'disabled' });
    const held = await append(fixture, numbered(50));
    await fixture.update(stream, { filter: atLeast(1000) });
    await append(fixture, numbered(50));
    await fixture.update(stream, { status: 'enabled' }, 'held');
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), halves(held));
  });

  test('a new owner that reads events again selects the same ones', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    await fixture.addStream({ filter: even });
    await fixture.start();
    const before = await append(fixture, numbered(30));
    await fixture.restart();
    const after = await append(fixture, numbered(30));
    await fixture.clock.advance(1000);
    assert.deepEqual(fixture.sent(), [...halves(before), ...halves(after)]);
  });

  test('streams with other filters, or none, receive their own events', async (t) => {
    const fixture = await createDeliveryFixture(t, {
      respond: () => ok,
      settings: { concurrency: 100, streamConcurrency: 20 },
    });
    const counts = new Map<string, number>();
    const filters = [undefined, even, atLeast(7), '{"data.object.n":3}', '{"id":"evt"}', '{}'];
    const streams = [];
    for (const filter of filters) {
      streams.push(await fixture.addStream(filter === undefined ? {} : { filter }));
    }
    await fixture.start();
    await append(fixture, numbered(10));
    await fixture.clock.advance(1000);
    for (const { stream } of fixture.reported('attempt')) {
      counts.set(stream, (counts.get(stream) ?? 0) + 1);
    }
    assert.deepEqual(
      streams.map(({ id }) => counts.get(id) ?? 0),
      [10, 5, 3, 1, 0, 10],
    );
  });

  test(
    'filters of much work are evaluated over several turns, and every stream gets its event',
    { tags: ['long'] },
    async (t) => {
      const timers: number[] = [];
      const fixture = await createDeliveryFixture(t, {
        respond: () => ok,
        settings: { concurrency: 100 },
        clock: (clock) => ({
          ...clock,
          after: (delayMs, action) => {
            if (delayMs === 0) timers.push(delayMs);
            return clock.after(delayMs, action);
          },
        }),
      });
      const row = (last: number): number[] => [...Array.from({ length: 80 }, () => 1), last];
      const parts = Array.from({ length: 20 }, () => ({ 'data.object.rows': row(3) }));
      const filter = JSON.stringify({ $or: [...parts, { 'data.object.n': 1 }] });
      for (let count = 0; count < 20; count += 1) await fixture.addStream({ filter });
      await fixture.start();
      const rows = Array.from({ length: 1000 }, () => row(2));
      timers.length = 0;
      const [first] = await append(fixture, [withData({ rows, n: 1 }), withData({ rows, n: 2 })]);
      await fixture.clock.advance(5000);
      assert.deepEqual(
        fixture.sent(),
        Array.from({ length: 20 }, () => first),
      );
      assert.ok(timers.length > 50, `${timers.length} turns`);
    },
  );

  test('a replay sends the events of its range that match the filter of now', async (t) => {
    const fixture = await createDeliveryFixture(t, { respond: () => ok });
    const stream = await fixture.addStream();
    await fixture.start();
    const ids = await append(fixture, numbered(300));
    await fixture.clock.advance(3000);
    assert.deepEqual(fixture.sent(), ids);
    await fixture.update(stream, { filter: even });
    const asked = { tenant: fixture.tenant, stream: stream.id, types: undefined };
    const range = { id: newId('rpl'), from: 20, to: 300 };
    await fixture.store.replays.create({ ...asked, ...range });
    await fixture.clock.advance(60_000);
    assert.deepEqual(fixture.sent().slice(300).toSorted(), halves(ids.slice(20)).toSorted());
    const replay = await fixture.store.replays.get(fixture.tenant, stream.id, range.id);
    assert.partialDeepStrictEqual(replay, { status: 'done', matched: 140, sent: 140, failed: 0 });
  });
});
