import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { query, startPostgres } from '../../helpers/postgres.ts';
import { waitFor } from '../../helpers/wait.ts';
import { newApi } from '../contract/apis.ts';
import { newClient } from '../contract/clients.ts';
import { addTenant, newEvent, newStream, start } from '../contract/fixture.ts';
import { newUser } from '../contract/users.ts';
import { openUrl } from '../engines.ts';

/**
 * A commit whose wait for the standby is cut short, by a limit on statements or by hand, returns
 * success and a warning (PostgreSQL manual, 26.2.8).
 */
describe('PostgreSQL: a commit that no synchronous standby has confirmed', () => {
  test('an unconfirmed commit does not count as done', async (t) => {
    const { store, url, tenant } = await fixture(t);
    await loseStandby(url);
    const event = newEvent({ id: 'evt_unconfirmed', chosen: true });
    const stream = newStream(tenant, start);
    await isCutShort(url, () => store.log.append(tenant, [event]));
    await isCutShort(url, () => store.streams.create(stream, { streamsMax: 9 }));
    await bringStandby(url);
    const [appended] = await store.log.append(tenant, [event]);
    assert.equal(appended?.repeated, true, 'a repetition finds it');
  });

  test('an unconfirmed commit does not count as done for a role that is sent no warnings', async (t) => {
    const { store, url, tenant } = await fixture(
      t,
      'alter role leat set client_min_messages = error',
    );
    await loseStandby(url);
    await isCutShort(url, () => store.log.append(tenant, [newEvent()]));
    await bringStandby(url);
  });

  test('a repeat of the command that finds its work done is not confirmed either', async (t) => {
    const { store, url, tenant } = await fixture(t);
    const stream = newStream(tenant, start);
    await store.streams.create(stream, { streamsMax: 9 });
    await store.clients.create(newClient(tenant, 'machine'));
    await store.apis.create(newApi(tenant, 'api'));
    await store.grants.create({ tenant, id: 'grant', client: 'machine', api: 'api', scope: [] });
    await store.users.create(newUser(tenant, 'ada'), newEvent());
    await loseStandby(url);
    for (const command of [
      () => store.streams.delete(tenant, stream.id),
      () => store.grants.delete(tenant, 'grant'),
      () => store.apis.delete(tenant, 'api'),
      () => store.clients.delete(tenant, 'machine'),
      () => store.users.delete(tenant, 'leat|ada', () => newEvent()),
    ]) {
      await isCutShort(url, command);
      await isCutShort(url, command);
    }
    await bringStandby(url);
    assert.equal(await store.clients.delete(tenant, 'machine'), false);
  });
});

/** Opens a store on a server of its own, because the setting applies to the whole server. */
async function fixture(
  t: TestContext,
  setting = 'select 1',
): Promise<{ store: Store; url: string; tenant: number }> {
  const server = await startPostgres();
  t.after(() => server.close());
  const url = await server.createDatabase();
  await query(url, setting);
  const store = await openUrl(url);
  t.after(() => store.close());
  const { id: tenant } = await addTenant(store, 'main');
  return { store, url, tenant };
}

const loseStandby = (url: string): Promise<void> => nameStandby(url, 'nowhere');
const bringStandby = (url: string): Promise<void> => nameStandby(url, '');

/** `nowhere` never connects; an empty name is for no standby. */
async function nameStandby(url: string, name: string): Promise<void> {
  await query(url, `alter system set synchronous_standby_names = '${name}'`);
  await query(url, 'select pg_reload_conf()');
  await waitFor('the setting', async () => {
    const [row] = await query<{ names: string }>(
      url,
      `select current_setting('synchronous_standby_names') as names`,
    );
    return row?.names === name;
  });
}

/**
 * Expects that the command waits for the standby, and does not take the end of its wait for
 * success.
 */
async function isCutShort(url: string, command: () => Promise<unknown>): Promise<void> {
  const done = command();
  // It may also end early, as success or not; the tests below check which.
  const early = done.then(
    (result) => assert.fail(`resolved with ${String(result)}`),
    () => undefined,
  );
  await Promise.race([early, endWait(url)]);
  await assert.rejects(done, (error) => {
    assert.ok(error instanceof StoreUnavailable);
    assert.match(error.message, /not confirmed by a synchronous standby/);
    return true;
  });
}

/** Ends the wait of a commit for its standby, as a limit on statements does. */
async function endWait(url: string): Promise<void> {
  await waitFor('a commit that waits', async () => {
    const cut = await query(
      url,
      `select pg_cancel_backend(pid) from pg_stat_activity
      where wait_event = 'SyncRep' and datname = current_database()`,
    );
    return cut.length > 0;
  });
}
