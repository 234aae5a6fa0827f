import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ownerWaitMs, removeStream, waitForOwner } from '../../src/api/wait-for-owner.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { limits } from '../../src/config.ts';
import { createManualClock } from '../helpers/clock.ts';
import { createFixture, waitRule } from '../store/contract/fixture.ts';
import { sqliteMemory } from '../store/engines.ts';

describe('waiting for the owner of a stream', () => {
  test('waits longer than a node that has died keeps its lease', () => {
    assert.ok(ownerWaitMs > limits.delivery.leaseMs);
  });

  test('a change that its owner does not read ends in a 503 that says what is stored', async (t) => {
    const fixture = await createFixture(sqliteMemory, t);
    const { store, tenant } = fixture;
    const clock = createManualClock();
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await store.streams.update(tenant, stream.id, (before) => ({
      after: { ...before, name: 'new' },
    }));
    const ref = { tenant, stream: stream.id };
    const refused = assert.rejects(waitForOwner({ store, clock }, ref), {
      status: 503,
      errorCode: 'owner_unconfirmed',
      headers: { 'retry-after': '1' },
      message:
        'The change is stored. The node that sends for the event stream has not confirmed it: until it does, it may send by the former state.',
    });
    await clock.advance(ownerWaitMs + 100);
    await refused;
    assert.equal(clock.pending, 0);

    await store.ownership.owned(await fixture.node(), [ref], waitRule);
    await waitForOwner({ store, clock }, ref);
    assert.equal(owned.stream.version, 1);
  });

  test('a stream whose owner does not read its end is disabled and not deleted', async (t) => {
    const fixture = await createFixture(sqliteMemory, t);
    const { store, tenant } = fixture;
    const clock = createManualClock();
    const stream = await fixture.addStream();
    await fixture.own(stream);
    const ref = { tenant, stream: stream.id };
    const refused = assert.rejects(removeStream({ store, clock }, ref, store), {
      errorCode: 'owner_unconfirmed',
      message: /^The event stream is disabled and not deleted: send the request again\. The node/,
    });
    await clock.advance(ownerWaitMs + 100);
    await refused;
    assert.equal((await store.streams.get(tenant, stream.id))?.status, 'disabled');

    await store.ownership.owned(await fixture.node(), [ref], waitRule);
    await removeStream({ store, clock }, ref, store);
    assert.equal(await store.streams.get(tenant, stream.id), undefined);
  });

  test('a store that is away after the change does not make it look as if nothing was stored', async () => {
    const hasSeen = () => Promise.reject(new StoreUnavailable('away'));
    const store = { ownership: { hasSeen } } as unknown as Parameters<
      typeof waitForOwner
    >[0]['store'];
    const waiting = waitForOwner(
      { store, clock: createManualClock() },
      { tenant: 1, stream: 'est_1' },
    );
    await assert.rejects(waiting, { status: 503, errorCode: 'owner_unconfirmed' });
  });
});
