import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NewFailureWork } from '../../../src/store/port/failure-work.ts';
import { newEntry } from './audit-log.ts';
import type { Engine } from './engine.ts';
import { startWork } from './failure-work.ts';
import {
  addTenant,
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  type Fixture,
  retry,
} from './fixture.ts';

/** Defines the tests of redeliveries of many failures. */
export function redeliveriesContract(engine: Engine): void {
  describe(`${engine.name}: redeliveries`, () => {
    progressContract(engine);
    describe('their ends and records', { tags: engine.sharedTags }, () => {
      cancelContract(engine);
      recordsContract(engine);
    });
  });
}

const again = { kind: 'redelivery', hasRow: true } as const;

/** Creates a stream whose events failed with these statuses, a millisecond between two. */
async function failing(fixture: Fixture, ...statuses: readonly number[]) {
  const stream = await fixture.addStream();
  const owned = await fixture.own(stream);
  const events = await fixture.publish(...statuses.map(() => 'user.created'));
  for (const [index, event] of events.entries()) {
    const status = statuses[index];
    const outcomes = [failed(event, { status, error: `${status} - no` })];
    await fixture.settle(owned, { cursor: event.offset, outcomes });
    fixture.now += 1;
  }
  return { stream, owned, events };
}

/** Accepts a request; without `steps` of all its streams. */
const start = (fixture: Fixture, request: Partial<NewFailureWork> = {}, steps = Infinity) =>
  startWork(fixture.store, 'redeliveries', { tenant: fixture.tenant, ...request }, steps);

/** Does all the work that a request has left. */
async function workOn({ store, tenant }: Fixture, id: string): Promise<void> {
  while ((await store.redeliveries.step(tenant, id, 0)) !== 'done');
}

async function progressOf(fixture: Fixture, id: string) {
  const found = await fixture.store.redeliveries.get(fixture.tenant, id);
  assert.ok(found);
  const { status, total, delivered: sent, failed: lost, skipped } = found;
  return [status, total, sent, lost, skipped];
}

function progressContract(engine: Engine): void {
  test('redeliveries: failures of all streams begin a cycle, and their ends are counted', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await failing(fixture, 503, 404);
    const two = await failing(fixture, 503);
    fixture.hints.length = 0;
    const id = await start(fixture);
    assert.deepEqual(await progressOf(fixture, id), ['running', 3, 0, 0, 0]);
    assert.deepEqual(
      fixture.hints.map((hint) => ('stream' in hint ? hint.stream : '')),
      [one.stream.id, two.stream.id].toSorted(),
    );
    const { rows } = await claimDue(fixture, one.owned);
    assert.deepEqual(
      rows.map(({ kind, attempt }) => [kind, attempt]),
      [
        ['redelivery', 1],
        ['redelivery', 1],
      ],
    );
    const [first, second] = one.events;
    const [third] = two.events;
    assert.ok(first && second && third);
    await fixture.settle(one.owned, {
      outcomes: [delivered(first, again), retry(second, again)],
    });
    assert.deepEqual(await progressOf(fixture, id), ['running', 3, 1, 0, 0]);
    await fixture.settle(one.owned, { outcomes: [failed(second, { ...again, attempt: 2 })] });
    await fixture.settle(two.owned, { outcomes: [delivered(third, again)] });
    assert.deepEqual(await progressOf(fixture, id), ['done', 3, 2, 1, 0]);
    const [left] = await failuresOf(fixture, one.stream);
    assert.deepEqual(
      left?.attempts.map(({ outcome }) => outcome),
      ['failed', 'redelivered', 'failed', 'failed'],
    );
    await fixture.store.deliveries.redeliver(fixture.tenant, one.stream.id, second.id);
    await fixture.settle(one.owned, { outcomes: [delivered(second, again)] });
    assert.deepEqual(await progressOf(fixture, id), ['done', 3, 2, 1, 0]);
  });

  test('redeliveries: a cycle counts once, with the first of two results that are recorded together', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await failing(fixture, 503, 503);
    const id = await start(fixture);
    const [one, two] = events;
    assert.ok(one && two);
    // The lease of both rows ended before their first attempts did.
    await fixture.settle(owned, {
      outcomes: [
        failed(one, again),
        delivered(two, again),
        delivered(one, again),
        failed(two, again),
      ],
    });
    assert.deepEqual(await progressOf(fixture, id), ['done', 2, 1, 1, 0]);
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 0 });
  });

  test('redeliveries: codes, streams and times select; those under redelivery are skipped', async (t) => {
    const fixture = await createFixture(engine, t);
    const one = await failing(fixture, 503, 503, 404);
    const two = await failing(fixture, 503);
    const [under] = one.events;
    assert.ok(under);
    await fixture.store.deliveries.redeliver(fixture.tenant, one.stream.id, under.id);
    const selection = { codes: ['http_5xx'] };
    const id = await start(fixture, { streams: [one.stream.id], selection });
    assert.deepEqual(await progressOf(fixture, id), ['running', 2, 0, 0, 1]);
    const none = await start(fixture, { selection: { codes: ['timeout'] } });
    assert.deepEqual(await progressOf(fixture, none), ['done', 0, 0, 0, 0]);
    const failedTo = (await failuresOf(fixture, two.stream))[0]?.failedAt;
    const before = await start(fixture, { selection: { failedTo } });
    assert.deepEqual(await progressOf(fixture, before), ['running', 3, 0, 0, 2]);
  });

  test('redeliveries: failures that are opened after the acceptance are not taken', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned } = await failing(fixture, 503);
    const id = await start(fixture, {}, 0);
    fixture.now += 1000;
    const [late] = await fixture.publish('user.created');
    assert.ok(late);
    await fixture.settle(owned, { cursor: late.offset, outcomes: [failed(late)] });
    await workOn(fixture, id);
    assert.deepEqual(await progressOf(fixture, id), ['running', 1, 0, 0, 0]);
    assert.equal((await failuresOf(fixture, stream)).length, 2);
  });

  test('redeliveries: what a process leaves undone is listed, and another one continues it', async (t) => {
    const fixture = await createFixture(engine, t);
    const { redeliveries } = fixture.store;
    for (let streams = 0; streams < 3; streams += 1) await failing(fixture, 503, 503);
    const id = await start(fixture, {}, 1);
    assert.deepEqual(await redeliveries.unfinished(10), [{ tenant: fixture.tenant, id }]);
    assert.deepEqual(await progressOf(fixture, id), ['running', 6, 0, 0, 0]);
    await Promise.all([1, 2, 3, 4].map(() => redeliveries.step(fixture.tenant, id, 0)));
    assert.equal(await redeliveries.step(fixture.tenant, id, 0), 'done');
    assert.deepEqual(await progressOf(fixture, id), ['running', 6, 0, 0, 0]);
    assert.deepEqual(await redeliveries.unfinished(10), []);
  });

  test('redeliveries: the rest of a stream that is deleted counts as skipped', async (t) => {
    const fixture = await createFixture(engine, t);
    const { stream, owned, events } = await failing(fixture, 503, 503, 503);
    const [first] = events;
    assert.ok(first);
    const id = await start(fixture);
    await fixture.settle(owned, { outcomes: [delivered(first, again)] });
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    assert.deepEqual(await progressOf(fixture, id), ['done', 3, 1, 0, 2]);
  });
}

function cancelContract(engine: Engine): void {
  test('redeliveries: cancelling returns what has not begun to the failures', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { stream, owned, events } = await failing(fixture, 503, 503, 503);
    const [first, second] = events;
    assert.ok(first && second);
    const id = await start(fixture);
    const { rows } = await claimDue(fixture, owned, 2);
    assert.equal(rows.length, 2);
    await fixture.settle(owned, { outcomes: [retry(first, { ...again, delayMs: 5000 })] });
    assert.equal(await store.redeliveries.cancel(tenant, id), 'cancelled');
    await workOn(fixture, id);
    assert.deepEqual(await progressOf(fixture, id), ['cancelled', 3, 0, 0, 1]);
    assert.equal(await store.redeliveries.cancel(tenant, id), 'over');
    assert.deepEqual(await fixture.health(stream), { consecutive: 3, total: 3 });
    await fixture.settle(owned, {
      outcomes: [
        delivered(first, { ...again, attempt: 2 }),
        failed(second, { ...again, attempt: 1 }),
      ],
    });
    assert.deepEqual(await progressOf(fixture, id), ['cancelled', 3, 1, 1, 1]);
    fixture.now += 60_000;
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
    assert.equal(await store.deliveries.redeliverMany(tenant, stream.id, {}), 2);
  });

  test('redeliveries: one that is cancelled while it takes streams takes no other', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (let streams = 0; streams < 3; streams += 1) await failing(fixture, 503);
    const id = await start(fixture, {}, 1);
    await store.redeliveries.cancel(tenant, id);
    await workOn(fixture, id);
    assert.deepEqual(await progressOf(fixture, id), ['cancelled', 3, 0, 0, 3]);
    const other = await addTenant(store, 'other');
    assert.equal(await store.redeliveries.cancel(other.id, id), 'unknown');
    assert.equal(await store.redeliveries.get(other.id, id), undefined);
  });
}

function recordsContract(engine: Engine): void {
  test('redeliveries: listed newest first in pages, and pruned when they are old', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await failing(fixture, 503);
    const ids: string[] = [];
    for (let count = 0; count < 5; count += 1) ids.unshift(await start(fixture));
    const unfinished = await start(fixture, {}, 0);
    const seen: string[] = [];
    let after: string | undefined;
    do {
      const page = await store.redeliveries.list(tenant, { after, take: 2 });
      seen.push(...page.items.map(({ id }) => id));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(seen, [unfinished, ...ids]);
    fixture.now += 60_000;
    await fixture.publish('user.created');
    assert.equal(await store.redeliveries.prune({ olderThanMs: 1000, take: 3 }), 3);
    assert.equal(await store.redeliveries.prune({ olderThanMs: 1000, take: 3 }), 2);
    assert.equal(await store.redeliveries.prune({ olderThanMs: 1000, take: 3 }), 0);
    const left = await store.redeliveries.list(tenant, { after: undefined, take: 10 });
    assert.deepEqual(
      left.items.map(({ id }) => id),
      [unfinished],
    );
  });

  test('redeliveries: the 21st without all of its cycles begun is refused; each change leaves an entry', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await failing(fixture, 503);
    const base = { tenant, streams: undefined, selection: {}, createdBy: 'robot' };
    const [created, cancelled] = [newEntry(tenant), newEntry(tenant)];
    const first = { ...base, id: 'rdl_first' };
    await store.recording(created).redeliveries.create(first);
    for (let count = 1; count < 20; count += 1) {
      assert.equal(await store.redeliveries.create({ ...base, id: `rdl_${count}` }), 'accepted');
    }
    const refused = newEntry(tenant);
    const result = await store.recording(refused).redeliveries.create({ ...base, id: 'rdl_20' });
    assert.deepEqual(result, { refused: 'too_many' });
    await store.recording(cancelled).redeliveries.cancel(tenant, 'rdl_first');
    const entries = [created, refused, cancelled].map(({ id }) => store.auditLog.get(tenant, id));
    assert.deepEqual(
      (await Promise.all(entries)).map((entry) => entry !== undefined),
      [true, false, true],
    );
  });
}
