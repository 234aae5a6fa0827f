import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import { createDatabase } from '../../../src/store/engine/postgres/database.ts';
import { createHosts } from '../../../src/store/engine/postgres/hosts.ts';
import { createManualClock } from '../../helpers/clock.ts';
import { query, sharedPostgres } from '../../helpers/postgres.ts';
import { waitFor } from '../../helpers/wait.ts';

for (const kind of ['statement', 'transaction'] as const) {
  test(
    `PostgreSQL: a ${kind} whose time was used up by the wait for a connection ends before the lock that it meets`,
    { tags: ['long'] },
    async (t) => {
      const server = await sharedPostgres();
      const url = await server.createDatabase();
      const clock = createManualClock();
      const db = createDatabase({
        hosts: createHosts(url, 'test'),
        connectionsMax: 1,
        total: { ms: 9000, clock },
      });
      await query(url, 'create table held (id integer)');
      const holder = new pg.Client({ connectionString: url });
      await holder.connect();
      t.after(async () => {
        await holder.end();
        await db.close();
        await server.dropDatabase(url);
      });
      await holder.query('begin; lock table held in access exclusive mode');
      const free = Promise.withResolvers<void>();
      const before = db.transact('durable', async (tx) => {
        await tx.get`select 1`;
        await free.promise;
      });
      await waitFor('the connection to be in use', async () => {
        const rows = await query(
          url,
          `select from pg_stat_activity where application_name = 'test' and state = 'idle in transaction'`,
        );
        return rows.length === 1;
      });
      const ended: string[] = [];
      const waiting =
        kind === 'statement'
          ? db.get`select * from held`
          : db.transact('durable', (tx) => tx.get`select * from held`);
      const refused = assert.rejects(waiting, StoreUnavailable).then(() => ended.push('refused'));
      await clock.advance(8900);
      free.resolve();
      await before;
      // A lock of four seconds, by the clock of the server.
      await query(url, 'select pg_sleep(3.5)');
      ended.push('lock');
      await refused;
      assert.deepEqual(ended, ['refused', 'lock']);
    },
  );
}
