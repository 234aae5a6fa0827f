import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Offset, Subscription } from '../../../src/core/types.ts';
import type { KnownStream, OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Engine } from './engine.ts';
import { createFixture, type Fixture, nextClaim, raiseOf, waitRule } from './fixture.ts';

/** What an owner has taken before it reads a change of subscriptions. */
export function takenEventsContract(engine: Engine): void {
  describe(`${engine.name}: events taken before a change was read`, () => {
    test('owned: the change applies after the events that the owner has taken', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      const [read] = await readAgain(fixture, takenTo(owned, 3));
      assert.deepEqual(read?.stream.subscriptions, [created, { after: 3, types: ['a.a'] }]);
      assert.equal(read.stream.version, 3);
      const { store, tenant } = fixture;
      assert.deepEqual(await store.streams.get(tenant, owned.stream.id), read.stream);
      assert.equal(await store.ownership.hasSeen(refOf(owned)), true);
      // Nothing more is changed by reading once more.
      const [again] = await readAgain(fixture, takenTo(owned, 3));
      assert.deepEqual(again?.stream, read.stream);
      assert.equal((await fixture.settle(read, { cursor: 4 })).cursor, 4);
    });

    test('owned: a change after all events that the owner has taken stays where it is', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      for (const known of [takenTo(owned, 2), refOf(owned)]) {
        const [read] = await readAgain(fixture, known);
        assert.deepEqual(read?.stream.subscriptions, [created, { after: 2, types: ['a.a'] }]);
        assert.equal(read.stream.version, 2);
      }
    });

    test('owned: a change that the owner knew, and one of anything else, stays as it is', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      const [read] = await readAgain(fixture, refOf(owned));
      assert.ok(read);
      await fixture.store.streams.update(fixture.tenant, owned.stream.id, (before) => ({
        after: { ...before, name: 'new' },
      }));
      const [again] = await readAgain(fixture, takenTo(read, 4));
      assert.deepEqual(again?.stream.subscriptions, read.stream.subscriptions);
      assert.equal(again.stream.version, 3);
    });

    test('owned: a former owner moves no change', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      const { taken } = takenTo(owned, 4);
      const [read] = await readAgain(fixture, { ...refOf(owned), taken: { ...taken, epoch: 0 } });
      assert.equal(read?.stream.version, 2);
    });

    test('owned: of several changes those apply later that are before the taken events', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      await select(fixture, owned, ['b.b']);
      await fixture.publish('b.b', 'b.b');
      await select(fixture, owned, ['c.c']);
      const [read] = await readAgain(fixture, takenTo(owned, 5));
      assert.deepEqual(read?.stream.subscriptions, [
        created,
        { after: 5, types: ['b.b'] },
        { after: 6, types: ['c.c'] },
      ]);
    });

    test('release: the next owner goes on after the events that this one has taken', async (t) => {
      const fixture = await createFixture(engine, t);
      const owned = await changed(fixture);
      const { store } = fixture;
      const node = await fixture.node();
      const last = { ...raiseOf(owned), cursor: 4, taken: takenTo(owned, 4).taken };
      await store.ownership.release(node, [last]);
      await fixture.publish('a.a');
      const request = { claim: nextClaim(), take: 9, ...waitRule };
      const [next] = await store.ownership.claim(node, request);
      assert.equal(next?.cursor, 4);
      assert.deepEqual(next.stream.subscriptions.at(-1), { after: 4, types: ['a.a'] });
    });
  });
}

const created: Subscription = { after: -1, types: ['user.created'] };

/** Returns a stream as its owner knows it; two events came before a change, two after. */
async function changed(fixture: Fixture): Promise<OwnedStream> {
  const owned = await fixture.own(await fixture.addStream());
  await fixture.publish('user.created', 'a.a');
  await select(fixture, owned, ['a.a']);
  await fixture.publish('a.a', 'user.created');
  return owned;
}

async function select(fixture: Fixture, { stream }: OwnedStream, types: string[]): Promise<void> {
  await fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
    after: { ...before, subscriptions: withSelection(before.subscriptions, { types }, head) },
  }));
}

function refOf({ stream: { tenant, id } }: OwnedStream) {
  return { tenant, stream: id };
}

function takenTo(owned: OwnedStream, upTo: Offset) {
  const { version, subscriptions } = owned.stream;
  return { ...refOf(owned), taken: { epoch: owned.epoch, version, subscriptions, upTo } };
}

async function readAgain(fixture: Fixture, known: KnownStream): Promise<OwnedStream[]> {
  return fixture.store.ownership.owned(await fixture.node(), [known], waitRule);
}
