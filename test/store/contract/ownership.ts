import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withTypes } from '../../../src/core/subscription.ts';
import type { ClaimFilter, OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Node } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  claimDue,
  createScene,
  failed,
  failuresOf,
  leaseMs,
  newEvent,
  nextClaim,
  parked,
  raiseOf,
  retry,
  sceneOf,
  start,
  type Scene,
  waitRule,
} from './fixture.ts';

export function ownershipContract(engine: Engine): void {
  describe(`${engine.name}: ownership.join`, () => joinContract(engine));
  describe(`${engine.name}: ownership.claim`, () => claimContract(engine));
  describe(`${engine.name}: ownership.heartbeat`, () => leaseContract(engine));
  describe(`${engine.name}: ownership.owned`, () => ownedContract(engine));
  describe(`${engine.name}: cursors without a match`, () => cursorsContract(engine));
  describe(`${engine.name}: a change that the owner has not seen`, () =>
    unseenChangeContract(engine));
  describe(`${engine.name}: ownership.release`, () => releaseContract(engine));
  if (engine.keepsData) describe(`${engine.name}: the next process`, () => reopenContract(engine));
}

const later = start + 60_000;

const claim = (scene: Scene, node: Node, take = 100) =>
  scene.store.ownership.claim(node, { claim: nextClaim(), take, ...waitRule });

const refOf = ({ stream }: OwnedStream) => ({ tenant: stream.tenant, stream: stream.id });

async function nowOwned(scene: Scene, owned: OwnedStream): Promise<OwnedStream | undefined> {
  const [now] = await scene.store.ownership.owned(await scene.node(), [refOf(owned)], waitRule);
  return now;
}

function joinContract(engine: Engine): void {
  test('the incarnation of a node rises each time, those of others do not', async (t) => {
    const { store } = await createScene(engine, t);
    const { join } = store.ownership;
    assert.deepEqual(await join('node-a', leaseMs), { id: 'node-a', incarnation: 1 });
    assert.deepEqual(await join('node-a', leaseMs), { id: 'node-a', incarnation: 2 });
    assert.deepEqual(await join('node-b', leaseMs), { id: 'node-b', incarnation: 1 });
  });

  test('a node that joins anew has given up what it owned', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const before = await scene.own(stream);
    const node = await scene.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(scene, node);
    assert.equal(again?.epoch, before.epoch + 1);
  });
}

function claimContract(engine: Engine): void {
  test('an enabled stream is claimed once, and its epoch rises', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [owned, ...more] = await claim(scene, await scene.node());
    assert.deepEqual(more, []);
    assert.deepEqual(owned, {
      stream,
      tenantName: 'main',
      epoch: 1,
      run: 1,
      cursor: 0,
      waiting: 0,
      nextDueInMs: undefined,
      replay: undefined,
      rowsAbove: [],
    });
    assert.deepEqual(await claim(scene, await scene.node()), []);
    const other = await scene.store.ownership.join('node-b', leaseMs);
    assert.deepEqual(await claim(scene, other), []);
  });

  test('at most as many as asked are claimed, of all tenants', async (t) => {
    const scene = await createScene(engine, t);
    const { store } = scene;
    const other = await addTenant(store, 'other');
    await scene.addStream();
    await scene.addStream();
    await sceneOf(store, other.id).addStream();
    const node = await scene.node();
    const first = await claim(scene, node, 2);
    assert.equal(first.length, 2);
    const second = await claim(scene, node, 2);
    assert.deepEqual(
      second.map(({ tenantName }) => tenantName),
      ['other'],
    );
  });

  test('two nodes never own the same stream', async (t) => {
    const scene = await createScene(engine, t);
    for (let count = 0; count < 10; count += 1) await scene.addStream();
    const nodes = [await scene.node(), await scene.store.ownership.join('node-b', leaseMs)];
    // A node asks again once it has its answer.
    const claims = await Promise.all(
      nodes.map(async (node) => [await claim(scene, node, 3), await claim(scene, node, 3)]),
    );
    const ids = claims.flat(2).map(({ stream }) => stream.id);
    assert.equal(ids.length, 10);
    assert.equal(new Set(ids).size, 10);
  });

  test('a disabled stream is claimed only while it has something to send', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    const owned = await scene.own(stream);
    scene.limits = { consecutive: 1, total: 10 };
    await scene.settle(owned, { cursor: 1, outcomes: [failed(event)] });
    const node = await scene.node();
    await scene.store.ownership.release(node, [raiseOf({ ...owned, cursor: 1 })]);
    assert.deepEqual(await claim(scene, node), []);
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, event.id);
    const [again] = await claim(scene, node);
    assert.deepEqual([again?.stream.status, again?.nextDueInMs], ['disabled', 0]);
  });

  test('parked rows are due at once, the same attempt; waiting ones keep their time', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [inFlight, waits] = await scene.publish('user.created', 'user.created');
    assert.ok(inFlight && waits);
    const owned = await scene.own(stream);
    await scene.settle(owned, {
      outcomes: [
        parked(inFlight, { attempt: 3, leaseMs: 15_000 }),
        retry(waits, { delayMs: later - start }),
      ],
    });
    const node = await scene.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(scene, node);
    assert.deepEqual([again?.nextDueInMs, again?.waiting], [0, 2]);
    assert.ok(again);
    const { rows, nextDueInMs } = await claimDue(scene, again);
    assert.deepEqual(
      rows.map(({ event, attempt, kind }) => [event.id, attempt, kind]),
      [[inFlight.id, 3, 'first']],
    );
    assert.equal(nextDueInMs, later - start);
  });

  test('on a disabled stream parked rows become failures, redeliveries go on', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    const stream = await scene.addStream();
    const [open, inFlight] = await scene.publish('user.created', 'user.created');
    assert.ok(open && inFlight);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [failed(open), parked(inFlight)] });
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    await store.deliveries.redeliver(tenant, stream.id, open.id);
    await claimDue(scene, owned);
    scene.now = later;
    const node = await store.ownership.join('node-a', leaseMs);
    const [again] = await claim(scene, node);
    assert.ok(again);
    assert.deepEqual([again.waiting, again.nextDueInMs], [0, 0]);
    const { rows } = await claimDue(scene, again);
    assert.deepEqual(
      rows.map(({ event, attempt }) => [event.id, attempt]),
      [[open.id, 1]],
    );
    const failure = await store.deliveries.failure(tenant, stream.id, inFlight.id);
    assert.deepEqual(
      [failure?.failedAt, failure?.attempts.map(({ error }) => error)],
      [later, ['The event stream is disabled']],
    );
    assert.deepEqual(await scene.health(stream), { consecutive: 2, total: 2 });
    assert.equal((await failuresOf(scene, stream)).length, 2);
  });

  test('rows above the cursor are named, so that they are not sent a second time', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const events = await scene.publish(...Array.from({ length: 5 }, () => 'user.created'));
    const [one, two, , four, five] = events;
    assert.ok(one && two && four && five);
    const owned = await scene.own(stream);
    const outcomes = [failed(one), failed(five), retry(two), parked(four)];
    await scene.settle(owned, { cursor: 1, outcomes });
    const node = await scene.store.ownership.join('node-a', leaseMs);
    const [again] = await claim(scene, node);
    assert.deepEqual([again?.cursor, again?.rowsAbove], [1, [2, 4, 5]]);
  });

  test('redeliveries do not count as waiting', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [one, two] = await scene.publish('user.created', 'user.created');
    assert.ok(one && two);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [failed(one), retry(two)] });
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, one.id);
    assert.equal((await nowOwned(scene, owned))?.waiting, 1);
  });

  test('a former incarnation claims nothing', async (t) => {
    const scene = await createScene(engine, t);
    await scene.addStream();
    const former = await scene.node();
    await scene.store.ownership.join('node-a', leaseMs);
    assert.deepEqual(await claim(scene, former), []);
    assert.deepEqual(await claim(scene, { id: 'node-z', incarnation: 1 }), []);
  });
}

function leaseContract(engine: Engine): void {
  const twoNodes = async (scene: Scene): Promise<[Node, Node]> => [
    await scene.node(),
    await scene.store.ownership.join('node-b', leaseMs),
  ];

  test('nobody takes what a node owns while its lease lasts, everybody afterwards', async (t) => {
    const scene = await createScene(engine, t);
    const { heartbeat } = scene.store.ownership;
    const before = await scene.own(await scene.addStream());
    const [node, other] = await twoNodes(scene);
    await heartbeat(node, leaseMs);
    assert.deepEqual(await claim(scene, other), []);
    await heartbeat(node, 0);
    const [taken] = await claim(scene, other);
    assert.equal(taken?.epoch, before.epoch + 1);
    assert.equal(await nowOwned(scene, before), undefined);
    assert.equal((await scene.settle(before, { cursor: 1 })).result, 'lost');
  });

  test('a node whose lease has ended claims nothing, and keeps what nobody took', async (t) => {
    const scene = await createScene(engine, t);
    const { heartbeat } = scene.store.ownership;
    const owned = await scene.own(await scene.addStream());
    const node = await scene.node();
    await heartbeat(node, 0);
    await scene.addStream();
    assert.deepEqual(await claim(scene, node), []);
    assert.equal((await heartbeat(node, leaseMs))?.lapsed, true, 'which it is told');
    assert.equal((await heartbeat(node, leaseMs))?.lapsed, false);
    assert.equal((await nowOwned(scene, owned))?.epoch, owned.epoch);
    assert.equal((await claim(scene, node)).length, 1);
  });

  test('it says how many streams are a fair share', async (t) => {
    const scene = await createScene(engine, t);
    const { heartbeat, leave } = scene.store.ownership;
    for (let count = 0; count < 3; count += 1) await scene.addStream();
    const idle = await scene.addStream();
    await scene.store.streams.update(scene.tenant, idle.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    assert.equal((await heartbeat(await scene.node(), leaseMs))?.share, Infinity);
    const [node, other] = await twoNodes(scene);
    assert.equal((await heartbeat(node, leaseMs))?.share, 2);
    assert.equal((await heartbeat(other, leaseMs))?.share, 2);
    await leave(other);
    assert.equal((await heartbeat(node, leaseMs))?.share, Infinity);
  });

  test('it names the streams that were changed, until the node has read them again', async (t) => {
    const scene = await createScene(engine, t);
    const { heartbeat, hasSeen, owned: look } = scene.store.ownership;
    const stream = await scene.addStream();
    const node = await scene.node();
    const ref = { tenant: scene.tenant, stream: stream.id };
    const rename = (name: string) =>
      scene.store.streams.update(scene.tenant, stream.id, (before) => ({
        after: { ...before, name },
      }));
    await rename('before anybody owns it');
    assert.equal(await hasSeen(ref), true);
    await scene.own(stream);
    assert.deepEqual((await heartbeat(node, leaseMs))?.changed, []);
    await rename('new');
    assert.equal(await hasSeen(ref), false);
    assert.deepEqual((await heartbeat(node, leaseMs))?.changed, [ref]);
    await look(node, [ref], waitRule);
    assert.equal(await hasSeen(ref), true);
    assert.deepEqual((await heartbeat(node, leaseMs))?.changed, []);
    await rename('newer');
    await heartbeat(node, 0);
    assert.equal(await hasSeen(ref), true, 'a node without a lease works for nobody');
  });

  test('disabling at a limit is a change that the owner has to see', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    const owned = await scene.own(stream);
    scene.limits = { consecutive: 1, total: 10 };
    await scene.settle(owned, { cursor: 1, outcomes: [failed(event)] });
    const ref = refOf(owned);
    assert.equal(await scene.store.ownership.hasSeen(ref), false);
    await scene.store.ownership.owned(await scene.node(), [ref], waitRule);
    assert.equal(await scene.store.ownership.hasSeen(ref), true);
  });

  test('a former incarnation has no lease', async (t) => {
    const scene = await createScene(engine, t);
    const former = await scene.node();
    await scene.store.ownership.join('node-a', leaseMs);
    assert.equal(await scene.store.ownership.heartbeat(former, leaseMs), undefined);
  });

  test('a node that leaves frees its streams at once, a former incarnation does not', async (t) => {
    const scene = await createScene(engine, t);
    const { join, leave } = scene.store.ownership;
    await scene.addStream();
    const former = await scene.node();
    const node = await join('node-a', leaseMs);
    const other = await join('node-b', leaseMs);
    await claim(scene, node);
    await leave(former);
    assert.deepEqual(await claim(scene, other), []);
    await leave(node);
    assert.equal((await claim(scene, other)).length, 1);
  });

  test('a claim can be narrowed to tenants, to what follows a stream, and to streams that are behind', async (t) => {
    const scene = await createScene(engine, t);
    const node = await scene.node();
    const other = await addTenant(scene.store, 'other');
    const [a, b, c] = [await scene.addStream(), await scene.addStream(), await scene.addStream()];
    await scene.store.log.append(scene.tenant, [newEvent()]);
    const d = await scene.addStream();
    const e = await scene.addStream({ tenant: other.id });
    const taken = async (among: ClaimFilter, take = 10): Promise<string[]> => {
      const ask = { claim: nextClaim(), take, ...waitRule, among };
      return (await scene.store.ownership.claim(node, ask)).map(({ stream }) => stream.id);
    };
    assert.deepEqual(await taken({ tenants: [other.id, 999] }), [e.id]);
    assert.deepEqual(await taken({ after: undefined, behind: true }, 1), [a.id]);
    const after = { tenant: scene.tenant, stream: b.id };
    assert.deepEqual(await taken({ after, behind: true }), [c.id]);
    assert.deepEqual(await taken({ after, behind: false }), [d.id]);
    assert.deepEqual(await taken({ after: undefined, behind: false }), [b.id]);
  });

  test('a claim that is repeated takes nothing new and answers what it took', async (t) => {
    const scene = await createScene(engine, t);
    const node = await scene.node();
    const first = await scene.addStream();
    const ask = { claim: 7, take: 10, ...waitRule };
    const answer = await scene.store.ownership.claim(node, ask);
    await scene.addStream();
    assert.deepEqual(
      answer.map(({ stream }) => stream.id),
      [first.id],
    );
    assert.deepEqual(await scene.store.ownership.claim(node, ask), answer);
    await scene.store.ownership.release(
      node,
      answer.map((owned) => raiseOf(owned)),
    );
    assert.deepEqual(await scene.store.ownership.claim(node, ask), []);
  });
}

function ownedContract(engine: Engine): void {
  test('the streams are answered as they are now, without those that are not owned', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    const kept = await scene.addStream();
    const gone = await scene.addStream();
    const owned = await claim(scene, await scene.node());
    await scene.addStream();
    await store.streams.update(tenant, kept.id, (before) => ({
      after: { ...before, name: 'new' },
    }));
    await store.streams.delete(tenant, gone.id);
    const refs = [...owned.map(refOf), { tenant, stream: 'est_unknown' }];
    const now = await store.ownership.owned(await scene.node(), refs, waitRule);
    assert.deepEqual(
      now.map(({ stream, epoch }) => [stream.id, stream.name, stream.version, epoch]),
      [[kept.id, 'new', 2, 1]],
    );
  });

  test('looking changes nothing', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [parked(event, { leaseMs: later - start })] });
    assert.equal((await nowOwned(scene, owned))?.nextDueInMs, later - start);
    assert.equal((await nowOwned(scene, owned))?.epoch, owned.epoch);
  });

  test('a former incarnation owns nothing', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await scene.own(await scene.addStream());
    const former = await scene.node();
    await scene.store.ownership.join('node-a', leaseMs);
    assert.deepEqual(await scene.store.ownership.owned(former, [refOf(owned)], waitRule), []);
  });
}

function cursorsContract(engine: Engine): void {
  test('they are raised and never lowered', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await scene.own(await scene.addStream());
    await scene.publish('a.a', 'a.a', 'a.a');
    const { raiseCursors } = scene.store.ownership;
    await raiseCursors([{ ...raiseOf(owned), cursor: 2 }]);
    assert.equal((await nowOwned(scene, owned))?.cursor, 2);
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), cursor: 1 }]), [2]);
    assert.equal((await nowOwned(scene, owned))?.cursor, 2);
  });

  test('a former owner or a former run raises nothing', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await scene.own(await scene.addStream());
    await scene.publish('a.a');
    const raise = { ...raiseOf(owned), cursor: 1 };
    await scene.store.ownership.raiseCursors([
      { ...raise, epoch: owned.epoch - 1 },
      { ...raise, run: owned.run - 1 },
      { ...raise, stream: 'est_unknown' },
    ]);
    assert.equal((await nowOwned(scene, owned))?.cursor, 0);
  });
}

function unseenChangeContract(engine: Engine): void {
  /** The owner works by the former subscriptions; two events came before the change, two after. */
  const changed = async (scene: Scene): Promise<OwnedStream> => {
    const stream = await scene.addStream();
    const owned = await scene.own(stream);
    await scene.publish('user.created', 'a.a');
    await scene.store.streams.update(scene.tenant, stream.id, (before, { head }) => ({
      after: { ...before, subscriptions: withTypes(before.subscriptions, ['a.a'], head) },
    }));
    await scene.publish('a.a', 'user.created');
    return owned;
  };

  test('a settlement raises the cursor as far as the change, until it is seen', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await changed(scene);
    const held = await scene.settle(owned, { cursor: 4 });
    assert.deepEqual([held.result, held.cursor, held.version], ['recorded', 2, 2]);
    assert.equal((await scene.settle(owned, { cursor: 4, version: 2 })).cursor, 4);
  });

  test('so does a cursor that is raised alone', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await changed(scene);
    const { raiseCursors } = scene.store.ownership;
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), cursor: 4 }]), [2]);
    assert.deepEqual(await raiseCursors([{ ...raiseOf(owned), version: 2, cursor: 4 }]), [4]);
  });

  test('so does one that is given up', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await changed(scene);
    const { release } = scene.store.ownership;
    await release(await scene.node(), [{ ...raiseOf(owned), cursor: 4 }]);
    const [again] = await claim(scene, await scene.node());
    assert.equal(again?.cursor, 2);
  });

  test('a change of something else holds no cursor back', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const owned = await scene.own(stream);
    await scene.publish('user.created', 'user.created');
    await scene.settle(owned, { cursor: 1 });
    await scene.store.streams.update(scene.tenant, stream.id, (before) => ({
      after: { ...before, name: 'new' },
    }));
    assert.equal((await scene.settle(owned, { cursor: 2 })).cursor, 2);
  });
}

function releaseContract(engine: Engine): void {
  test('the stream is free at once, its cursor raised before', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await scene.own(await scene.addStream());
    await scene.publish('a.a', 'a.a');
    const node = await scene.node();
    await scene.store.ownership.release(node, [{ ...raiseOf(owned), cursor: 2 }]);
    assert.equal(await nowOwned(scene, owned), undefined);
    const other = await scene.store.ownership.join('node-b', leaseMs);
    const [again] = await claim(scene, other);
    assert.deepEqual([again?.cursor, again?.epoch], [2, 2]);
  });

  test('nobody gives up what another node owns by now', async (t) => {
    const scene = await createScene(engine, t);
    const owned = await scene.own(await scene.addStream());
    const node = await scene.node();
    await scene.store.ownership.release(node, [raiseOf(owned)]);
    const other = await scene.store.ownership.join('node-b', leaseMs);
    const [again] = await claim(scene, other);
    assert.ok(again);
    await scene.store.ownership.release(node, [{ ...raiseOf(owned), cursor: 9 }]);
    await scene.store.ownership.release(node, [{ ...raiseOf(again), cursor: 0 }]);
    const still = await scene.store.ownership.owned(other, [refOf(again)], waitRule);
    assert.deepEqual(
      still.map(({ cursor, epoch }) => [cursor, epoch]),
      [[0, 2]],
    );
  });
}

/** What a restart finds. */
function reopenContract(engine: Engine): void {
  test('it owns every stream at once, whatever the former process left', async (t) => {
    const opened = await engine.open();
    t.after(() => opened.close());
    assert.ok(opened.reopen);
    const tenant = await addTenant(opened.store, 'main');
    const scene = sceneOf(opened.store, tenant.id, opened.time);
    const stream = await scene.addStream();
    const [one, two] = await scene.publish('user.created', 'user.created');
    assert.ok(one && two);
    const before = await scene.own(stream);
    await scene.settle(before, { cursor: 1, outcomes: [failed(one), parked(two)] });

    const reopened = await opened.reopen();
    t.after(() => reopened.close());
    const next = sceneOf(reopened.store, tenant.id, reopened.time);
    next.now = later;
    const node = await reopened.store.ownership.join('node-of-the-next-process', leaseMs);
    const [owned] = await claim(next, node);
    assert.deepEqual(
      [owned?.epoch, owned?.cursor, owned?.rowsAbove, owned?.nextDueInMs],
      [2, 1, [2], 0],
    );
    assert.deepEqual(await next.health(stream), { consecutive: 1, total: 1 });
    assert.deepEqual(await reopened.store.streams.get(tenant.id, stream.id), stream);
    const [third] = await next.publish('user.created');
    assert.equal(third?.offset, 3);
  });
}
