import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Node, Stream, StreamStatus } from '../../../src/core/types.ts';
import { dayMs } from '../../../src/core/units.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import { newEntry } from './audit-log.ts';
import type { Engine } from './engine.ts';
import { dismissFailures, startWork } from './failure-work.ts';
import {
  addTenant,
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  type Fixture,
  leaseMs,
  type LoggedEvent,
  nextClaim,
  noLimits,
  retry,
  settlementOf,
  start,
  waitRule,
} from './fixture.ts';

const again = { kind: 'redelivery', hasRow: true } as const;

interface Failing {
  readonly stream: Stream;
  readonly owned: OwnedStream;
  readonly events: readonly LoggedEvent[];
}

/** Creates a stream whose events failed, a millisecond between two; its cursor has passed them. */
async function withFailures(
  fixture: Fixture,
  errors: readonly (string | number)[],
  type = 'user.created',
): Promise<Failing> {
  const stream = await fixture.addStream({ types: [type] });
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...errors.map(() => type));
  for (const [index, event] of events.entries()) {
    const error = errors[index];
    const result =
      typeof error === 'number'
        ? { status: error, error: `${error} - no` }
        : { status: undefined, error: error ?? '' };
    await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event, result)] });
    fixture.now += 1;
  }
  return { stream, owned, events };
}

const idsOf = (events: readonly LoggedEvent[]) => events.map(({ id }) => id).toSorted();

async function openIds(fixture: Fixture, stream: Stream): Promise<string[]> {
  return (await failuresOf(fixture, stream)).map(({ event }) => event.id).toSorted();
}

async function progressOf(fixture: Fixture, id: string) {
  const found = await fixture.store.dismissals.get(fixture.tenant, id);
  assert.ok(found);
  return [found.status, found.total, found.dismissed, found.skipped];
}

/** Lets another node claim the stream of a node that crashed. */
async function takeOver(
  fixture: Fixture,
  name: string,
): Promise<{ readonly node: Node; readonly owned: OwnedStream }> {
  const { ownership } = fixture.store;
  await fixture.retire();
  const node = await ownership.join(name, leaseMs);
  const [owned] = await ownership.claim(node, { claim: nextClaim(), take: 1, ...waitRule });
  assert.ok(owned);
  return { node, owned };
}

async function setStatus({ store }: Fixture, stream: Stream, status: StreamStatus): Promise<void> {
  const result = await store.streams.update(stream.tenant, stream.id, (before) => ({
    after: { ...before, status },
  }));
  assert.ok('updated' in result);
}

/** Defines the tests of failures that are closed without being sent. */
export function dismissalsContract(engine: Engine): void {
  describe(`${engine.name}: dismissals.dismiss`, () => dismissContract(engine));
  describe(`${engine.name}: dismissals.dismiss, filters`, () => filterContract(engine));
  describe(`${engine.name}: dismissals, results`, () => resultContract(engine));
  describe(`${engine.name}: dismissals.reopen`, () => reopenContract(engine));
}

const noLimit = 5000;

/** Opens what a dismissal closed, and returns how many are open again of it. */
async function reopen({ store, tenant }: Fixture, id: string, below = noLimit): Promise<number> {
  assert.equal(await store.dismissals.reopen(tenant, id, below), 'accepted');
  assert.equal((await store.dismissals.get(tenant, id))?.status, 'running');
  assert.ok((await store.dismissals.unfinished(10)).some((each) => each.id === id));
  while ((await store.dismissals.step(tenant, id, dayMs)) !== 'done');
  const { status, reopened } = (await store.dismissals.get(tenant, id)) ?? {};
  assert.equal(status, 'done');
  return reopened ?? 0;
}

/** Asserts that failures of two streams end with the last of these steps, and returns the request. */
async function assertEndsAfter(
  { store, tenant }: Fixture,
  kind: 'dismissals' | 'redeliveries',
  [id, steps]: readonly [string, number],
): Promise<void> {
  for (let step = 1; step < steps; step += 1) {
    assert.equal(await store[kind].step(tenant, id, dayMs), 'more');
    assert.equal((await store[kind].unfinished(10)).length, 1);
  }
  assert.equal(await store[kind].step(tenant, id, dayMs), 'done');
  assert.deepEqual(await store[kind].unfinished(10), []);
  assert.equal(await store[kind].step(tenant, id, dayMs), 'done');
}

function reopenContract(engine: Engine): void {
  test('reopen: failures are as they were before, and can be redelivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503, 'timeout: 10 s', 503]);
    const other = await withFailures(fixture, [503], 'user.deleted');
    const [first, , third] = events;
    assert.ok(first && third);
    const before = await failuresOf(fixture, stream);
    const groups = await store.dismissals.groups(tenant, stream.id, {});
    const ref = { tenant, stream: stream.id };
    const kept = await startWork(store, 'dismissals', {
      tenant,
      streams: [stream.id],
      selection: { eventIds: [first.id] },
    });
    const id = await startWork(store, 'dismissals', { tenant });
    assert.deepEqual(await progressOf(fixture, id), ['done', 3, 3, 0]);
    fixture.now += 1000;
    assert.equal(await store.ownership.hasSeen(ref), false);
    assert.equal(await reopen(fixture, id), 3);
    assert.deepEqual(await openIds(fixture, stream), idsOf(events.slice(1)));
    assert.deepEqual(await openIds(fixture, other.stream), idsOf(other.events));
    assert.deepEqual(await fixture.health(stream), { consecutive: 3, total: 2 });
    assert.equal(await reopen(fixture, kept), 1);
    assert.equal(await reopen(fixture, id), 3);
    const after = await failuresOf(fixture, stream);
    assert.deepEqual(
      after.map(({ event, failedAt }) => [event, failedAt]),
      before.map(({ event, failedAt }) => [event, failedAt]),
    );
    assert.deepEqual(
      after[0]?.attempts.map(({ outcome }) => outcome),
      ['failed', 'dismissed'],
    );
    assert.deepEqual(await store.dismissals.groups(tenant, stream.id, {}), groups);
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, third.id), 'accepted');
    assert.equal((await claimDue(fixture, owned)).rows.length, 1);
    await fixture.settle(owned, { outcomes: [delivered(third, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 2 });
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, third.id), 'delivered');
  });

  test('reopen: what a replay has sent or failed since, or another dismissal closed, stays as it is', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503, 503, 503, 503]);
    const [sent, failing, twice, last] = events;
    assert.ok(sent && failing && twice && last);
    const id = await startWork(store, 'dismissals', { tenant });
    const outcomes = [
      delivered(sent, { kind: 'replay' }),
      failed(failing, { kind: 'replay' }),
      failed(twice, { kind: 'replay' }),
    ];
    await fixture.settle(owned, { outcomes });
    const selection = { eventIds: [twice.id] };
    await startWork(store, 'dismissals', { tenant, streams: [stream.id], selection });
    assert.equal(await reopen(fixture, id), 1);
    assert.deepEqual(await openIds(fixture, stream), idsOf([failing, last]));
    assert.equal((await fixture.health(stream))?.total, 2);
    assert.equal(await reopen(fixture, id), 1, 'a second one opens nothing');
    assert.deepEqual(await openIds(fixture, stream), idsOf([failing, last]));
  });

  test('reopen: refused where a stream would reach the limit, before the dismissal is done, and of none', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { dismissals } = store;
    const { stream, owned } = await withFailures(fixture, [503, 503]);
    const id = await startWork(store, 'dismissals', { tenant }, 0);
    assert.deepEqual(await dismissals.reopen(tenant, id, noLimit), { refused: 'running' });
    while ((await dismissals.step(tenant, id, dayMs)) !== 'done');
    assert.equal(await dismissals.reopen(tenant + 1, id, noLimit), 'unknown');
    assert.equal(await dismissals.reopen(tenant, 'dsm_2', noLimit), 'unknown');
    const full = { refused: 'too_many_failures', stream: stream.id };
    assert.deepEqual(await dismissals.reopen(tenant, id, 2), full);
    assert.equal((await fixture.health(stream))?.total, 0);
    // A failure that comes after the acceptance takes the place of one.
    assert.equal(await dismissals.reopen(tenant, id, 3), 'accepted');
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
    while ((await dismissals.step(tenant, id, dayMs)) !== 'done');
    assert.equal((await dismissals.get(tenant, id))?.reopened, 1);
    assert.equal((await fixture.health(stream))?.total, 2);
  });

  test('reopen: a disabled stream takes as many as it had, and an enabled one up to its limit', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, events } = await withFailures(fixture, [503, 503, 503]);
    const id = await startWork(store, 'dismissals', { tenant });
    const full = { refused: 'too_many_failures', stream: stream.id };
    assert.deepEqual(await store.dismissals.reopen(tenant, id, 3), full);
    await setStatus(fixture, stream, 'disabled');
    assert.equal(await reopen(fixture, id, 3), 3);
    assert.deepEqual(await openIds(fixture, stream), idsOf(events));
    assert.equal((await fixture.health(stream))?.total, 3);
    const next = await startWork(store, 'dismissals', { tenant });
    assert.equal(await store.dismissals.reopen(tenant, next, 3), 'accepted');
    // Enabled in the meantime: it would be disabled again.
    await setStatus(fixture, stream, 'enabled');
    while ((await store.dismissals.step(tenant, next, dayMs)) !== 'done');
    assert.equal((await store.dismissals.get(tenant, next))?.reopened, 2);
  });

  test('requests about many failures are over with the step that does the last work', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await withFailures(fixture, [503, 503]);
    await withFailures(fixture, [503], 'user.deleted');
    const dismissal = await startWork(store, 'dismissals', { tenant }, 0);
    await assertEndsAfter(fixture, 'dismissals', [dismissal, 2]);
    assert.equal(await store.dismissals.reopen(tenant, dismissal, noLimit), 'accepted');
    await assertEndsAfter(fixture, 'dismissals', [dismissal, 2]);
    const redelivery = await startWork(store, 'redeliveries', { tenant }, 0);
    await assertEndsAfter(fixture, 'redeliveries', [redelivery, 2]);
    await withFailures(fixture, [503], 'user.changed');
    const cancelled = await startWork(store, 'redeliveries', { tenant });
    assert.equal(await store.redeliveries.cancel(tenant, cancelled), 'cancelled');
    await assertEndsAfter(fixture, 'redeliveries', [cancelled, 3]);
  });

  test('reopen: a failure keeps its history when upkeep is about to remove what it passed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, events } = await withFailures(fixture, [503, 503]);
    const [first, second] = events;
    assert.ok(first && second);
    const selection = { eventIds: [second.id] };
    const id = await startWork(store, 'dismissals', { tenant, selection });
    fixture.now = start + 2 * dayMs;
    await fixture.publish('user.changed');
    const query = { olderThanMs: dayMs, take: 10 };
    assert.equal(await store.deliveries.pruneAttempts(query), 1, 'passes the open failures');
    assert.equal(await reopen(fixture, id), 1);
    while ((await store.deliveries.pruneAttempts(query)) > 0);
    while ((await store.upkeep.releaseKept(query)) > 0);
    const outcomes = (await failuresOf(fixture, stream)).map(
      ({ event, attempts }) => [event.id, attempts.map(({ outcome }) => outcome)] as const,
    );
    assert.deepEqual(
      new Map(outcomes),
      new Map([
        [first.id, ['failed']],
        [second.id, ['failed', 'dismissed']],
      ]),
    );
  });

  test('reopen: an event that a replay has delivered since stays delivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503]);
    const [event] = events;
    assert.ok(event);
    const id = await startWork(store, 'dismissals', { tenant });
    await fixture.settle(owned, { outcomes: [delivered(event, { kind: 'replay' })] });
    fixture.now = start + 2 * dayMs;
    await fixture.publish('user.changed');
    assert.equal(await reopen(fixture, id), 0);
    const found = { publishedAt: start, ...event };
    const { items } = await store.eventLog.deliveries(tenant, found, {
      after: undefined,
      take: 10,
    });
    assert.deepEqual(
      items.map(({ state, attempts }) => [state, attempts.map(({ outcome }) => outcome)]),
      [['delivered', ['failed', 'dismissed', 'delivered']]],
    );
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'delivered');
  });

  test('reopen: the history of a failure stays for its time once that is delivered', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503]);
    const [event] = events;
    assert.ok(event);
    assert.equal(await reopen(fixture, await startWork(store, 'dismissals', { tenant })), 1);
    await store.deliveries.redeliver(tenant, stream.id, event.id);
    await claimDue(fixture, owned);
    await fixture.settle(owned, { outcomes: [delivered(event, again)] });
    const outcomes = async () => {
      const { items } = await store.eventLog.attempts(tenant, stream.id, {
        after: undefined,
        take: 10,
      });
      return items.map(({ attempt }) => attempt.outcome);
    };
    const query = { olderThanMs: dayMs, take: 10 };
    while ((await store.upkeep.releaseKept(query)) > 0);
    assert.deepEqual(await outcomes(), ['delivered', 'redelivered', 'dismissed', 'failed']);
  });

  test('reopen: a stream that was deleted is left out', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const one = await withFailures(fixture, [503]);
    const two = await withFailures(fixture, [503], 'user.deleted');
    const id = await startWork(store, 'dismissals', { tenant });
    await store.streams.delete(tenant, one.stream.id);
    assert.equal(await reopen(fixture, id), 1);
    assert.deepEqual(await openIds(fixture, two.stream), idsOf(two.events));
  });
}

function dismissContract(engine: Engine): void {
  test('dismiss: closes failures; total falls, consecutive stays, the owner has to read the stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const { ownership } = fixture.store;
    const { stream, events } = await withFailures(fixture, [503, 503, 503]);
    const [first] = events;
    assert.ok(first);
    const ref = { tenant: stream.tenant, stream: stream.id };
    assert.equal(await ownership.hasSeen(ref), true);
    fixture.hints.length = 0;
    const filter = { eventIds: [first.id] };
    const dismissed = await dismissFailures(fixture.store, ref.tenant, ref.stream, filter);
    assert.deepEqual(dismissed, { dismissed: 1, skipped: 0 });
    assert.deepEqual(await fixture.health(stream), { consecutive: 3, total: 2 });
    assert.deepEqual(await openIds(fixture, stream), idsOf(events.slice(1)));
    assert.deepEqual(fixture.hints, [{ kind: 'stream', ...ref }]);
    assert.equal(await ownership.hasSeen(ref), false);
  });

  test('dismiss: a dismissed failure is not redelivered; a replay can make it a failure again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503]);
    const [event] = events;
    assert.ok(event);
    fixture.now = start + 1000;
    await dismissFailures(store, tenant, stream.id, {});
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'dismissed');
    assert.equal(await store.deliveries.redeliverMany(tenant, stream.id, {}), 0);
    await fixture.settle(owned, { outcomes: [failed(event, { kind: 'replay' })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.deepEqual(
      failure?.attempts.map(({ outcome, at }) => [outcome, at]),
      [
        ['failed', start],
        ['dismissed', start + 1000],
        ['failed', start + 1000],
      ],
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 1 });
    await fixture.settle(owned, { outcomes: [delivered(event, { kind: 'replay', hasRow: true })] });
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'delivered');
  });

  test('dismiss: failures that are being redelivered stay, and end as before', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503, 503, 503]);
    const [waits, runs] = events;
    assert.ok(waits && runs);
    for (const { id } of [waits, runs]) await store.deliveries.redeliver(tenant, stream.id, id);
    await claimDue(fixture, owned);
    await fixture.settle(owned, { outcomes: [retry(waits, { ...again, delayMs: 60_000 })] });
    const dismissed = { dismissed: 1, skipped: 2 };
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, {}), dismissed);
    assert.deepEqual(await openIds(fixture, stream), idsOf([waits, runs]));
    await fixture.settle(owned, { outcomes: [delivered(waits, again), failed(runs, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    assert.deepEqual(await openIds(fixture, stream), [runs.id]);
  });

  test('dismiss: deliveries that wait for a retry are no failures and stay', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, []);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { cursor: event.offset, outcomes: [retry(event)] });
    const nothing = { dismissed: 0, skipped: 0 };
    fixture.hints.length = 0;
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, {}), nothing);
    assert.deepEqual(await dismissFailures(store, tenant, 'est_unknown', {}), nothing);
    assert.deepEqual(fixture.hints, []);
    fixture.now += 60_000;
    assert.equal((await claimDue(fixture, owned)).rows.length, 1);
  });

  test('dismiss: a failure above the cursor stays until that has passed it, so that no owner sends it again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, []);
    const [pending, over] = await fixture.publish('user.created', 'user.created');
    assert.ok(pending && over);
    await fixture.settle(owned, { outcomes: [failed(over)] });
    const id = await startWork(store, 'dismissals', { tenant });
    assert.equal(await store.dismissals.step(tenant, id, dayMs), 'waiting');
    assert.deepEqual(await progressOf(fixture, id), ['running', 1, 0, 0]);
    // The owner crashes, and the next one knows which events above the cursor have ended.
    const next = await takeOver(fixture, 'node-b');
    assert.deepEqual([next.owned.cursor, next.owned.takenAbove], [owned.cursor, [over.offset]]);
    const settlement = { cursor: over.offset, outcomes: [delivered(pending)] };
    const batch = [settlementOf(next.owned, settlement)];
    await store.deliveries.settle(next.node, 1, batch, noLimits);
    while ((await store.dismissals.step(tenant, id, dayMs)) === 'more');
    assert.deepEqual(await progressOf(fixture, id), ['done', 1, 1, 0]);
    await store.ownership.heartbeat(next.node, 0);
    const last = await takeOver(fixture, 'node-c');
    assert.deepEqual([last.owned.cursor, last.owned.takenAbove], [over.offset, []]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });

  test('dismiss: a late result of a dismissed delivery is history only', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503, 503]);
    const [fails, succeeds] = events;
    assert.ok(fails && succeeds);
    await dismissFailures(store, tenant, stream.id, {});
    await fixture.settle(owned, { outcomes: [retry(fails, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 0 });
    await fixture.settle(owned, { outcomes: [delivered(succeeds, again)] });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
    assert.deepEqual(await openIds(fixture, stream), []);
  });

  test('dismiss: works on a disabled stream, and on test events', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, [503]);
    const event = { id: 'evt_test', type: 'user.created', time: start, body: '{}' };
    await store.deliveries.addTest(tenant, stream.id, event);
    const { rows } = await claimDue(fixture, owned);
    const tests = { kind: 'test', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: rows.map((row) => failed(row.event, tests)) });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    const dismissed = { dismissed: 2, skipped: 0 };
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, {}), dismissed);
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 0 });
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'dismissed');
  });

  test('dismiss: what the cursor does not pass within two seconds is skipped, what comes after it is not', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, []);
    const [, over, passed] = await fixture.publish('user.created', 'user.created', 'user.created');
    assert.ok(over && passed);
    await fixture.settle(owned, { outcomes: [failed(over)] });
    const event = { id: 'evt_test', type: 'user.created', time: start, body: '{}' };
    await store.deliveries.addTest(tenant, stream.id, event);
    const { rows } = await claimDue(fixture, owned);
    fixture.now += 1;
    const tests = { kind: 'test', hasRow: true } as const;
    await fixture.settle(owned, { outcomes: rows.map((row) => failed(row.event, tests)) });
    const id = await startWork(store, 'dismissals', { tenant });
    fixture.now += 1999;
    assert.equal(await store.dismissals.step(tenant, id, dayMs), 'waiting');
    assert.deepEqual(await progressOf(fixture, id), ['running', 2, 0, 0]);
    fixture.now += 1;
    while ((await store.dismissals.step(tenant, id, dayMs)) === 'more');
    assert.deepEqual(await progressOf(fixture, id), ['done', 2, 1, 1]);
    assert.deepEqual(await openIds(fixture, stream), [over.id]);
  });

  test('dismiss: thousands of failures are dismissed in steps, which another process continues', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, []);
    const events = await fixture.publish(...Array<string>(1700).fill('user.created'));
    const cursor = events.at(-1)?.offset ?? 0;
    await fixture.settle(owned, { cursor, outcomes: events.map((event) => failed(event)) });
    const [first] = events;
    assert.ok(first);
    await store.deliveries.redeliver(tenant, stream.id, first.id);
    const id = await startWork(store, 'dismissals', { tenant }, 2);
    assert.deepEqual(await store.dismissals.unfinished(10), [{ tenant, id }]);
    assert.deepEqual(await progressOf(fixture, id), ['running', 1700, 999, 1]);
    await Promise.all([1, 2, 3].map(() => store.dismissals.step(tenant, id, dayMs)));
    assert.deepEqual(await progressOf(fixture, id), ['done', 1700, 1699, 1]);
    assert.deepEqual(await store.dismissals.unfinished(10), []);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1700, total: 1 });
  });

  test('dismiss: failures that are opened after the acceptance are not dismissed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned } = await withFailures(fixture, [503]);
    const id = await startWork(store, 'dismissals', { tenant }, 0);
    const [late] = await fixture.publish('user.created');
    assert.ok(late);
    await fixture.settle(owned, { cursor: late.offset, outcomes: [failed(late)] });
    while ((await store.dismissals.step(tenant, id, dayMs)) === 'more');
    assert.deepEqual(await progressOf(fixture, id), ['done', 1, 1, 0]);
    assert.deepEqual(await openIds(fixture, stream), [late.id]);
  });

  test('dismiss: failures that end before their turn, and the rest of a deleted stream, are skipped', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const one = await withFailures(fixture, [503, 503]);
    const two = await withFailures(fixture, [503, 503, 503]);
    const [first] = one.events;
    assert.ok(first);
    const id = await startWork(store, 'dismissals', { tenant }, 0);
    await store.deliveries.redeliver(tenant, one.stream.id, first.id);
    await fixture.settle(one.owned, { outcomes: [delivered(first, again)] });
    await store.streams.delete(tenant, two.stream.id);
    assert.deepEqual(await progressOf(fixture, id), ['running', 5, 0, 3]);
    while ((await store.dismissals.step(tenant, id, dayMs)) === 'more');
    assert.deepEqual(await progressOf(fixture, id), ['done', 5, 1, 4]);
  });

  test('dismiss: leaves an entry in the audit log that names its streams, unless it is refused', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream } = await withFailures(fixture, [503]);
    const request = { tenant, streams: undefined, selection: {}, createdBy: 'robot' };
    const [entry, refused] = [newEntry(tenant), newEntry(tenant)];
    await store.recording(entry).dismissals.create({ ...request, id: 'dsm_first' });
    const recorded = await store.auditLog.get(tenant, entry.id);
    assert.deepEqual(recorded?.details.targets.slice(-2), ['dsm_first', stream.id]);
    for (let count = 1; count < 20; count += 1) {
      assert.equal(await store.dismissals.create({ ...request, id: `dsm_${count}` }), 'accepted');
    }
    const late = { ...request, id: 'dsm_20' };
    const result = await store.recording(refused).dismissals.create(late);
    assert.deepEqual(result, { refused: 'too_many' });
    assert.equal(await store.auditLog.get(tenant, refused.id), undefined);
  });
}

function filterContract(engine: Engine): void {
  test('dismiss: types, times of events and of failures, ids and codes select together', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, events } = await withFailures(fixture, [503, 404, 'timeout: none', 'dns: no']);
    const [first, second, third, fourth] = events;
    assert.ok(first && second && third && fourth);
    const open = async (filter: Parameters<typeof store.dismissals.groups>[2]) => {
      const groups = await store.dismissals.groups(tenant, stream.id, filter);
      return groups.map(({ sample }) => sample.eventId);
    };
    assert.deepEqual(await open({ types: ['user.deleted'] }), []);
    assert.deepEqual(await open({ types: [] }), []);
    assert.deepEqual(await open({ eventIds: [second.id, 'evt_unknown'] }), [second.id]);
    assert.deepEqual(await open({ eventIds: [] }), []);
    assert.deepEqual(await open({ from: start + 1 }), []);
    assert.deepEqual(await open({ to: start }), []);
    assert.deepEqual(await open({ from: start, to: start + 1, types: ['user.created'] }), [
      first.id,
      second.id,
      third.id,
      fourth.id,
    ]);
    const failedTwice = { failedFrom: start + 1, failedTo: start + 3 };
    assert.deepEqual(await open(failedTwice), [second.id, third.id]);
    assert.deepEqual(await open({ codes: ['http_5xx', 'dns'] }), [first.id, fourth.id]);
    assert.deepEqual(await open({ codes: ['http_404'], ...failedTwice }), [second.id]);
    const filter = { codes: ['timeout', 'http_4xx'], failedTo: start + 2 };
    const dismissed = { dismissed: 1, skipped: 0 };
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, filter), dismissed);
    assert.deepEqual(await openIds(fixture, stream), idsOf([first, third, fourth]));
  });

  test('dismiss: the code of a failure is that of its last failed attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await withFailures(fixture, [503]);
    const [event] = events;
    assert.ok(event);
    await store.deliveries.redeliver(tenant, stream.id, event.id);
    await claimDue(fixture, owned);
    const gone = { status: 410, error: '410 - gone' };
    await fixture.settle(owned, { outcomes: [failed(event, { ...again, ...gone })] });
    const none = { dismissed: 0, skipped: 0 };
    assert.deepEqual(
      await dismissFailures(store, tenant, stream.id, { codes: ['http_503'] }),
      none,
    );
    const one = { dismissed: 1, skipped: 0 };
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, { codes: ['http_410'] }), one);
  });

  test('dismiss: finds failures that were opened while the clock was ahead', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    fixture.now = start + 86_400_000;
    const { stream } = await withFailures(fixture, [503]);
    fixture.now = start;
    const dismissed = { dismissed: 1, skipped: 0 };
    assert.deepEqual(await dismissFailures(store, tenant, stream.id, {}), dismissed);
  });

  test('groups: counts open failures by code, those that are being redelivered too', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, events } = await withFailures(fixture, [503, 'reset: gone', 503]);
    const [first, second, third] = events;
    assert.ok(first && second && third);
    await store.deliveries.redeliver(tenant, stream.id, first.id);
    assert.deepEqual(await store.dismissals.groups(tenant, stream.id, {}), [
      {
        stream: stream.id,
        code: 'http_503',
        count: 2,
        firstFailedAt: start,
        lastFailedAt: start + 2,
        lastAttemptAt: undefined,
        sample: { eventId: third.id, eventType: 'user.created', error: '503 - no' },
      },
      {
        stream: stream.id,
        code: 'reset',
        count: 1,
        firstFailedAt: start + 1,
        lastFailedAt: start + 1,
        lastAttemptAt: undefined,
        sample: { eventId: second.id, eventType: 'user.created', error: 'reset: gone' },
      },
    ]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 3, total: 3 });
  });

  test('streams: names the streams of a tenant with open failures', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const one = await withFailures(fixture, [503]);
    const two = await withFailures(fixture, [503], 'user.deleted');
    const well = await withFailures(fixture, [], 'user.updated');
    const { id: other } = await addTenant(store, 'other');
    const ids = [one, two, well].map(({ stream }) => stream.id);
    assert.deepEqual(await store.dismissals.streams(tenant, undefined), ids.slice(0, 2));
    assert.deepEqual(await store.dismissals.streams(tenant, ids.slice(1)), ids.slice(1, 2));
    assert.deepEqual(await store.dismissals.streams(tenant, []), []);
    assert.deepEqual(await store.dismissals.streams(other, undefined), []);
    const none = { dismissed: 0, skipped: 0 };
    assert.deepEqual(await dismissFailures(store, other, one.stream.id, {}), none);
    assert.deepEqual(await fixture.health(one.stream), { consecutive: 1, total: 1 });
  });
}

function resultContract(engine: Engine): void {
  test('get: returns a dismissal to its tenant until it is pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { tenant, store } = fixture;
    const { dismissals } = store;
    await withFailures(fixture, [503, 503]);
    const created = { createdAt: fixture.now, createdBy: 'robot' };
    const first = await startWork(store, 'dismissals', { tenant });
    const counts = { total: 2, dismissed: 2, skipped: 0, reopened: 0, isAtLeast: false } as const;
    const expected = { id: first, status: 'done', ...counts, ...created };
    assert.deepEqual(await dismissals.get(tenant, first), expected);
    assert.equal(await dismissals.get(tenant, 'dsm_2'), undefined);
    assert.equal(await dismissals.get(tenant + 1, first), undefined);
    fixture.now += 1001;
    const second = await startWork(store, 'dismissals', { tenant });
    await fixture.publish('user.created');
    assert.equal(await dismissals.prune({ olderThanMs: 1000, take: 100 }), 1);
    assert.equal(await dismissals.get(tenant, first), undefined);
    assert.equal((await dismissals.get(tenant, second))?.status, 'done');
  });
}
