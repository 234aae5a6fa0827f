import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Store } from '../../src/store/port.ts';
import { query, startPostgres } from '../helpers/postgres.ts';
import { waitFor } from '../helpers/wait.ts';
import { addTenant, newEvent, newStream, start } from './contract/scene.ts';
import { openUrl } from './engines.ts';

/**
 * A commit whose wait for the standby is cut short, by a limit on statements or by hand, is answered
 * with success and a warning (PostgreSQL manual, 26.2.8).
 */
describe('PostgreSQL: a commit that no synchronous standby has confirmed', () => {
  test('is not taken for done', async (t) => {
    const { store, url, tenant } = await scene(t);
    await query(url, `alter system set synchronous_standby_names = 'nowhere'`);
    await query(url, 'select pg_reload_conf()');
    const event = newEvent({ id: 'evt_unconfirmed', chosen: true });
    const stream = newStream(tenant, start);

    for (const command of [
      () => store.log.append(tenant, [event]),
      () => store.streams.create(stream, { streamsMax: 9 }),
    ]) {
      const done = command();
      // The test looks at it later, and it must not end the process before.
      done.catch(() => undefined);
      await cutShort(url);
      await assert.rejects(done, (error) => {
        assert.ok(error instanceof StoreUnavailable);
        assert.match(error.message, /not confirmed by a synchronous standby/);
        return true;
      });
    }

    await query(url, 'alter system reset synchronous_standby_names');
    await query(url, 'select pg_reload_conf()');
    await waitFor('the setting', async () => {
      const [row] = await query<{ names: string }>(
        url,
        `select current_setting('synchronous_standby_names') as names`,
      );
      return row?.names === '';
    });
    const [appended] = await store.log.append(tenant, [event]);
    assert.equal(appended?.repeated, true, 'a repetition finds it');
  });
});

/** A store on a server of its own, as the setting is the whole server's. */
async function scene(t: TestContext): Promise<{ store: Store; url: string; tenant: number }> {
  const server = await startPostgres();
  t.after(() => server.close());
  const url = await server.createDatabase();
  const store = await openUrl(url);
  t.after(() => store.close());
  const { id: tenant } = await addTenant(store, 'main');
  return { store, url, tenant };
}

/** Ends the wait of a commit for its standby, as a limit on statements does. */
async function cutShort(url: string): Promise<void> {
  await waitFor('a commit that waits', async () => {
    const cut = await query(
      url,
      `select pg_cancel_backend(pid) from pg_stat_activity
      where wait_event = 'SyncRep' and datname = current_database()`,
    );
    return cut.length > 0;
  });
}
