import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { query, sharedPostgres, throughPort } from '../../helpers/postgres.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { waitFor } from '../../helpers/wait.ts';
import { addTenant, newEvent } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

/** A publisher that is refused may publish again under another id, unless it is told that this one may be stored. */
describe('PostgreSQL: a refused append', () => {
  test('an append whose confirmation is lost may be stored', async (t) => {
    const { store, proxy, tenant, stored } = await fixture(t);
    const lost = proxy.loseAnswerTo('leat_append');
    const refused = await refusalOf(store, tenant, 'evt_lost');
    await lost;
    assert.equal(refused.mayBeStored, true);
    await waitFor('the commit', async () => (await stored()).length > 0);
  });

  test('a change whose confirmation is lost may be stored', async (t) => {
    const { store, proxy } = await fixture(t);
    // A single statement begins and commits at once.
    const lost = proxy.loseAnswerTo('commit\0', ['begin']);
    await assert.rejects(addTenant(store, 'other'), (error) => {
      assert.ok(error instanceof StoreUnavailable);
      return error.mayBeStored;
    });
    await lost;
  });

  test('a change that is cut off before its commit is not stored', async (t) => {
    const { store, proxy, tenant, url } = await fixture(t);
    const lost = proxy.loseAnswerTo('begin', ['commit\0']);
    await assert.rejects(store.streams.delete(tenant, 'est_none'), (error) => {
      assert.ok(error instanceof StoreUnavailable);
      return !error.mayBeStored;
    });
    await lost;
    assert.equal((await query(url, 'select 1 from streams')).length, 0);
  });

  test('an append to a store that cannot be reached is not stored', async (t) => {
    const { store, proxy, tenant } = await fixture(t);
    proxy.refuse();
    await waitFor('a connection that is refused', async () => {
      const { mayBeStored } = await refusalOf(store, tenant, 'evt_refused');
      return !mayBeStored;
    });
  });

  const blocks: Record<string, (client: pg.Client, other: pg.Client) => Promise<unknown>> = {
    'a change of the table that waits for a reader': async (reader, changing) => {
      await reader.query('begin; select count(*) from events');
      await changing.query('begin');
      return changing.query('alter table events add column other text').catch(() => undefined);
    },
    'a lock of the table': (client) => client.query('begin; lock table events in exclusive mode'),
    'a lock of the row of its tenant': (client) =>
      client.query('begin; select * from tenants for update'),
  };
  for (const [what, block] of Object.entries(blocks)) {
    test(
      `an append that waits behind ${what} is not stored after it was refused`,
      {
        tags: ['long'],
      },
      async (t) => {
        const { store, tenant, url, stored } = await fixture(t);
        const clients = await Promise.all([connected(url), connected(url)]);
        const release = (): Promise<unknown> => Promise.all(clients.map((client) => client.end()));
        let isReleased = false;
        t.after(() => isReleased || release());
        const blocked = block(...clients);
        await waitFor('the lock', async () => {
          const rows = await query(
            url,
            `select 1 from pg_locks where mode in
          ('AccessExclusiveLock', 'ExclusiveLock', 'RowShareLock') and relation::regclass::text
          in ('events', 'tenants')`,
          );
          return rows.length > 0;
        });
        const first = refusalOf(store, tenant, 'evt_first');
        // It waits for the first one, and joins those that begin after it.
        await waitFor('the wait for the lock', () => isWaiting(url));
        const second = refusalOf(store, tenant, 'evt_second');
        assert.deepEqual(
          (await Promise.all([first, second])).map(({ mayBeStored }) => mayBeStored),
          [false, false],
        );
        isReleased = true;
        await release();
        await blocked;
        await store.log.append(tenant, [newEvent({ id: 'evt_later', chosen: true })]);
        assert.deepEqual(await stored(), ['evt_later']);
      },
    );
  }
});

async function fixture(t: TestContext) {
  const url = await newDatabase();
  const proxy = await startTcpProxy((await sharedPostgres()).port);
  const store = await openUrl(throughPort(url, proxy.port));
  t.after(async () => {
    await store.close();
    await proxy.close();
  });
  const tenant = (await addTenant(store, 'main')).id;
  return {
    store,
    proxy,
    tenant,
    url,
    stored: async () => {
      const rows = await query<{ id: string }>(url, 'select id from events order by "offset"');
      return rows.map(({ id }) => id);
    },
  };
}

async function refusalOf(store: Store, tenant: number, id: string): Promise<StoreUnavailable> {
  try {
    await store.log.append(tenant, [newEvent({ id, chosen: true })]);
  } catch (error) {
    assert.ok(error instanceof StoreUnavailable);
    return error;
  }
  return assert.fail('The append was not refused.');
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

async function isWaiting(url: string): Promise<boolean> {
  const rows = await query(
    url,
    `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%leat_append%'`,
  );
  return rows.length > 0;
}
