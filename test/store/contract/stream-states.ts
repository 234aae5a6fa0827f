import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { streamStateOf } from '../../../src/core/stream-state.ts';
import type { Stream } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { StreamFacts } from '../../../src/store/port/streams.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  createFixture,
  delivered,
  failed,
  type Fixture,
  fixtureOf,
  newId,
  parked,
  retry,
  start,
  waitRule,
} from './fixture.ts';

/** Defines the tests of the states of all streams, and of the facts of some. */
export function streamStatesContract(engine: Engine): void {
  describe(`${engine.name}: streams.states`, () => statesContract(engine));
  describe(`${engine.name}: streams.factsOf`, () => factsContract(engine));
}

const lags = { lagsOf: 'all' } as const;

async function change(fixture: Fixture, stream: Stream, to: Partial<Stream>): Promise<void> {
  const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, ...to },
  }));
  assert.ok('updated' in result);
}

/** Returns the states by id, and since when events wait. */
async function statesOf(
  fixture: Fixture,
  options: Parameters<Fixture['store']['streams']['states']>[1] = lags,
) {
  const { streams } = await fixture.store.streams.states(fixture.tenant, options);
  return new Map(streams.map((stream) => [stream.id, stream]));
}

function statesContract(engine: Engine): void {
  test('a tenant without streams has none, and an unknown one as well', async (t) => {
    const fixture = await createFixture(engine, t);
    const none = { now: start, streams: [] };
    assert.deepEqual(await fixture.store.streams.states(fixture.tenant, lags), none);
    assert.deepEqual(await fixture.store.streams.states(99, lags), none);
  });

  test('marks of a tenant are the same for the same streams in the same versions, and for no others', async (t) => {
    const fixture = await createFixture(engine, t);
    const tenant = await addTenant(fixture.store, 'other');
    const { streams } = fixture.store;
    const marks = [await streams.mark(fixture.tenant)];
    const noted = async (): Promise<void> => {
      marks.push(await streams.mark(fixture.tenant));
    };
    const first = await fixture.addStream();
    await noted();
    await change(fixture, first, { name: 'changed' });
    await noted();
    const second = await fixture.addStream();
    await noted();
    await streams.delete(fixture.tenant, second.id);
    await noted();
    await fixture.addStream();
    await noted();
    // The deletion left what there was before the creation.
    const [same] = marks.splice(4, 1);
    assert.equal(same, marks[2]);
    assert.equal(new Set(marks).size, 5, marks.join(', '));
    await fixtureOf(fixture.store, tenant.id).addStream();
    await fixture.publish('user.created');
    assert.equal(await streams.mark(fixture.tenant), marks.at(-1));
  });

  test('streams of another tenant are not among them', async (t) => {
    const fixture = await createFixture(engine, t);
    const tenant = await addTenant(fixture.store, 'other');
    const other = fixtureOf(fixture.store, tenant.id);
    const [stream] = [await fixture.addStream(), await other.addStream()];
    await other.publish('user.created');
    const { streams } = await fixture.store.streams.states(fixture.tenant, lags);
    assert.deepEqual(streams, [
      {
        id: stream.id,
        name: stream.name,
        version: stream.version,
        state: 'ok',
        openFailures: 0,
        lastFailedAt: undefined,
        waitingSince: undefined,
      },
    ]);
  });

  test('each state: the first that holds, with the counters', async (t) => {
    const fixture = await createFixture(engine, t);
    const all: Record<string, Stream> = {};
    for (const state of ['disabled', 'paused', 'failing', 'lagging', 'ok']) {
      const types = [state === 'ok' ? 'user.deleted' : 'user.created'];
      all[state] = await fixture.addStream({ types, name: `${state} "${newId('est')}" ünï` });
    }
    const { disabled, paused, failing, lagging, ok } = all;
    assert.ok(disabled && paused && failing && lagging && ok);
    const owned = await fixture.own(failing);
    const [event, second] = await fixture.publish('user.created', 'user.created');
    assert.ok(event && second);
    fixture.now += 1000;
    const outcomes = [failed(event), failed(second)];
    await fixture.settle(owned, { cursor: second.offset, outcomes });
    await change(fixture, disabled, { status: 'disabled', paused: { at: 0 } });
    await change(fixture, paused, { paused: { at: 0 } });
    fixture.now = start + 300_000;
    const states = await statesOf(fixture);
    for (const [state, { id, name }] of Object.entries(all)) {
      const found = states.get(id);
      assert.deepEqual([found?.state, found?.name], [state, name]);
    }
    assert.deepEqual(
      [disabled, paused, failing, lagging, ok].map(({ id }) => states.get(id)?.waitingSince),
      [start, start, undefined, start, undefined],
    );
    const counted = states.get(failing.id);
    assert.deepEqual([counted?.openFailures, counted?.lastFailedAt], [2, start + 1000]);
    const withoutLags = await statesOf(fixture, { lagsOf: 'lagging' });
    for (const { id, state } of states.values()) assert.equal(withoutLags.get(id)?.state, state);
    assert.equal(withoutLags.get(lagging.id)?.waitingSince, start);
  });

  /** Whether the stream fails, by each reading that says so. */
  async function isFailing(fixture: Fixture, stream: Stream): Promise<boolean> {
    const { store, tenant } = fixture;
    const listed = (await statesOf(fixture, { lagsOf: 'none' })).get(stream.id)?.state;
    const facts = await store.streams.facts(tenant, stream.id);
    assert.ok(facts);
    const { health, failingSince, overdueSince, now } = facts;
    const sources = {
      consecutive: health.consecutive,
      isRefused: false,
      failingSince,
      overdueSince,
    };
    const read = { status: 'enabled', isPaused: false, lagMs: 0, ...sources } as const;
    const overview = await store.overview.tenant(tenant);
    assert.deepEqual(
      [streamStateOf(read, now), overview?.streams.failing === 1],
      [listed, listed === 'failing'],
    );
    return listed === 'failing';
  }

  test('a stream fails from 60 s after the oldest attempt began that failed since its last success', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [a, b, c] = await fixture.publish('user.created', 'user.created', 'user.created');
    assert.ok(a && b && c);
    const later = { delayMs: 3_600_000 };
    fixture.now = start + 20_000;
    await fixture.settle(owned, { outcomes: [retry(b, { ...later, agoMs: 10_000 })] });
    fixture.now = start + 30_000;
    await fixture.settle(owned, { outcomes: [retry(a, { ...later, agoMs: 30_000 })] });
    fixture.now = start + 59_999;
    assert.equal(await isFailing(fixture, stream), false);
    fixture.now += 1;
    assert.equal(await isFailing(fixture, stream), true);
    // A success ends it; what fails after it, in the same batch as well, begins it again, wherever it began.
    await fixture.settle(owned, { outcomes: [delivered(c)] });
    assert.equal(await isFailing(fixture, stream), false);
    const again = { ...later, hasRow: true, agoMs: 20_000 };
    for (const outcomes of [[retry(a, again), delivered(c), retry(b, again)], [retry(b, again)]]) {
      await fixture.settle(owned, { outcomes });
      assert.equal(await isFailing(fixture, stream), false);
      const facts = await fixture.store.streams.facts(fixture.tenant, stream.id);
      assert.equal(facts?.failingSince, start + 60_000);
    }
    fixture.now += 60_000;
    assert.equal(await isFailing(fixture, stream), true);
    await change(fixture, stream, { status: 'disabled' });
    await change(fixture, stream, { status: 'enabled' });
    assert.equal(await isFailing(fixture, stream), false);
  });

  test('a stream fails from 60 s after an attempt was due that was not made', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [a, b] = await fixture.publish('user.created', 'user.created');
    assert.ok(a && b);
    await fixture.settle(owned, { outcomes: [parked(a, { leaseMs: 15_000 })] });
    fixture.now = start + 74_999;
    assert.equal(await isFailing(fixture, stream), false);
    fixture.now += 1;
    assert.equal(await isFailing(fixture, stream), true);
    await fixture.settle(owned, { outcomes: [delivered(b)] });
    assert.equal(await isFailing(fixture, stream), false);
    fixture.now += 60_000;
    assert.equal(await isFailing(fixture, stream), true);
    await fixture.settle(owned, { outcomes: [delivered(a, { hasRow: true })] });
    assert.equal(await isFailing(fixture, stream), false);
  });

  test('a stream lags after 300 s, of the oldest event that it wants and that has no row', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await fixture.publish('user.deleted');
    fixture.now += 1000;
    const [waiting, slow] = await fixture.publish('user.created', 'user.created');
    assert.ok(waiting && slow);
    fixture.now += 1000;
    await fixture.publish('user.created');
    const at = async () => (await statesOf(fixture)).get(stream.id);
    fixture.now = start + 300_999;
    assert.deepEqual([(await at())?.state, (await at())?.waitingSince], ['ok', start + 1000]);
    fixture.now += 1;
    assert.equal((await at())?.state, 'lagging');
    await fixture.settle(owned, { outcomes: [retry(waiting), parked(slow)] });
    assert.deepEqual([(await at())?.state, (await at())?.waitingSince], ['ok', start + 2000]);
    await fixture.settle(owned, { cursor: slow.offset + 1 });
    assert.equal((await at())?.waitingSince, undefined);
  });

  test('a wanted event in one of the next 10,000 is found, one after them is not', async (t) => {
    const fixture = await createFixture(engine, t);
    const near = await fixture.addStream({ types: ['user.created'] });
    const far = await fixture.addStream({ types: ['user.updated'] });
    const paused = await fixture.addStream({ types: ['user.created'] });
    await change(fixture, paused, { paused: { at: 0 } });
    for (let part = 0; part < 9; part += 1) {
      await fixture.publish(...Array<string>(1000).fill('user.deleted'));
    }
    const rest = Array<string>(999).fill('user.deleted');
    await fixture.publish(...rest, 'user.created', 'user.updated');
    fixture.now += 300_000;
    const states = await statesOf(fixture);
    assert.deepEqual(
      [near, far, paused].map(({ id }) => states.get(id)?.state),
      ['lagging', 'ok', 'paused'],
    );
    assert.equal(states.get(near.id)?.waitingSince, start);
    const facts = await fixture.store.streams.factsOf(fixture.tenant, [near.id, far.id]);
    const waiting = (count: number, oldestAt?: number) => ({ count, atLeast: true, oldestAt });
    assert.deepEqual(facts.get(near.id)?.waiting, waiting(1, start));
    assert.deepEqual(facts.get(far.id)?.waiting, waiting(0));
  });

  test('a change of types applies to the events after it, and lags of less than 90 s are left out', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['user.deleted'] });
    await fixture.publish('user.created');
    await fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
      after: {
        ...before,
        subscriptions: [...before.subscriptions, { after: head, types: ['user.created'] }],
      },
    }));
    fixture.now += 5000;
    await fixture.publish('user.deleted', 'user.created');
    fixture.now += 89_999;
    assert.equal((await statesOf(fixture)).get(stream.id)?.waitingSince, undefined);
    fixture.now += 1;
    assert.equal((await statesOf(fixture)).get(stream.id)?.waitingSince, start + 5000);
    const facts = await fixture.store.streams.facts(fixture.tenant, stream.id);
    assert.deepEqual(facts?.waiting, { count: 1, atLeast: false, oldestAt: start + 5000 });
  });

  test('streams that were created, changed or deleted since a reading, are right in the next one', async (t) => {
    const fixture = await createFixture(engine, t);
    const [renamed, paused, disabled, deleted] = [
      await fixture.addStream(),
      await fixture.addStream(),
      await fixture.addStream(),
      await fixture.addStream(),
    ];
    const shown = async () => {
      const { streams } = await fixture.store.streams.states(fixture.tenant, lags);
      return streams.map(({ id, name, state, version }) => [id, name, state, version]);
    };
    const first = [renamed, paused, disabled, deleted];
    assert.deepEqual(
      await shown(),
      first.map(({ id, name }) => [id, name, 'ok', 1]),
    );
    await change(fixture, renamed, { name: 'another' });
    await change(fixture, paused, { paused: { at: 0 } });
    await change(fixture, disabled, { status: 'disabled' });
    await fixture.store.streams.delete(fixture.tenant, deleted.id);
    const created = await fixture.addStream();
    assert.deepEqual(await shown(), [
      [renamed.id, 'another', 'ok', 2],
      [paused.id, paused.name, 'paused', 2],
      [disabled.id, disabled.name, 'disabled', 2],
      [created.id, created.name, 'ok', 1],
    ]);
  });

  test('events since a reading count in the next one, and pruned ones do not', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const other = await fixture.addStream({ types: ['user.updated'] });
    const publish = (count: number, type: string) =>
      fixture.publish(...Array<string>(count).fill(type));
    const shown = async () => {
      const ids = [stream.id, other.id];
      const facts = await fixture.store.streams.factsOf(fixture.tenant, ids);
      const states = await statesOf(fixture);
      return ids.map((id) => [
        facts.get(id)?.waiting.count,
        facts.get(id)?.waiting.oldestAt,
        states.get(id)?.waitingSince,
      ]);
    };
    await publish(40, 'user.deleted');
    fixture.now += 100_000;
    const none = [0, undefined, undefined];
    assert.deepEqual(await shown(), [none, none]);
    await publish(100, 'user.created');
    fixture.now += 100_000;
    assert.deepEqual(await shown(), [[100, start + 100_000, start + 100_000], none]);
    await publish(10, 'user.updated');
    fixture.now += 100_000;
    assert.deepEqual(await shown(), [
      [100, start + 100_000, start + 100_000],
      [10, start + 200_000, start + 200_000],
    ]);
    for (const each of [stream, other]) await change(fixture, each, { status: 'disabled' });
    fixture.now += 3 * 86_400_000;
    const last = fixture.now;
    await publish(1, 'user.created');
    fixture.now += 100_000;
    const query = { olderThanMs: 86_400_000, take: 1000 };
    while ((await fixture.store.log.prune(fixture.tenant, query)) > 0);
    assert.deepEqual(await shown(), [[1, last, last], none]);
  });

  test('hundreds of streams: each one once', async (t) => {
    const fixture = await createFixture(engine, t);
    const ids: string[] = [];
    for (let n = 0; n < 700; n += 1) ids.push((await fixture.addStream()).id);
    await fixture.publish('user.created');
    fixture.now += 90_000;
    const { streams } = await fixture.store.streams.states(fixture.tenant, lags);
    assert.deepEqual(
      streams.map(({ id, waitingSince }) => `${id} ${waitingSince}`).toSorted(),
      ids.map((id) => `${id} ${start}`),
    );
  });

  test('endpointHosts and opened: those that exist, of this tenant', async (t) => {
    const fixture = await createFixture(engine, t);
    const tenant = await addTenant(fixture.store, 'other');
    const stream = await fixture.addStream();
    const foreign = await fixtureOf(fixture.store, tenant.id).addStream();
    const ids = [stream.id, foreign.id, newId('est')];
    const { streams } = fixture.store;
    assert.deepEqual(
      [...(await streams.endpointHosts(fixture.tenant, ids))],
      [[stream.id, 'hooks.example.net']],
    );
    const [opened, ...others] = await streams.opened(fixture.tenant, ids);
    assert.deepEqual([opened?.[0], others], [stream.id, []]);
    assert.deepEqual({ ...opened?.[1], subscriptions: stream.subscriptions }, stream);
  });
}

function factsContract(engine: Engine): void {
  test('unknown streams and those of other tenants have none', async (t) => {
    const fixture = await createFixture(engine, t);
    const tenant = await addTenant(fixture.store, 'other');
    const foreign = await fixtureOf(fixture.store, tenant.id).addStream();
    const { factsOf } = fixture.store.streams;
    assert.equal((await factsOf(fixture.tenant, [foreign.id, newId('est')])).size, 0);
    assert.equal((await factsOf(fixture.tenant, [])).size, 0);
  });

  test('many streams have the facts that each has alone', async (t) => {
    const fixture = await createFixture(engine, t);
    const streams = await variedStreams(fixture);
    fixture.now += 400_000;
    const ids = streams.map(({ id }) => id);
    const together = await fixture.store.streams.factsOf(fixture.tenant, ids);
    const states = await statesOf(fixture);
    let waiting = 0;
    for (const id of ids) {
      const alone: StreamFacts | undefined = await fixture.store.streams.facts(fixture.tenant, id);
      assert.ok(alone);
      assert.deepEqual(together.get(id), alone);
      assert.equal(states.get(id)?.waitingSince, alone.waiting.oldestAt);
      waiting += alone.waiting.count;
    }
    assert.ok(waiting > 100, `${waiting} events wait`);
  });

  test('streams with megabytes of types are read in parts, between which other work has turns', async (t) => {
    const fixture = await createFixture(engine, t);
    const types = Array.from({ length: 1000 }, (_, n) => `a${'b'.repeat(115)}.t${n}`);
    const ids: string[] = [];
    for (let n = 0; n < 40; n += 1) {
      ids.push((await fixture.addStream({ types: [...types, `user.type_${n}`] })).id);
    }
    await fixture.publish('user.type_0', 'user.type_39');
    const { factsOf, endpointHosts, opened } = fixture.store.streams;
    const { result: facts, turns } = await countTurns(() => factsOf(fixture.tenant, ids));
    assert.deepEqual(
      ids.map((id) => facts.get(id)?.waiting.count),
      ids.map((_, n) => (n === 0 || n === 39 ? 1 : 0)),
    );
    // 5 MB, half a megabyte at a time.
    assert.ok(turns >= 10, `${turns} turns`);
    const many = Array.from({ length: 50 }, () => ids).flat();
    for (const read of [endpointHosts, opened]) {
      const counted = await countTurns(async () => (await read(fixture.tenant, many)).size);
      assert.equal(counted.result, ids.length);
      assert.ok(counted.turns >= 20, `${counted.turns} turns`);
    }
  });

  test('retrying: the deliveries of a tenant that wait for an attempt', async (t) => {
    const fixture = await createFixture(engine, t);
    const [one, two] = [await fixture.addStream(), await fixture.addStream()];
    const first = await fixture.own(one);
    const second = await ownedAgain(fixture, two, [first]);
    const [a, b, c] = await fixture.publish('user.created', 'user.created', 'user.created');
    assert.ok(a && b && c);
    assert.equal(await fixture.store.streams.retrying(fixture.tenant), 0);
    await fixture.settle(first, { outcomes: [retry(a), failed(b), parked(c)] });
    await fixture.settle(second, { outcomes: [retry(a), retry(b)] });
    assert.equal(await fixture.store.streams.retrying(fixture.tenant), 3);
    assert.equal(await fixture.store.streams.retrying(99), 0);
  });

  test('statsSums: the sums of hours, of streams with any', async (t) => {
    const fixture = await createFixture(engine, t);
    const [stream, idle] = [await fixture.addStream(), await fixture.addStream()];
    const owned = await fixture.own(stream);
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    await fixture.settle(owned, { outcomes: [delivered(one)] });
    fixture.now += 3_600_000;
    await fixture.settle(owned, { outcomes: [failed(two)] });
    const window = { from: start - 3_600_000, to: start + 7_200_000 };
    const sums = await fixture.store.streams.statsSums(
      fixture.tenant,
      [stream.id, idle.id],
      window,
    );
    assert.deepEqual([...sums], [[stream.id, { delivered: 1, failed: 1 }]]);
  });
}

/** Returns the result of work, and how often other work had a turn of the event loop meanwhile. */
async function countTurns<T>(work: () => Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0;
  let timer = setImmediate(function turn() {
    turns += 1;
    timer = setImmediate(turn);
  });
  try {
    const result = await work();
    return { result, turns };
  } finally {
    clearImmediate(timer);
  }
}

/** Creates streams with different types and cursors, rows above some of them, and different states. */
async function variedStreams(fixture: Fixture): Promise<Stream[]> {
  const types = Array.from({ length: 5 }, (_, n) => `user.type_${n}`);
  const streams: Stream[] = [];
  for (let n = 0; n < 24; n += 1) {
    const wanted = types.filter((_, type) => (n >> type) % 2 === 0);
    streams.push(await fixture.addStream({ types: wanted }));
  }
  const owned: OwnedStream[] = [];
  for (const stream of streams) owned.push(await ownedAgain(fixture, stream, owned));
  const published = Array.from({ length: 400 }, (_, n) => types[(n * n + n) % 5] ?? '');
  const events = await fixture.publish(...published);
  for (const [index, each] of owned.entries()) {
    const cursor = (index * 37) % 400;
    const above = events.filter(({ offset }) => offset > cursor && offset % 41 === index);
    await fixture.settle(each, { cursor, outcomes: above.map((event) => failed(event)) });
    const stream = streams[index];
    assert.ok(stream);
    if (index % 5 === 0) await change(fixture, stream, { status: 'disabled' });
    if (index % 5 === 1) await change(fixture, stream, { paused: { at: 0 } });
  }
  return streams;
}

/** Claims all streams at the first call; the later ones find theirs among them. */
async function ownedAgain(fixture: Fixture, stream: Stream, owned: readonly OwnedStream[]) {
  if (owned.length === 0) return fixture.own(stream);
  const refs = [{ tenant: fixture.tenant, stream: stream.id }];
  const [found] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
  assert.ok(found);
  return found;
}
