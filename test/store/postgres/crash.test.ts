import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startPostgres } from '../../helpers/postgres.ts';
import { addTenant, failed, failuresOf, fixtureOf } from '../contract/fixture.ts';
import { openUrl } from '../engines.ts';

/** PostgreSQL writes a relaxed commit to the disk only after this time: the crash is earlier. */
const settings = { wal_writer_delay: '10s', fsync: 'on' };

test('PostgreSQL: settlements survive a crash of the server', { tags: ['long'] }, async (t) => {
  const server = await startPostgres({ settings });
  t.after(() => server.close());
  const url = await server.createDatabase();
  const store = await openUrl(url);
  const { id: tenant } = await addTenant(store, 'main');
  const fixture = fixtureOf(store, tenant);
  const stream = await fixture.addStream();
  const owned = await fixture.own(stream);
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
  await server.kill();
  await store.close();
  await server.start();
  const after = await openUrl(url);
  t.after(() => after.close());
  const failures = await failuresOf(fixtureOf(after, tenant), stream);
  assert.deepEqual(
    failures.map(({ event: { id } }) => id),
    [event.id],
  );
});
