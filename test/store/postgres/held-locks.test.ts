import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { waitFor } from '../../helpers/wait.ts';
import { newEntry } from '../contract/audit-log.ts';
import { addTenant, failed, fixtureOf, newEvent, waitRule } from '../contract/fixture.ts';
import { newUser } from '../contract/users.ts';
import { newDatabase, openUrl } from '../engines.ts';

const leaseMs = 60_000;

describe('PostgreSQL: a transaction of a node that waits for a lock', () => {
  test('a settlement does not hold the heartbeat of its node', async (t) => {
    const { fixture, hold } = await opened(t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const lock = await hold('failure_groups');
    const settling = fixture.settle(owned, { outcomes: [failed(event)], cursor: 1 });
    await lock.untilWaited();
    const beat = await fixture.store.ownership.heartbeat(await fixture.node(), leaseMs);
    assert.ok(typeof beat === 'object' && !beat.lapsed);
    await lock.release();
    assert.equal((await settling).result, 'recorded');
    // The same batch again is not recorded twice.
    const node = await fixture.node();
    const again = { tenant: stream.tenant, stream: stream.id, epoch: owned.epoch, run: owned.run };
    const repeated = { ...again, version: 1, cursor: 1, outcomes: [failed(event)] };
    await fixture.store.deliveries.settle(node, 1, [repeated], fixture.limits);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('a claim holds neither the heartbeat nor a settlement of its node', async (t) => {
    const { fixture, hold } = await opened(t);
    const { ownership } = fixture.store;
    const owned = await fixture.own(await fixture.addStream());
    await fixture.addStream();
    const node = await fixture.node();
    const lock = await hold('replays');
    const claiming = ownership.claim(node, { claim: 1_000_000, take: 9, ...waitRule });
    await lock.untilWaited();
    assert.ok(typeof (await ownership.heartbeat(node, leaseMs)) === 'object');
    assert.equal((await fixture.settle(owned, {})).result, 'recorded');
    await lock.release();
    assert.equal((await claiming).length, 1);
  });

  test('a heartbeat of one of two nodes renews the lease while the tables of streams are locked', async (t) => {
    const { fixture, url, hold, end } = await opened(t);
    const { ownership } = fixture.store;
    const other = await openUrl(url);
    t.after(() => other.close());
    await fixture.own(await fixture.addStream());
    await fixture.addStream();
    await fixture.addStream();
    const node = await fixture.node();
    const rival = await other.ownership.join('node-b', leaseMs);
    const before = await ownership.heartbeat(node, leaseMs);
    assert.ok(typeof before === 'object');
    assert.equal(before.share, 2);
    const lock = await hold('streams, deliveries, runs');
    await end(node.id);
    // What it does not learn about streams stays as it was.
    const lapsed = { lapsed: true, share: 2, changed: [] };
    assert.deepEqual(await ownership.heartbeat(node, leaseMs), lapsed);
    const held = await other.ownership.heartbeat(rival, leaseMs);
    assert.ok(typeof held === 'object' && !held.lapsed);
    await lock.release();
    const after = await ownership.heartbeat(node, leaseMs);
    assert.deepEqual(after, { lapsed: false, share: 2, changed: [] });
  });

  test('a claim whose lease has ended meanwhile keeps the streams that it takes, until they are freed', async (t) => {
    const { fixture, url, hold, end } = await opened(t);
    const { ownership } = fixture.store;
    const other = await openUrl(url);
    t.after(() => other.close());
    await fixture.addStream();
    const node = await fixture.node();
    const lock = await hold('replays');
    const claiming = ownership.claim(node, { claim: 1, take: 9, ...waitRule });
    await lock.untilWaited();
    await end(node.id);
    const rival = await other.ownership.join('node-b', leaseMs);
    // A node is not freed during its claim: the streams of the claim would stay with it for ever.
    assert.deepEqual(await other.ownership.claim(rival, { claim: 1, take: 0, ...waitRule }), []);
    await lock.release();
    assert.equal((await claiming).length, 1);
    assert.equal(
      (await other.ownership.claim(rival, { claim: 2, take: 9, ...waitRule })).length,
      1,
    );
  });

  test('a node that joins again waits for the claim of its former process, and frees what that took', async (t) => {
    const { fixture, url, hold } = await opened(t);
    const other = await openUrl(url);
    t.after(() => other.close());
    await fixture.addStream();
    const node = await fixture.node();
    const lock = await hold('replays');
    const claiming = fixture.store.ownership.claim(node, { claim: 1, take: 9, ...waitRule });
    await lock.untilWaited();
    const joining = other.ownership.join(node.id, leaseMs);
    await lock.untilWaited(2);
    await lock.release();
    assert.equal((await claiming).length, 1);
    const joined = await joining;
    const request = { claim: 1, take: 9, ...waitRule };
    assert.equal((await other.ownership.claim(joined, request)).length, 1);
    assert.deepEqual(await fixture.store.ownership.claim(node, { ...request, claim: 2 }), []);
  });

  test('a change of a user that waits to be recorded holds no append', async (t) => {
    const { fixture, hold } = await opened(t);
    const { store, tenant } = fixture;
    const lock = await hold('audit_log');
    const { users } = store.recording(newEntry(tenant));
    const creating = users.create(newUser(tenant, 'ada'), newEvent());
    await lock.untilWaited();
    const [first] = await fixture.publish('user.created');
    assert.equal(first?.offset, 1);
    await lock.release();
    assert.ok('created' in (await creating));
    assert.equal(await store.log.head(tenant), 2);
  });
});

async function opened(t: TestContext) {
  const url = await newDatabase();
  const store = await openUrl(url);
  t.after(() => store.close());
  const holder = new pg.Client({ connectionString: url });
  holder.on('error', () => undefined);
  await holder.connect();
  t.after(() => holder.end());
  const waiting = async (): Promise<number> =>
    (await holder.query('select 1 from pg_locks where not granted')).rows.length;
  return {
    url,
    fixture: fixtureOf(store, (await addTenant(store, 'main')).id),
    /** Ends the lease of a node. */
    end: async (node: string) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(
        `update nodes set lease_until = clock_timestamp() - interval '1 s' where id = $1`,
        [node],
      );
      await client.end();
    },
    /** Locks tables. */
    hold: async (tables: string) => {
      await holder.query(`begin; lock table ${tables} in access exclusive mode`);
      return {
        untilWaited: (times = 1) =>
          waitFor('a wait for a lock', async () => (await waiting()) >= times),
        release: () => holder.query('commit'),
      };
    },
  };
}
