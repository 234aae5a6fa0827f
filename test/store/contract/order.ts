import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Engine } from './engine.ts';
import {
  blocked,
  createFixture,
  delivered,
  dueRules,
  failed,
  failuresOf,
  type Fixture,
  leaseMs,
  type LoggedEvent,
  nextClaim,
  parked,
  retry,
  start,
  waitRule,
} from './fixture.ts';

export function orderContract(engine: Engine): void {
  describe(`${engine.name}: events that wait behind their keys`, () => blockedContract(engine));
  describe(`${engine.name}: what an owner learns of keys`, { tags: engine.sharedTags }, () =>
    ownedContract(engine),
  );
  describe(`${engine.name}: claimDue by key`, () => claimContract(engine));
  describe(`${engine.name}: settle of an ordered stream`, { tags: engine.sharedTags }, () =>
    changedContract(engine),
  );
}

const orderBy = '/data/user';
const a = { orderKey: 'a' };
const b = { orderKey: 'b' };

interface Ordered {
  readonly fixture: Fixture;
  readonly stream: Stream;
  readonly owned: OwnedStream;
  readonly events: readonly LoggedEvent[];
  /** Returns the event with this offset. */
  event(offset: number): LoggedEvent;
}

/** An ordered stream that is owned, and the events of a new log. */
async function ordered(
  fixture: Fixture,
  count: number,
  delivery: Stream['delivery'] = { orderBy },
): Promise<Ordered> {
  const stream = await fixture.addStream({ delivery });
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...Array.from({ length: count }, () => 'user.created'));
  const event = (offset: number): LoggedEvent => {
    const found = events.find((each) => each.offset === offset);
    assert.ok(found);
    return found;
  };
  return { fixture, stream, owned, events, event };
}

async function change({ fixture, stream }: Ordered, to: Partial<Stream>): Promise<void> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, ...to },
  }));
  assert.ok('updated' in result);
}

async function ownedNow({ fixture, stream }: Ordered): Promise<OwnedStream> {
  const refs = [{ tenant: fixture.tenant, stream: stream.id }];
  const [now] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
  assert.ok(now);
  return now;
}

/** Returns what another process of the node claims. */
async function claimAgain({ fixture }: Ordered): Promise<OwnedStream[]> {
  const node = await fixture.store.ownership.join('node-a', leaseMs);
  const request = { claim: nextClaim(), take: 1000, ...waitRule };
  return fixture.store.ownership.claim(node, request);
}

async function claimKeys(
  { fixture, owned }: Pick<Ordered, 'fixture' | 'owned'>,
  keys: readonly string[],
  options: { readonly take?: number; readonly epoch?: number } = {},
) {
  const { tenant, id: stream } = owned.stream;
  const request = { tenant, stream, epoch: owned.epoch, take: 100, keys, ...options, ...dueRules };
  const [result] = await fixture.store.deliveries.claimDue([request]);
  assert.ok(result);
  return result;
}

async function claimedOffsets(...args: Parameters<typeof claimKeys>): Promise<unknown[]> {
  return (await claimKeys(...args)).rows.map(({ event }) => event.offset);
}

function blockedContract(engine: Engine): void {
  test('blocked: a row without an attempt, which is no failure, does not count as waiting and lets the cursor pass', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 2);
    const { fixture, stream, owned, event } = ordering;
    const { deliveries } = fixture.store;
    const settled = await fixture.settle(owned, {
      cursor: 2,
      settledAbove: [],
      outcomes: [parked(event(1), a), blocked(event(2), a)],
    });
    assert.deepEqual(
      [settled.cursor, settled.health.total, settled.keysChanged],
      [2, 0, undefined],
    );
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.equal(await deliveries.failure(fixture.tenant, stream.id, event(2).id), undefined);
    const { waiting, cursor, nextDueInMs } = await ownedNow(ordering);
    assert.deepEqual([waiting, cursor, nextDueInMs], [1, 2, 15_000]);
    // The history begins with its first attempt.
    await fixture.settle(owned, { outcomes: [failed(event(2), { hasRow: true, ...a })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.equal(failure?.attempts.length, 1);
  });

  test('blocked: neither time, nor a redelivery, nor retry-now makes the row due', async (t) => {
    const { fixture, stream, owned, event } = await ordered(await createFixture(engine, t), 1);
    const { deliveries } = fixture.store;
    await fixture.settle(owned, { cursor: 1, outcomes: [blocked(event(1), a)] });
    assert.equal(await deliveries.redeliver(fixture.tenant, stream.id, event(1).id), 'retrying');
    assert.equal(await deliveries.redeliverMany(fixture.tenant, stream.id, {}), 0);
    assert.equal(await deliveries.retryNow(fixture.tenant, stream.id), 0);
    fixture.now += waitRule.longestWaitMs;
    const { rows, nextDueInMs } = await claimKeys({ fixture, owned }, []);
    assert.deepEqual([rows, nextDueInMs], [[], undefined]);
  });

  test('blocked: an event that has a row keeps it', async (t) => {
    const { fixture, stream, owned, event } = await ordered(await createFixture(engine, t), 1);
    await fixture.settle(owned, { outcomes: [failed(event(1), a)] });
    await fixture.settle(owned, { outcomes: [blocked(event(1), a)] });
    assert.equal((await failuresOf(fixture, stream)).length, 1);
    assert.deepEqual(await claimedOffsets({ fixture, owned }, ['a']), []);
  });

  test('disabling: rows that wait for a retry become failures, blocked ones stay, and need no owner', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 3);
    const { fixture, stream, owned, event } = ordering;
    const outcomes = [retry(event(1), a), blocked(event(2), a), blocked(event(3), a)];
    await fixture.settle(owned, { cursor: 3, outcomes });
    await change(ordering, { status: 'disabled' });
    const failures = await failuresOf(fixture, stream);
    assert.deepEqual(
      failures.map(({ event: { id } }) => id),
      [event(1).id],
    );
    assert.deepEqual((await ownedNow(ordering)).keys, [
      { key: 'a', blocked: 2, held: false, failed: 0 },
    ]);
    assert.deepEqual(await claimAgain(ordering), []);
  });

  test('enabling with latest leaves blocked rows, which it does not count as skipped', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 3);
    const { fixture, stream, owned, event } = ordering;
    await fixture.settle(owned, { cursor: 1, outcomes: [blocked(event(2), a)] });
    await change(ordering, { status: 'disabled' });
    const enabled = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, status: 'enabled' },
      resume: 'latest',
    }));
    assert.ok('updated' in enabled);
    assert.equal(enabled.skipped, 1);
    assert.deepEqual(await claimedOffsets({ fixture, owned }, ['a']), [2]);
  });

  test('deletion: a stream goes with its blocked rows and what is settled above its cursor', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 3);
    const { fixture, stream, owned, event } = ordering;
    const outcomes = [blocked(event(2), a)];
    await fixture.settle(owned, { settledAbove: [3], outcomes });
    assert.equal(await fixture.store.streams.delete(fixture.tenant, stream.id), true);
    await fixture.addStream({ id: stream.id, delivery: { orderBy } });
    const { keys, takenAbove, epoch } = await fixture.own(stream);
    assert.deepEqual([keys, takenAbove], [[], []]);
    assert.deepEqual(await claimedOffsets({ fixture, owned }, ['a'], { epoch }), []);
  });
}

function ownedContract(engine: Engine): void {
  test('takenAbove: rows and settled events above the cursor, by claim and owned, each once', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 12);
    const { fixture, owned, event } = ordering;
    assert.deepEqual(owned.takenAbove, []);
    const outcomes = [blocked(event(1), a), blocked(event(4), a), blocked(event(10), a)];
    await fixture.settle(owned, { cursor: 2, settledAbove: [2, 4, 6, 9, 11], outcomes });
    assert.deepEqual((await ownedNow(ordering)).takenAbove, [4, 6, 9, 10, 11]);
    // The cursor may pass some of them before they are written again.
    await fixture.settle(owned, { cursor: 6 });
    assert.deepEqual((await ownedNow(ordering)).takenAbove, [9, 10, 11]);
    const [claimed] = await claimAgain(ordering);
    assert.deepEqual(claimed?.takenAbove, [9, 10, 11]);
  });

  test('settledAbove: each settlement that has it replaces it, also one of a former run', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 5);
    const { fixture, owned } = ordering;
    const above = async (): Promise<readonly number[]> => (await ownedNow(ordering)).takenAbove;
    await fixture.settle(owned, { settledAbove: [3, 5] });
    assert.deepEqual(await above(), [3, 5]);
    await fixture.settle(owned, {});
    assert.deepEqual(await above(), [3, 5]);
    await fixture.settle(owned, { settledAbove: [2, 5], run: owned.run - 1 });
    assert.deepEqual(await above(), [2, 5]);
    await fixture.settle(owned, { settledAbove: [3], epoch: owned.epoch + 1 });
    assert.deepEqual(await above(), [2, 5]);
    await fixture.settle(owned, { settledAbove: [4] });
    assert.deepEqual(await above(), [4]);
    await fixture.settle(owned, { settledAbove: [] });
    assert.deepEqual(await above(), []);
  });

  test('keys: those with blocked rows or a row under way; others are free', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 7);
    const { fixture, owned, event } = ordering;
    const outcomes = [
      parked(event(1), a),
      blocked(event(2), a),
      blocked(event(3), a),
      retry(event(4), b),
      blocked(event(5), { orderKey: 'c' }),
      failed(event(6), { orderKey: 'd' }),
      // Unordered.
      retry(event(7)),
    ];
    await fixture.settle(owned, { cursor: 7, outcomes });
    const expected = [
      { key: 'a', blocked: 2, held: true, failed: 0 },
      { key: 'b', blocked: 0, held: true, failed: 0 },
      { key: 'c', blocked: 1, held: false, failed: 0 },
    ];
    const byKey = (owner: OwnedStream | undefined) =>
      owner?.keys.toSorted((one, other) => (one.key < other.key ? -1 : 1));
    assert.deepEqual(byKey(await ownedNow(ordering)), expected);
    const [claimed] = await claimAgain(ordering);
    assert.deepEqual(byKey(claimed), expected);
  });

  test('keys: an open failure counts with block only, until it was redelivered with success', async (t) => {
    const block = { orderBy, onFailure: 'block' } as const;
    const ordering = await ordered(await createFixture(engine, t), 2, block);
    const { fixture, stream, owned, event } = ordering;
    const outcomes = [failed(event(1), a), failed(event(2), a)];
    await fixture.settle(owned, { cursor: 2, outcomes });
    const keys = async (): Promise<OwnedStream['keys']> => (await ownedNow(ordering)).keys;
    assert.deepEqual(await keys(), [{ key: 'a', blocked: 0, held: false, failed: 2 }]);
    // A redelivery is beside the order: it does not hold the key, but its failure is still open.
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event(1).id);
    assert.deepEqual(await keys(), [{ key: 'a', blocked: 0, held: false, failed: 2 }]);
    const redelivered = { kind: 'redelivery', hasRow: true, ...a } as const;
    await fixture.settle(owned, { outcomes: [delivered(event(1), redelivered)] });
    assert.deepEqual(await keys(), [{ key: 'a', blocked: 0, held: false, failed: 1 }]);
    await change(ordering, { delivery: { orderBy, onFailure: 'continue' } });
    assert.deepEqual(await keys(), []);
    await change(ordering, { delivery: block });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event(2).id);
    await fixture.settle(owned, { outcomes: [delivered(event(2), redelivered)] });
    assert.deepEqual(await keys(), []);
  });
}

function claimContract(engine: Engine): void {
  test('claimDue: the oldest blocked row of each requested key, leased as its first attempt', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 5);
    const { fixture, owned, event } = ordering;
    // Not in the order of the log.
    const rows = [blocked(event(4), a), blocked(event(2), a), blocked(event(3), b)];
    const outcomes = [...rows, blocked(event(5), { orderKey: 'c' })];
    await fixture.settle(owned, { cursor: 5, outcomes });
    const claimed = await claimKeys(ordering, ['b', 'a', 'without a row']);
    assert.deepEqual(
      claimed.rows.toSorted((one, other) => (one.event.offset ?? 0) - (other.event.offset ?? 0)),
      [
        { event: event(2), kind: 'first', state: 'parked', attempt: 1, orderKey: 'a' },
        { event: event(3), kind: 'first', state: 'parked', attempt: 1, orderKey: 'b' },
      ],
    );
    const { nextDueInMs, waiting, keys } = await ownedNow(ordering);
    assert.deepEqual([nextDueInMs, waiting], [dueRules.leaseMs, 2]);
    assert.deepEqual(
      keys.find(({ key }) => key === 'a'),
      { key: 'a', blocked: 1, held: true, failed: 0 },
    );
    // Once its lease has ended it is due like others, with its key.
    fixture.now += dueRules.leaseMs;
    const { rows: again } = await claimKeys(ordering, []);
    assert.deepEqual(new Set(again.map(({ orderKey }) => orderKey)), new Set(['a', 'b']));
  });

  test('claimDue: rows of keys come before due ones, at most as many as requested', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 6);
    const { fixture, owned, event } = ordering;
    const due = [1, 2, 3].map((offset) => retry(event(offset), { delayMs: offset }));
    const outcomes = [...due, blocked(event(5), a), blocked(event(6), b)];
    await fixture.settle(owned, { cursor: 6, outcomes });
    fixture.now += 10;
    const first = await claimedOffsets(ordering, ['a', 'b'], { take: 3 });
    assert.deepEqual([new Set(first.slice(0, 2)), first[2]], [new Set([5, 6]), 1]);
    const second = await claimKeys(ordering, ['a'], { take: 1 });
    assert.deepEqual(
      second.rows.map(({ event: { offset } }) => offset),
      [2],
    );
    assert.equal(second.nextDueInMs, 0);
  });

  test('claimDue: the body comes with the row, also when the log has pruned the event', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 2);
    const { fixture, owned, event } = ordering;
    await fixture.settle(owned, { cursor: 2, outcomes: [blocked(event(1), a)] });
    fixture.now += 1000;
    const pruned = await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 10 });
    assert.ok(pruned > 0);
    const { rows } = await claimKeys(ordering, ['a']);
    assert.deepEqual(
      rows.map((row) => row.event),
      [event(1)],
    );
  });

  test('claimDue: no row of a key for a paused or disabled stream, or a former owner', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 1);
    const { fixture, owned, event } = ordering;
    await fixture.settle(owned, { cursor: 1, outcomes: [blocked(event(1), a)] });
    const claimed = (epoch = owned.epoch): Promise<unknown[]> =>
      claimedOffsets(ordering, ['a'], { epoch });
    assert.deepEqual(await claimed(owned.epoch - 1), []);
    await change(ordering, { paused: { at: start } });
    assert.deepEqual(await claimed(), []);
    await change(ordering, { paused: undefined, status: 'disabled' });
    assert.deepEqual(await claimed(), []);
    await change(ordering, { status: 'enabled' });
    assert.deepEqual(await claimed(), [1]);
    assert.deepEqual(await claimed(), []);
  });

  test('claimDue: a key of another stream is another key', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await ordered(fixture, 1);
    const two = await ordered(fixture, 1);
    await fixture.settle(one.owned, { outcomes: [blocked(one.event(1), a)] });
    await fixture.settle(two.owned, { outcomes: [blocked(two.event(2), a)] });
    const claims = [one, two].map(({ owned: { stream, epoch } }) => {
      const { tenant, id } = stream;
      return { tenant, stream: id, epoch, take: 9, keys: ['a'], ...dueRules };
    });
    const results = await fixture.store.deliveries.claimDue(claims);
    assert.deepEqual(
      results.map(({ rows }) => rows.map(({ event }) => event.offset)),
      [[1], [2]],
    );
  });
}

function changedContract(engine: Engine): void {
  test('keysChanged: a retry that became a failure at the end of its cycle, of ordered events only', async (t) => {
    const { fixture, owned, event } = await ordered(await createFixture(engine, t), 3);
    const changed = async (...outcomes: ReturnType<typeof retry>[]): Promise<unknown> =>
      (await fixture.settle(owned, { settledAbove: [], outcomes })).keysChanged;
    assert.equal(await changed(retry(event(1), { cycleMaxMs: 500, ...a })), undefined);
    fixture.now += 500;
    const late = { cycleMaxMs: 500, hasRow: true, attempt: 2 };
    assert.equal(await changed(retry(event(1), { ...late, ...a })), true);
    assert.equal(await changed(retry(event(2), { cycleMaxMs: 0 })), undefined);
    assert.equal(await changed(failed(event(3), a)), undefined);
  });

  test('keysChanged: a retry on a stream that was disabled', async (t) => {
    const ordering = await ordered(await createFixture(engine, t), 1);
    const { fixture, owned, event } = ordering;
    await change(ordering, { status: 'disabled' });
    const { keysChanged } = await fixture.settle(owned, { outcomes: [retry(event(1), a)] });
    assert.equal(keysChanged, true);
  });

  test('keysChanged: a batch that was recorded before, of an ordered stream only', async (t) => {
    const { fixture, owned, event } = await ordered(await createFixture(engine, t), 2);
    const { tenant, id: stream, version } = owned.stream;
    const { epoch, run } = owned;
    const outcomes = [delivered(event(2), a)];
    const settlement = { tenant, stream, version, epoch, run, cursor: 0, outcomes };
    const inOrder = { ...settlement, settledAbove: [2] };
    const send = async (given: typeof settlement, batch: number): Promise<unknown> => {
      const [settled] = await fixture.settleMany([given], batch);
      assert.equal(settled?.result, 'recorded');
      return settled.keysChanged;
    };
    assert.equal(await send(inOrder, 1), undefined);
    assert.equal(await send(inOrder, 1), true);
    assert.equal(await send(settlement, 1), undefined);
    assert.equal(await send(inOrder, 2), undefined);
  });
}
