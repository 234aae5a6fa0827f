import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withSelection } from '../../../src/core/subscription.ts';
import type { ClaimFilter, Heartbeat, OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Node } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  claimDue,
  createFixture,
  failed,
  failuresOf,
  leaseMs,
  newEvent,
  nextClaim,
  parked,
  raiseOf,
  retry,
  fixtureOf,
  start,
  type Fixture,
  waitRule,
} from './fixture.ts';

export function ownershipContract(engine: Engine): void {
  describe(`${engine.name}: ownership.join`, () => joinContract(engine));
  describe(`${engine.name}: ownership.claim`, () => claimContract(engine));
  describe(`${engine.name}: ownership.heartbeat`, () => leaseContract(engine));
  describe(`${engine.name}: ownership.owned`, () => ownedContract(engine));
  describe(`${engine.name}: ownership.noteRefusal`, () => refusalContract(engine));
  describe(`${engine.name}: cursors without a match`, () => cursorsContract(engine));
  describe(`${engine.name}: a change that the owner has not seen`, () =>
    unseenChangeContract(engine));
  describe(`${engine.name}: ownership.release`, () => releaseContract(engine));
  if (engine.keepsData) describe(`${engine.name}: the next process`, () => reopenContract(engine));
}

const later = start + 60_000;

const claim = (fixture: Fixture, node: Node, take = 100) =>
  fixture.store.ownership.claim(node, { claim: nextClaim(), take, ...waitRule });

/** Renews the lease of a node that the store knows. */
async function renewed({ store }: Fixture, node: Node): Promise<Heartbeat> {
  const heartbeat = await store.ownership.heartbeat(node, leaseMs);
  assert.ok(heartbeat !== undefined && heartbeat !== 'removed');
  return heartbeat;
}

const refOf = ({ stream }: OwnedStream) => ({ tenant: stream.tenant, stream: stream.id });

async function nowOwned(fixture: Fixture, owned: OwnedStream): Promise<OwnedStream | undefined> {
  const [now] = await fixture.store.ownership.owned(await fixture.node(), [refOf(owned)], waitRule);
  return now;
}

function joinContract(engine: Engine): void {
  test('join: the incarnation of the node rises each time, those of others do not', async (t) => {
    const { store } = await createFixture(engine, t);
    const { join } = store.ownership;
    assert.deepEqual(await join('node-a', leaseMs), { id: 'node-a', incarnation: 1 });
    assert.deepEqual(await join('node-a', leaseMs), { id: 'node-a', incarnation: 2 });
    assert.deepEqual(await join('node-b', leaseMs), { id: 'node-b', incarnation: 1 });
  });

  test('join: a node that joins again releases its streams', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const before = await fixture.own(stream);
    const node = await fixture.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(fixture, node);
    assert.equal(again?.epoch, before.epoch + 1);
  });
}

function claimContract(engine: Engine): void {
  test('claim: an enabled stream is claimed once, and its epoch rises', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [owned, ...more] = await claim(fixture, await fixture.node());
    assert.deepEqual(more, []);
    assert.deepEqual(owned, {
      stream,
      tenantName: 'main',
      epoch: 1,
      run: 1,
      cursor: 0,
      waiting: 0,
      waitingReplays: 0,
      health: { consecutive: 0, total: 0 },
      nextDueInMs: undefined,
      replay: undefined,
      takenAbove: [],
      keys: [],
      isRefused: false,
    });
    assert.deepEqual(await claim(fixture, await fixture.node()), []);
    const other = await fixture.store.ownership.join('node-b', leaseMs);
    assert.deepEqual(await claim(fixture, other), []);
  });

  test('claim: takes at most as many streams as requested, from all tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store } = fixture;
    const other = await addTenant(store, 'other');
    await fixture.addStream();
    await fixture.addStream();
    await fixtureOf(store, other.id).addStream();
    const node = await fixture.node();
    const first = await claim(fixture, node, 2);
    assert.equal(first.length, 2);
    const second = await claim(fixture, node, 2);
    assert.deepEqual(
      second.map(({ tenantName }) => tenantName),
      ['other'],
    );
  });

  test('claim: two nodes never own the same stream', async (t) => {
    const fixture = await createFixture(engine, t);
    for (let count = 0; count < 10; count += 1) await fixture.addStream();
    const nodes = [await fixture.node(), await fixture.store.ownership.join('node-b', leaseMs)];
    // A node claims again once it has the result.
    const claims = await Promise.all(
      nodes.map(async (node) => [await claim(fixture, node, 3), await claim(fixture, node, 3)]),
    );
    const ids = claims.flat(2).map(({ stream }) => stream.id);
    assert.equal(ids.length, 10);
    assert.equal(new Set(ids).size, 10);
  });

  test('claim: takes a disabled stream only while it has something to send', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const owned = await fixture.own(stream);
    fixture.limits = { consecutive: 1, total: 10 };
    await fixture.settle(owned, { cursor: 1, outcomes: [failed(event)] });
    const node = await fixture.node();
    await fixture.store.ownership.release(node, [raiseOf({ ...owned, cursor: 1 })]);
    assert.deepEqual(await claim(fixture, node), []);
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
    const [again] = await claim(fixture, node);
    assert.deepEqual([again?.stream.status, again?.nextDueInMs], ['disabled', 0]);
  });

  test('claim: parked rows are due at once with the same attempt; waiting ones keep their time', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [inFlight, waits] = await fixture.publish('user.created', 'user.created');
    assert.ok(inFlight && waits);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, {
      outcomes: [
        parked(inFlight, { attempt: 3, leaseMs: 15_000 }),
        retry(waits, { delayMs: later - start }),
      ],
    });
    const node = await fixture.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(fixture, node);
    assert.deepEqual([again?.nextDueInMs, again?.waiting], [0, 2]);
    assert.ok(again);
    const { rows, nextDueInMs } = await claimDue(fixture, again);
    assert.deepEqual(
      rows.map(({ event, attempt, kind }) => [event.id, attempt, kind]),
      [[inFlight.id, 3, 'first']],
    );
    assert.equal(nextDueInMs, later - start);
  });

  test('claim: on a disabled stream parked rows become failures, and redeliveries continue', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream();
    const [open, inFlight] = await fixture.publish('user.created', 'user.created');
    assert.ok(open && inFlight);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [failed(open), parked(inFlight)] });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    await store.deliveries.redeliver(tenant, stream.id, open.id);
    await claimDue(fixture, owned);
    fixture.now = later;
    const node = await store.ownership.join('node-a', leaseMs);
    const [again] = await claim(fixture, node);
    assert.ok(again);
    assert.deepEqual([again.waiting, again.nextDueInMs], [0, 0]);
    const { rows } = await claimDue(fixture, again);
    assert.deepEqual(
      rows.map(({ event, attempt }) => [event.id, attempt]),
      [[open.id, 1]],
    );
    const failure = await store.deliveries.failure(tenant, stream.id, inFlight.id);
    assert.deepEqual(
      [failure?.failedAt, failure?.attempts.map(({ error }) => error)],
      [later, ['The event stream is disabled']],
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
    assert.equal((await failuresOf(fixture, stream)).length, 2);
  });

  test('claim: returns rows above the cursor, so that they are not sent a second time', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const events = await fixture.publish(...Array.from({ length: 5 }, () => 'user.created'));
    const [one, two, , four, five] = events;
    assert.ok(one && two && four && five);
    const owned = await fixture.own(stream);
    const outcomes = [failed(one), failed(five), retry(two), parked(four)];
    await fixture.settle(owned, { cursor: 1, outcomes });
    const node = await fixture.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(fixture, node);
    assert.deepEqual([again?.cursor, again?.takenAbove], [1, [2, 4, 5]]);
  });

  test('claim: redeliveries do not count as waiting', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [failed(one), retry(two)] });
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, one.id);
    assert.equal((await nowOwned(fixture, owned))?.waiting, 1);
  });

  test('claim: a former incarnation takes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.addStream();
    const former = await fixture.node();
    await fixture.store.ownership.join('node-a', leaseMs);
    assert.deepEqual(await claim(fixture, former), []);
    assert.deepEqual(await claim(fixture, { id: 'node-z', incarnation: 1 }), []);
  });
}

function leaseContract(engine: Engine): void {
  const twoNodes = async (fixture: Fixture): Promise<[Node, Node]> => [
    await fixture.node(),
    await fixture.store.ownership.join('node-b', leaseMs),
  ];

  test('heartbeat: no other node takes the streams while the lease lasts, any node does afterwards', async (t) => {
    const fixture = await createFixture(engine, t);
    const { heartbeat } = fixture.store.ownership;
    const before = await fixture.own(await fixture.addStream());
    const [node, other] = await twoNodes(fixture);
    await heartbeat(node, leaseMs);
    assert.deepEqual(await claim(fixture, other), []);
    await heartbeat(node, 0);
    const [taken] = await claim(fixture, other);
    assert.equal(taken?.epoch, before.epoch + 1);
    assert.equal(await nowOwned(fixture, before), undefined);
    assert.equal((await fixture.settle(before, { cursor: 1 })).result, 'lost');
  });

  test('heartbeat: a node whose lease has ended takes nothing, and keeps streams that no node took', async (t) => {
    const fixture = await createFixture(engine, t);
    const { heartbeat } = fixture.store.ownership;
    const owned = await fixture.own(await fixture.addStream());
    const node = await fixture.node();
    await heartbeat(node, 0);
    await fixture.addStream();
    assert.deepEqual(await claim(fixture, node), []);
    assert.equal((await renewed(fixture, node)).lapsed, true, 'the result reports it');
    assert.equal((await renewed(fixture, node)).lapsed, false);
    assert.equal((await nowOwned(fixture, owned))?.epoch, owned.epoch);
    assert.equal((await claim(fixture, node)).length, 1);
  });

  test('heartbeat: returns the fair share of streams', async (t) => {
    const fixture = await createFixture(engine, t);
    const { leave } = fixture.store.ownership;
    for (let count = 0; count < 3; count += 1) await fixture.addStream();
    const idle = await fixture.addStream();
    await fixture.store.streams.update(fixture.tenant, idle.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    assert.equal((await renewed(fixture, await fixture.node())).share, Infinity);
    const [node, other] = await twoNodes(fixture);
    assert.equal((await renewed(fixture, node)).share, 2);
    assert.equal((await renewed(fixture, other)).share, 2);
    await leave(other);
    assert.equal((await renewed(fixture, node)).share, Infinity);
  });

  test('heartbeat: without a stream the share is 1, so that the first one waits for no heartbeat', async (t) => {
    const fixture = await createFixture(engine, t);
    for (const node of await twoNodes(fixture))
      assert.equal((await renewed(fixture, node)).share, 1);
  });

  test('heartbeat: returns changed streams until the node has read them again', async (t) => {
    const fixture = await createFixture(engine, t);
    const { heartbeat, hasSeen, owned: read } = fixture.store.ownership;
    const stream = await fixture.addStream();
    const node = await fixture.node();
    const ref = { tenant: fixture.tenant, stream: stream.id };
    const rename = (name: string) =>
      fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, name },
      }));
    await rename('before anybody owns it');
    assert.equal(await hasSeen(ref), true);
    await fixture.own(stream);
    assert.deepEqual((await renewed(fixture, node)).changed, []);
    await rename('new');
    assert.equal(await hasSeen(ref), false);
    assert.deepEqual((await renewed(fixture, node)).changed, [ref]);
    await read(node, [ref], waitRule);
    assert.equal(await hasSeen(ref), true);
    assert.deepEqual((await renewed(fixture, node)).changed, []);
    await rename('newer');
    await heartbeat(node, 0);
    assert.equal(await hasSeen(ref), true, 'a node without a lease works for nobody');
  });

  test('owner: the node with a lease that owns the stream, if there is one', async (t) => {
    const fixture = await createFixture(engine, t);
    const { heartbeat, owner } = fixture.store.ownership;
    const stream = await fixture.addStream();
    const ref = { tenant: fixture.tenant, stream: stream.id };
    const node = await fixture.node();
    assert.equal(await owner(ref), undefined);
    await fixture.own(stream);
    assert.equal(await owner(ref), node.id);
    assert.equal(await owner({ ...ref, stream: 'est_none' }), undefined);
    await heartbeat(node, 0);
    assert.equal(await owner(ref), undefined);
  });

  test('heartbeat: returns a stream that a limit disabled', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const owned = await fixture.own(stream);
    fixture.limits = { consecutive: 1, total: 10 };
    await fixture.settle(owned, { cursor: 1, outcomes: [failed(event)] });
    const ref = refOf(owned);
    assert.equal(await fixture.store.ownership.hasSeen(ref), false);
    await fixture.store.ownership.owned(await fixture.node(), [ref], waitRule);
    assert.equal(await fixture.store.ownership.hasSeen(ref), true);
  });

  test('heartbeat: a former incarnation has no lease', async (t) => {
    const fixture = await createFixture(engine, t);
    const former = await fixture.node();
    await fixture.store.ownership.join('node-a', leaseMs);
    assert.equal(await fixture.store.ownership.heartbeat(former, leaseMs), undefined);
  });

  test('leave: frees the streams at once, but not for a former incarnation', async (t) => {
    const fixture = await createFixture(engine, t);
    const { join, leave } = fixture.store.ownership;
    await fixture.addStream();
    const former = await fixture.node();
    const node = await join('node-a', leaseMs);
    const other = await join('node-b', leaseMs);
    await claim(fixture, node);
    await leave(former);
    assert.deepEqual(await claim(fixture, other), []);
    await leave(node);
    assert.equal((await claim(fixture, other)).length, 1);
  });

  test('claim: can be limited to tenants, to streams after one, and to streams that lag', async (t) => {
    const fixture = await createFixture(engine, t);
    const node = await fixture.node();
    const other = await addTenant(fixture.store, 'other');
    const [a, b, c] = [
      await fixture.addStream(),
      await fixture.addStream(),
      await fixture.addStream(),
    ];
    await fixture.store.log.append(fixture.tenant, [newEvent()]);
    const d = await fixture.addStream();
    const e = await fixture.addStream({ tenant: other.id });
    const taken = async (among: ClaimFilter, take = 10): Promise<string[]> => {
      const request = { claim: nextClaim(), take, ...waitRule, among };
      return (await fixture.store.ownership.claim(node, request)).map(({ stream }) => stream.id);
    };
    assert.deepEqual(await taken({ tenants: [other.id, 999] }), [e.id]);
    assert.deepEqual(await taken({ after: undefined, behind: true }, 1), [a.id]);
    const after = { tenant: fixture.tenant, stream: b.id };
    assert.deepEqual(await taken({ after, behind: true }), [c.id]);
    assert.deepEqual(await taken({ after, behind: false }), [d.id]);
    assert.deepEqual(await taken({ after: undefined, behind: false }), [b.id]);
  });

  test('claim: a repeat takes nothing new and returns what the first took', async (t) => {
    const fixture = await createFixture(engine, t);
    const node = await fixture.node();
    const first = await fixture.addStream();
    const request = { claim: 7, take: 10, ...waitRule };
    const result = await fixture.store.ownership.claim(node, request);
    await fixture.addStream();
    assert.deepEqual(
      result.map(({ stream }) => stream.id),
      [first.id],
    );
    assert.deepEqual(await fixture.store.ownership.claim(node, request), result);
    await fixture.store.ownership.release(
      node,
      result.map((owned) => raiseOf(owned)),
    );
    assert.deepEqual(await fixture.store.ownership.claim(node, request), []);
  });
}

function ownedContract(engine: Engine): void {
  test('owned: returns the current streams, without those that are not owned', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const kept = await fixture.addStream();
    const gone = await fixture.addStream();
    const owned = await claim(fixture, await fixture.node());
    await fixture.addStream();
    await store.streams.update(tenant, kept.id, (before) => ({
      after: { ...before, name: 'new' },
    }));
    await store.streams.delete(tenant, gone.id);
    const refs = [...owned.map(refOf), { tenant, stream: 'est_unknown' }];
    const now = await store.ownership.owned(await fixture.node(), refs, waitRule);
    assert.deepEqual(
      now.map(({ stream, epoch }) => [stream.id, stream.name, stream.version, epoch]),
      [[kept.id, 'new', 2, 1]],
    );
  });

  test('owned: changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [parked(event, { leaseMs: later - start })] });
    assert.equal((await nowOwned(fixture, owned))?.nextDueInMs, later - start);
    assert.equal((await nowOwned(fixture, owned))?.epoch, owned.epoch);
  });

  test('owned: a former incarnation owns nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    const former = await fixture.node();
    await fixture.store.ownership.join('node-a', leaseMs);
    assert.deepEqual(await fixture.store.ownership.owned(former, [refOf(owned)], waitRule), []);
  });
}

function refusalContract(engine: Engine): void {
  test('noteRefusal: the owner notes since when results are refused, until one is recorded', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { id } = await fixture.addStream();
    const node = await fixture.node();
    const [owned] = await claim(fixture, node);
    assert.ok(owned);
    const ref = { ...refOf(owned), epoch: owned.epoch };
    const refused = async () => (await store.streams.facts(tenant, id))?.refused;
    const state = async () =>
      (await store.streams.states(tenant, { lagsOf: 'none' })).streams.find(
        (stream) => stream.id === id,
      )?.state;
    await store.ownership.noteRefusal(node, { ...ref, epoch: ref.epoch + 1 }, '22P02');
    assert.deepEqual([await refused(), await state()], [undefined, 'ok']);
    await store.ownership.noteRefusal(node, ref, '22P02');
    const first = await refused();
    assert.equal(first?.code, '22P02');
    await store.ownership.noteRefusal(node, ref, '22003');
    assert.deepEqual(await refused(), { ...first, code: '22003' });
    assert.equal(await state(), 'failing');
    assert.equal((await nowOwned(fixture, owned))?.isRefused, true);
    await store.ownership.noteRefusal(node, ref, undefined);
    assert.deepEqual([await refused(), await state()], [undefined, 'ok']);
    assert.equal((await nowOwned(fixture, owned))?.isRefused, false);
  });
}

function cursorsContract(engine: Engine): void {
  test('raiseCursors: raises cursors and never lowers them', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    await fixture.publish('a.a', 'a.a', 'a.a');
    const { raiseCursors } = fixture.store.ownership;
    await raiseCursors([{ ...raiseOf(owned), cursor: 2 }]);
    assert.equal((await nowOwned(fixture, owned))?.cursor, 2);
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), cursor: 1 }]), [2]);
    assert.equal((await nowOwned(fixture, owned))?.cursor, 2);
  });

  test('raiseCursors: a former owner or a former run raises nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    await fixture.publish('a.a');
    const raise = { ...raiseOf(owned), cursor: 1 };
    await fixture.store.ownership.raiseCursors([
      { ...raise, epoch: owned.epoch - 1 },
      { ...raise, run: owned.run - 1 },
      { ...raise, stream: 'est_unknown' },
    ]);
    assert.equal((await nowOwned(fixture, owned))?.cursor, 0);
  });
}

function unseenChangeContract(engine: Engine): void {
  /**
   * The owner works with the former subscriptions; two events came before the change, two after.
   */
  const changed = async (fixture: Fixture): Promise<OwnedStream> => {
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await fixture.publish('user.created', 'a.a');
    await fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
      after: {
        ...before,
        subscriptions: withSelection(before.subscriptions, { types: ['a.a'] }, head),
      },
    }));
    await fixture.publish('a.a', 'user.created');
    return owned;
  };

  test('unseen change: a settlement raises the cursor only up to the change', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await changed(fixture);
    const held = await fixture.settle(owned, { cursor: 4 });
    assert.deepEqual([held.result, held.cursor, held.version], ['recorded', 2, 2]);
    assert.equal((await fixture.settle(owned, { cursor: 4, version: 2 })).cursor, 4);
  });

  test('unseen change: raiseCursors raises the cursor only up to the change', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await changed(fixture);
    const { raiseCursors } = fixture.store.ownership;
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), cursor: 4 }]), [2]);
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), version: 2, cursor: 4 }]), [4]);
  });

  test('unseen change: release raises the cursor only up to the change', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await changed(fixture);
    const { release } = fixture.store.ownership;
    await release(await fixture.node(), [{ ...raiseOf(owned), cursor: 4 }]);
    const [again] = await claim(fixture, await fixture.node());
    assert.equal(again?.cursor, 2);
  });

  test('unseen change: a change of anything but the types does not limit the cursor', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await fixture.publish('user.created', 'user.created');
    await fixture.settle(owned, { cursor: 1 });
    await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, name: 'new' },
    }));
    assert.equal((await fixture.settle(owned, { cursor: 2 })).cursor, 2);
  });
}

function releaseContract(engine: Engine): void {
  test('release: the stream is free at once, after its cursor is raised', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    await fixture.publish('a.a', 'a.a');
    const node = await fixture.node();
    await fixture.store.ownership.release(node, [{ ...raiseOf(owned), cursor: 2 }]);
    assert.equal(await nowOwned(fixture, owned), undefined);
    const other = await fixture.store.ownership.join('node-b', leaseMs);
    const [again] = await claim(fixture, other);
    assert.deepEqual([again?.cursor, again?.epoch], [2, 2]);
  });

  test('release: leaves a stream that another node owns by now', async (t) => {
    const fixture = await createFixture(engine, t);
    const owned = await fixture.own(await fixture.addStream());
    const node = await fixture.node();
    await fixture.store.ownership.release(node, [raiseOf(owned)]);
    const other = await fixture.store.ownership.join('node-b', leaseMs);
    const [again] = await claim(fixture, other);
    assert.ok(again);
    await fixture.store.ownership.release(node, [{ ...raiseOf(owned), cursor: 9 }]);
    await fixture.store.ownership.release(node, [{ ...raiseOf(again), cursor: 0 }]);
    const still = await fixture.store.ownership.owned(other, [refOf(again)], waitRule);
    assert.deepEqual(
      still.map(({ cursor, epoch }) => [cursor, epoch]),
      [[0, 2]],
    );
  });
}

/** Returns the state that a restart finds. */
function reopenContract(engine: Engine): void {
  test('join: a node that is alone owns every stream at once, whatever a former process left', async (t) => {
    const opened = await engine.open();
    t.after(() => opened.close());
    assert.ok(opened.reopen);
    const tenant = await addTenant(opened.store, 'main');
    const fixture = fixtureOf(opened.store, tenant.id, opened.time);
    const stream = await fixture.addStream();
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    const before = await fixture.own(stream);
    await fixture.settle(before, { cursor: 1, outcomes: [failed(one), parked(two)] });

    const reopened = await opened.reopen();
    t.after(() => reopened.close());
    const next = fixtureOf(reopened.store, tenant.id, reopened.time);
    next.now = later;
    const node = await reopened.store.ownership.join('node-of-the-next-process', leaseMs);
    const [owned] = await claim(next, node);
    assert.deepEqual(
      [owned?.epoch, owned?.cursor, owned?.takenAbove, owned?.nextDueInMs],
      [2, 1, [2], 0],
    );
    assert.deepEqual(await next.health(stream), { consecutive: 1, total: 1 });
    assert.deepEqual(await reopened.store.streams.get(tenant.id, stream.id), stream);
    const [third] = await next.publish('user.created');
    assert.equal(third?.offset, 3);
  });
}
