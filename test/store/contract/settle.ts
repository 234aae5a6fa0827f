import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused } from '../../../src/core/errors.ts';
import type { Engine } from './engine.ts';
import {
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  leaseMs,
  nextClaim,
  parked,
  raiseOf,
  retry,
  settlementOf,
  start,
  type Fixture,
  waitRule,
} from './fixture.ts';

export function settleContract(engine: Engine): void {
  describe(`${engine.name}: deliveries.settle`, () => outcomesContract(engine));
  describe(`${engine.name}: the cursor`, () => cursorContract(engine));
  describe(`${engine.name}: who may settle`, () => fencingContract(engine));
  describe(`${engine.name}: disabling at a threshold`, () => disablingContract(engine));
  describe(`${engine.name}: late results`, () => lateContract(engine));
}

const hour = 3_600_000;
const disabledMessage = 'The event stream is disabled';

/** A stream, `count` events of its type, and the ownership of it. */
async function streamWithEvents(fixture: Fixture, count: number) {
  const stream = await fixture.addStream();
  const events = await fixture.publish(...Array.from({ length: count }, () => 'user.created'));
  const owned = await fixture.own(stream);
  return { stream, events, owned };
}

/** Returns the item at an index. */
function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  assert.ok(item !== undefined);
  return item;
}

function outcomesContract(engine: Engine): void {
  test('a delivery leaves its success in the history and no row', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const settled = await fixture.settle(owned, {
      cursor: 1,
      outcomes: [delivered(at(events, 0))],
    });
    assert.deepEqual(settled, {
      result: 'recorded',
      version: 1,
      cursor: 1,
      health: { consecutive: 0, total: 0 },
      disabledBy: undefined,
    });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.deepEqual(await failuresOf(fixture, stream), []);
    const { redeliver } = fixture.store.deliveries;
    const result = await redeliver(fixture.tenant, stream.id, at(events, 0).id);
    assert.equal(result, 'delivered');
  });

  test('a failure is one open record with its history', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    fixture.now = start + 7000;
    const event = at(events, 0);
    const outcomes = [
      retry(event, { agoMs: 7000, error: 'timeout', status: undefined }),
      failed(event, { agoMs: 6000, attempt: 2, hasRow: true, error: '400 - no', status: 400 }),
    ];
    await fixture.settle(owned, { cursor: 1, outcomes });
    assert.deepEqual(await failuresOf(fixture, stream), [
      {
        event,
        failedAt: start + 7000,
        attempts: [
          { at: start, durationMs: 35.25, outcome: 'failed', status: undefined, error: 'timeout' },
          {
            at: start + 1000,
            durationMs: 35.25,
            outcome: 'failed',
            status: 400,
            error: '400 - no',
          },
        ],
      },
    ]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('a retry waits in a row for its next attempt and is no failure', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.settle(owned, { cursor: 1, outcomes: [retry(at(events, 0))] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
    fixture.now = start + 1000;
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(rows, [
      {
        event: at(events, 0),
        kind: 'first',
        state: 'parked',
        attempt: 2,
      },
    ]);
  });

  test('a parked attempt has a row and no history', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { cursor: 1, outcomes: [parked(event)] });
    await fixture.settle(owned, { outcomes: [failed(event, { hasRow: true })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.attempts.length, 1);
  });

  test('a parked attempt that delivers removes its row', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    const outcomes = [parked(event), delivered(event, { hasRow: true })];
    await fixture.settle(owned, { cursor: 1, outcomes });
    fixture.now = start + hour;
    assert.deepEqual(await claimDue(fixture, owned), {
      tenant: fixture.tenant,
      stream: stream.id,
      rows: [],
      nextDueInMs: undefined,
    });
  });

  test('outcomes count in the order in which the attempts ended', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 4);
    const [one, two, three, four] = events;
    assert.ok(one && two && three && four);
    const outcomes = [failed(one), failed(two), delivered(three), failed(four)];
    await fixture.settle(owned, { outcomes });
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 3 });
    await fixture.settle(owned, { outcomes: [delivered(three)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 3 });
  });

  test('a redelivery that fails keeps the one record, raises consecutive, leaves the total', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    fixture.now = start + 5000;
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    const again = { kind: 'redelivery', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: [failed(event, { ...again, agoMs: -5000 })] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 1 });
    const [failure, ...more] = await failuresOf(fixture, stream);
    assert.deepEqual(more, []);
    assert.equal(failure?.failedAt, start);
    assert.deepEqual(
      failure?.attempts.map((attempt) => attempt.outcome),
      ['failed', 'redelivered', 'failed'],
    );
  });

  test('a redelivery that succeeds removes the record and lowers the total by one', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    await fixture.settle(owned, { outcomes: events.map((event) => failed(event)) });
    const event = at(events, 0);
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    const again = { kind: 'redelivery', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 1 });
    const left = await failuresOf(fixture, stream);
    assert.deepEqual(
      left.map((failure) => failure.event.id),
      [at(events, 1).id],
    );
  });

  test('a redelivery keeps its position in the list while it waits for a retry', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    fixture.now = start + 6000;
    const again = { kind: 'redelivery', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: [parked(event, again), retry(event, again)] });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.failedAt, start);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('the hour of the settling counts successes and exhausted cycles, not retries', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 4);
    const [one, two, three, four] = events;
    assert.ok(one && two && three && four);
    await fixture.settle(owned, { outcomes: [delivered(one), retry(two), parked(three)] });
    fixture.now = start + hour;
    const afterRetry = { attempt: 2, hasRow: true };
    await fixture.settle(owned, { outcomes: [failed(two, afterRetry), delivered(four)] });
    await fixture.settle(owned, { outcomes: [failed(three, { hasRow: true })] });
    const window = { from: start - hour, to: start + 2 * hour };
    assert.deepEqual(await fixture.store.streams.stats(fixture.tenant, stream.id, window), [
      { hour: start - 1_800_000, delivered: 1, failed: 0 },
      { hour: start + 1_800_000, delivered: 1, failed: 2 },
    ]);
    const firstOnly = { from: start - hour, to: start };
    assert.equal(
      (await fixture.store.streams.stats(fixture.tenant, stream.id, firstOnly)).length,
      1,
    );
  });

  test('hours are kept for 90 days', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const settleAt = (now: number) => {
      fixture.now = now;
      return fixture.settle(owned, { outcomes: [delivered(at(events, 0))] });
    };
    const days90 = 90 * 24 * hour;
    await settleAt(start);
    await settleAt(start + hour);
    await settleAt(start + hour + days90);
    const window = { from: 0, to: start + 2 * days90 };
    const stats = await fixture.store.streams.stats(fixture.tenant, stream.id, window);
    assert.equal(stats.length, 2);
    assert.ok(stats.every((one) => one.hour > start));
  });

  test('a failed redelivery counts once more in the statistics', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    await fixture.settle(owned, {
      outcomes: [failed(event, { kind: 'redelivery', hasRow: true })],
    });
    const stats = await fixture.store.streams.stats(fixture.tenant, stream.id, {
      from: 0,
      to: start + hour,
    });
    assert.deepEqual(
      stats.map(({ failed: count }) => count),
      [2],
    );
  });

  test('a batch with bad content records nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    const broken = failed(at(events, 1), { error: 7n as unknown as string, agoMs: 'x' as never });
    await assert.rejects(
      fixture.settle(owned, { cursor: 2, outcomes: [failed(at(events, 0)), broken] }),
      StoreContentRefused,
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.deepEqual(await failuresOf(fixture, stream), []);
    const node = await fixture.node();
    const refs = [{ tenant: fixture.tenant, stream: stream.id }];
    const [now] = await fixture.store.ownership.owned(node, refs, waitRule);
    assert.equal(now?.cursor, 0);
  });

  test('texts of receivers are stored as they are', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const error = `500 - '); drop table deliveries; -- ${'ä𝄞\n\t\u{10ffff}'.repeat(400)}`;
    await fixture.settle(owned, { outcomes: [failed(at(events, 0), { error })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.attempts[0]?.error, error);
  });
}

function cursorContract(engine: Engine): void {
  const cursorOf = async (fixture: Fixture, stream: string): Promise<number | undefined> => {
    const refs = [{ tenant: fixture.tenant, stream }];
    const [owned] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
    return owned?.cursor;
  };

  test('the cursor: settle raises it and never lowers it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await streamWithEvents(fixture, 3);
    await fixture.settle(owned, { cursor: 2 });
    assert.equal(await cursorOf(fixture, stream.id), 2);
    await fixture.settle(owned, { cursor: 1 });
    assert.equal(await cursorOf(fixture, stream.id), 2);
  });

  test('the cursor: results of a former run count but do not raise it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 3);
    for (const status of ['disabled', 'enabled'] as const) {
      await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, status },
        resume: 'held',
      }));
    }
    const settled = await fixture.settle(owned, { cursor: 3, outcomes: [failed(at(events, 0))] });
    assert.equal(settled.result, 'recorded');
    assert.equal(await cursorOf(fixture, stream.id), 0);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    await fixture.settle({ ...owned, run: owned.run + 1 }, { cursor: 3 });
    assert.equal(await cursorOf(fixture, stream.id), 3);
  });

  test('the cursor: the last attempts of a disabled stream still raise it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    await fixture.settle(owned, { cursor: 1, outcomes: [delivered(at(events, 0))] });
    assert.equal(await cursorOf(fixture, stream.id), 1);
  });
}

function fencingContract(engine: Engine): void {
  test('a batch that is repeated changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    const settlement = settlementOf(owned, { outcomes: [failed(at(events, 0))] });
    await fixture.settleMany([settlement], 1);
    const settled = await fixture.settleMany([settlement], 1);
    const health = { consecutive: 1, total: 1 };
    const recorded = { result: 'recorded', version: 1, cursor: 0, health };
    assert.deepEqual(settled, [{ ...recorded, disabledBy: undefined }]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.attempts.length, 1);
    await fixture.settleMany([settlementOf(owned, { outcomes: [failed(at(events, 1))] })], 2);
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
  });

  test('a node that joins again begins its batches at 1', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    await fixture.settleMany([settlementOf(owned, { outcomes: [failed(at(events, 0))] })], 9);
    const node = await fixture.store.ownership.join('node-a', leaseMs);
    const [again] = await fixture.store.ownership.claim(node, {
      claim: nextClaim(),
      take: 10,
      ...waitRule,
    });
    assert.ok(again);
    const settlements = [settlementOf(again, { outcomes: [failed(at(events, 1))] })];
    const [settled] = await fixture.store.deliveries.settle(node, 1, settlements, fixture.limits);
    assert.equal(settled?.result, 'recorded');
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
  });

  test('a former incarnation of a node records nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.node();
    await fixture.store.ownership.join('node-a', leaseMs);
    const settled = await fixture.settle(owned, { cursor: 1, outcomes: [failed(at(events, 0))] });
    const health = { consecutive: 0, total: 0 };
    const lost = { result: 'lost', version: 0, cursor: 0, health, disabledBy: undefined };
    assert.deepEqual(settled, lost);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });

  test('a batch of a former incarnation uses up no number of the present one', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const former = await fixture.node();
    const node = await fixture.store.ownership.join(former.id, leaseMs);
    const request = { claim: nextClaim(), take: 10, ...waitRule };
    const [again] = await fixture.store.ownership.claim(node, request);
    assert.ok(again);
    const outcomes = [failed(at(events, 0))];
    await fixture.settleMany([settlementOf(owned, { outcomes })], 9);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    const settlements = [settlementOf(again, { outcomes })];
    const [settled] = await fixture.store.deliveries.settle(node, 1, settlements, fixture.limits);
    assert.equal(settled?.result, 'recorded');
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('a stream that its node released and claimed again records no results from before', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.store.ownership.release(await fixture.node(), [raiseOf(owned)]);
    const again = await fixture.own(stream);
    assert.equal(again.epoch, owned.epoch + 1);
    const outcomes = [failed(at(events, 0))];
    assert.equal((await fixture.settle(owned, { cursor: 1, outcomes })).result, 'lost');
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.equal((await fixture.settle(again, { cursor: 1, outcomes })).result, 'recorded');
  });

  test('a node that never joined records nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const node = { id: 'node-z', incarnation: 1 };
    const settlements = [settlementOf(owned, { outcomes: [failed(at(events, 0))] })];
    const [settled] = await fixture.store.deliveries.settle(node, 1, settlements, fixture.limits);
    assert.equal(settled?.result, 'lost');
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });

  test('a stream whose epoch has risen records nothing, the others of the batch do', async (t) => {
    const fixture = await createFixture(engine, t);
    const lost = await fixture.addStream();
    const kept = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const ownedLost = await fixture.own(lost);
    const refs = [{ tenant: fixture.tenant, stream: kept.id }];
    const [ownedKept] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
    assert.ok(ownedKept);
    await fixture.store.ownership.release(await fixture.node(), [raiseOf(ownedLost)]);
    const other = await fixture.store.ownership.join('node-b', leaseMs);
    assert.equal(
      (await fixture.store.ownership.claim(other, { claim: nextClaim(), take: 10, ...waitRule }))
        .length,
      1,
    );
    const outcomes = [failed(event)];
    const settled = await fixture.settleMany([
      settlementOf(ownedLost, { cursor: 1, outcomes }),
      settlementOf(ownedKept, { cursor: 1, outcomes }),
    ]);
    assert.deepEqual(
      settled.map(({ result }) => result),
      ['lost', 'recorded'],
    );
    assert.deepEqual(await fixture.health(lost), { consecutive: 0, total: 0 });
    assert.deepEqual(await failuresOf(fixture, lost), []);
    assert.deepEqual(await fixture.health(kept), { consecutive: 1, total: 1 });
  });

  test('a stream that was deleted records nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    const settled = await fixture.settle(owned, { outcomes: [failed(at(events, 0))] });
    assert.equal(settled.result, 'lost');
  });

  test('a stream that was changed returns its new version', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, name: 'other' },
    }));
    const settled = await fixture.settle(owned, { outcomes: [delivered(at(events, 0))] });
    assert.deepEqual([settled.result, settled.version], ['recorded', 2]);
  });
}

function disablingContract(engine: Engine): void {
  test('one failure before the consecutive limit the stream is enabled, at it disabled', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 3, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 3);
    const before = await fixture.settle(owned, {
      outcomes: events.slice(0, 2).map((event) => failed(event)),
    });
    assert.equal(before.disabledBy, undefined);
    fixture.now = start + 4000;
    fixture.hints.length = 0;
    const settled = await fixture.settle(owned, { outcomes: [failed(at(events, 2))] });
    assert.deepEqual(settled, {
      result: 'recorded',
      version: 2,
      cursor: 0,
      health: { consecutive: 3, total: 3 },
      disabledBy: 'consecutive',
    });
    const now = await fixture.store.streams.get(fixture.tenant, stream.id);
    assert.equal(now?.status, 'disabled');
    assert.equal(now?.version, 2);
    assert.equal(now?.updatedAt, start + 4000);
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
  });

  test('a success between them keeps the stream enabled', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 2, total: 100 };
    const { events, owned } = await streamWithEvents(fixture, 3);
    const [one, two, three] = events;
    assert.ok(one && two && three);
    const outcomes = [failed(one), delivered(two), failed(three)];
    assert.equal((await fixture.settle(owned, { outcomes })).disabledBy, undefined);
  });

  test('the total counts open records, whatever succeeds between them', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 100, total: 3 };
    const { events, owned } = await streamWithEvents(fixture, 6);
    const outcomes = events.slice(0, 5).map((event, index) => {
      return index % 2 === 0 ? failed(event) : delivered(event);
    });
    const settled = await fixture.settle(owned, { outcomes });
    assert.deepEqual(settled.health, { consecutive: 1, total: 3 });
    assert.equal(settled.disabledBy, 'total');
  });

  test('disabling in the middle of a batch: waiting deliveries fail, later results count', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 2, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 6);
    const [waits, inFlight, one, two, late, last] = events;
    assert.ok(waits && inFlight && one && two && late && last);
    const settled = await fixture.settle(owned, {
      cursor: 6,
      outcomes: [
        retry(waits),
        parked(inFlight),
        failed(one),
        failed(two),
        retry(late, { error: 'timeout', status: undefined }),
        delivered(last),
      ],
    });
    // Two failures, the waiting retry, the late retry; then a success.
    assert.deepEqual(settled.health, { consecutive: 0, total: 4 });
    assert.equal(settled.disabledBy, 'consecutive');
    const failures = await failuresOf(fixture, stream);
    const errors = Object.fromEntries(
      failures.map(({ event, attempts }) => [event.id, attempts.map(({ error }) => error)]),
    );
    assert.deepEqual(errors, {
      [waits.id]: ['503 - busy', disabledMessage],
      [one.id]: ['503 - busy'],
      [two.id]: ['503 - busy'],
      [late.id]: ['timeout'],
    });
    const [now] = await fixture.store.ownership.owned(
      await fixture.node(),
      [{ tenant: fixture.tenant, stream: stream.id }],
      waitRule,
    );
    assert.equal(now?.cursor, 6);
  });

  test('a receiver that is gone disables its stream: what waits becomes a failure', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 3);
    const [waits, gone, late] = events;
    assert.ok(waits && gone && late);
    const answer = { status: 410, error: '410', goneVersion: 1 };
    const settled = await fixture.settle(owned, {
      outcomes: [retry(waits), failed(gone, answer), failed(late, answer)],
    });
    assert.deepEqual(settled, {
      result: 'recorded',
      version: 2,
      cursor: 0,
      health: { consecutive: 3, total: 3 },
      disabledBy: 'gone',
    });
    const { tenant, store } = fixture;
    const facts = await store.streams.facts(tenant, stream.id);
    assert.deepEqual(facts?.disabled, { reason: 'gone', since: start, code: 'http_410' });
    const [failing] = await store.alertState.failingStreams(tenant, { since: 0, upTo: start });
    assert.deepEqual([failing?.disabledAt, failing?.disabledReason], [start, 'gone']);
    const failure = await store.deliveries.failure(tenant, stream.id, waits.id);
    assert.equal(failure?.attempts.at(-1)?.error, disabledMessage);
  });

  test('a late result of a receiver that is gone disables its stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    const late = failed(event, { status: 410, error: '410', goneVersion: 1, hasRow: true });
    const settled = await fixture.settle(owned, { outcomes: [late] });
    assert.deepEqual([settled.disabledBy, settled.health.total], ['gone', 1]);
  });

  test('a stream that was changed since the attempt is not disabled as gone', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, name: 'other' },
    }));
    const answer = { status: 410, error: '410', goneVersion: 1 };
    const settled = await fixture.settle(owned, { outcomes: [failed(at(events, 0), answer)] });
    assert.deepEqual([settled.disabledBy, settled.version], [undefined, 2]);
  });

  test('an untried test fails with its stream, a redelivery goes on', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    fixture.limits = { consecutive: 3, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 4);
    const [open, one, two] = events;
    assert.ok(open && one && two);
    await fixture.settle(owned, { outcomes: [failed(open)] });
    await store.deliveries.redeliver(tenant, stream.id, open.id);
    const testEvent = { id: 'evt_test', type: 'a.b', time: start, body: '{}' };
    await store.deliveries.addTest(tenant, stream.id, testEvent);
    await fixture.settle(owned, { outcomes: [failed(one), failed(two)] });
    const failure = await store.deliveries.failure(tenant, stream.id, 'evt_test');
    assert.deepEqual(
      failure?.attempts.map(({ error }) => error),
      [disabledMessage],
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 4, total: 4 });
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map((row) => row.event.id),
      [open.id],
    );
  });

  test('a redelivery of a disabled stream is retried like any', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 1, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    const again = { kind: 'redelivery', hasRow: true } as const;
    const settled = await fixture.settle(owned, { outcomes: [retry(event, again)] });
    assert.equal(settled.disabledBy, undefined);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    fixture.now = start + 1000;
    assert.equal((await claimDue(fixture, owned)).rows[0]?.attempt, 2);
  });

  test('a disabled stream is not disabled again', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 1, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 2);
    await fixture.settle(owned, { outcomes: [failed(at(events, 0))] });
    fixture.now = start + 9000;
    const settled = await fixture.settle(owned, { outcomes: [failed(at(events, 1))] });
    assert.deepEqual([settled.disabledBy, settled.version], [undefined, 2]);
    const now = await fixture.store.streams.get(fixture.tenant, stream.id);
    // The first settlement disabled it in the millisecond in which it was created.
    assert.equal(now?.updatedAt, start + 1);
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
  });

  test('each failure that disabling makes counts in the statistics', async (t) => {
    const fixture = await createFixture(engine, t);
    fixture.limits = { consecutive: 1, total: 100 };
    const { stream, events, owned } = await streamWithEvents(fixture, 3);
    const [one, two, three] = events;
    assert.ok(one && two && three);
    await fixture.settle(owned, { outcomes: [retry(one), retry(two), failed(three)] });
    const window = { from: 0, to: start + hour };
    const [stats] = await fixture.store.streams.stats(fixture.tenant, stream.id, window);
    assert.deepEqual([stats?.delivered, stats?.failed], [0, 3]);
  });
}

/** An attempt whose row was claimed again while it was in progress: both end at some time. */
function lateContract(engine: Engine): void {
  test('a failure after the other attempt delivered opens no record', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    const withRow = { hasRow: true };
    await fixture.settle(owned, { outcomes: [parked(event), delivered(event, withRow)] });
    await fixture.settle(owned, { outcomes: [failed(event, withRow)] });
    await fixture.settle(owned, { outcomes: [retry(event, withRow)] });
    await fixture.settle(owned, { outcomes: [parked(event, withRow)] });
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    fixture.now = start + hour;
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
  });

  test('a second failure of one cycle is not counted twice', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.settle(owned, { outcomes: [failed(event, { hasRow: true })] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    assert.equal((await failuresOf(fixture, stream)).length, 1);
  });

  test('a retry after the other attempt failed does not reopen the cycle', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [parked(event), failed(event, { hasRow: true })] });
    await fixture.settle(owned, { outcomes: [retry(event, { hasRow: true })] });
    fixture.now = start + hour;
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
    assert.equal((await failuresOf(fixture, stream)).length, 1);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('a success after the other attempt failed closes the record', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, events, owned } = await streamWithEvents(fixture, 1);
    const event = at(events, 0);
    await fixture.settle(owned, { outcomes: [parked(event), failed(event, { hasRow: true })] });
    await fixture.settle(owned, { outcomes: [delivered(event, { hasRow: true })] });
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });
}
