import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { StoreContentRefused } from '../../src/core/errors.ts';
import type { StreamRef } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createSeal } from '../../src/store/seal.ts';
import { openConnection } from '../../src/store/engine/sqlite/connection.ts';
import { prepareSchema } from '../../src/store/engine/sqlite/schema.ts';
import { createSqliteStore } from '../../src/store/engine/sqlite/store.ts';
import { query } from '../helpers/postgres.ts';
import {
  addTenant,
  fixtureOf,
  leaseMs,
  parked,
  settlementOf,
  waitRule,
} from './contract/fixture.ts';
import { newDatabase, openUrl } from './engines.ts';
import { storeDeps } from './sqlite/file.ts';

interface Opened {
  readonly store: Store;
  /** Refuses every change of the deliveries of a stream. */
  refuse(stream: string): Promise<unknown>;
  accept(): Promise<unknown>;
}

async function openSqlite(): Promise<Opened> {
  const location = { path: ':memory:', file: undefined };
  const connection = openConnection(location);
  await prepareSchema(connection, location, createSeal(storeDeps.secretKeys, storeDeps.random));
  return {
    store: createSqliteStore(connection, storeDeps),
    refuse: async (stream) =>
      connection.exec(`
        create trigger refuse before update on deliveries when old.stream = '${stream}'
        begin select raise(abort, 'no such value'); end`),
    accept: async () => connection.exec('drop trigger refuse'),
  };
}

async function openPostgres(): Promise<Opened> {
  const url = await newDatabase();
  return {
    store: await openUrl(url),
    refuse: (stream) =>
      query(
        url,
        `create function refuse() returns trigger language plpgsql as $$
          begin raise exception 'no such value' using errcode = '23514'; end $$;
        create trigger refuse before update on deliveries for each row
          when (old.stream = '${stream}') execute function refuse()`,
      ),
    accept: () => query(url, 'drop function refuse cascade'),
  };
}

/** Two streams with a parked row each, of a node that is gone; the row of the first cannot be changed. */
async function createFixture(t: TestContext, { store, refuse }: Opened, isDisabled: boolean) {
  t.after(() => store.close());
  const { tenant, ...fixture } = fixtureOf(store, (await addTenant(store, 'main')).id);
  const streams = [await fixture.addStream(), await fixture.addStream()];
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  const gone = await fixture.node();
  const owned = await store.ownership.claim(gone, { claim: 1, take: 9, ...waitRule });
  const settlements = owned.map((one) => settlementOf(one, { outcomes: [parked(event)] }));
  await store.deliveries.settle(gone, 1, settlements, fixture.limits);
  if (isDisabled)
    for (const { id } of streams)
      await store.streams.update(tenant, id, (before) => ({
        after: { ...before, status: 'disabled' },
      }));
  const [damaged, sound] = streams.map(({ id: stream }) => ({ tenant, stream }));
  assert.ok(damaged && sound);
  await refuse(damaged.stream);
  await store.ownership.heartbeat(gone, 0);
  return { damaged, sound, node: await store.ownership.join('node-b', leaseMs) };
}

const engines = { SQLite: openSqlite, PostgreSQL: openPostgres };

for (const [name, open] of Object.entries(engines)) {
  for (const isDisabled of [false, true]) {
    const of = isDisabled ? 'disabled streams' : 'streams';
    test(`${name}: claim: a row that cannot be changed keeps one of the ${of} from beginning`, async (t) => {
      const opened = await open();
      const { damaged, sound, node } = await createFixture(t, opened, isDisabled);
      const { ownership, streams } = opened.store;
      const request = { claim: 1, take: 9, ...waitRule };
      await assert.rejects(ownership.claim(node, request), StoreContentRefused);
      const taken = await ownership.claim(node, { ...request, takesOnly: true });
      assert.deepEqual(
        taken.map(({ waiting }) => waiting),
        [1, 1],
      );
      assert.ok(taken.every(({ nextDueInMs }) => nextDueInMs !== 0));
      await assert.rejects(ownership.begin(node, [damaged, sound], waitRule), StoreContentRefused);
      await assert.rejects(ownership.begin(node, [damaged], waitRule), StoreContentRefused);
      const begins = async (ref: StreamRef): Promise<void> => {
        const [begun, ...others] = await ownership.begin(node, [ref], waitRule);
        assert.deepEqual(others, []);
        assert.equal(begun?.stream.id, ref.stream);
        assert.equal(begun.nextDueInMs, isDisabled ? undefined : 0);
        const failures = isDisabled ? 1 : 0;
        assert.equal((await streams.health(ref.tenant, ref.stream))?.total, failures);
      };
      await begins(sound);
      assert.equal((await streams.health(damaged.tenant, damaged.stream))?.total, 0);
      await opened.accept();
      await begins(damaged);
      const other = await ownership.join('node-c', leaseMs);
      assert.deepEqual(await ownership.begin(other, [damaged, sound], waitRule), []);
      await ownership.join('node-b', leaseMs);
      assert.deepEqual(await ownership.begin(node, [damaged, sound], waitRule), []);
    });
  }
}
