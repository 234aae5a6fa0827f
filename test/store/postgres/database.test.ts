import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { StoreContentRefused } from '../../../src/core/errors.ts';
import { createDatabase } from '../../../src/store/postgres/database.ts';
import { createHosts } from '../../../src/store/postgres/hosts.ts';
import { sharedPostgres } from '../../helpers/postgres.ts';

describe('the connections of PostgreSQL', () => {
  test('transact: what continues after a failed statement writes nothing', async (t) => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    const db = createDatabase({ hosts: createHosts(url, 'test'), connectionsMax: 1 });
    t.after(async () => {
      await db.close();
      await server.dropDatabase(url);
    });
    await db.script('create table items (name text)');
    const ended = Promise.withResolvers<unknown>();
    const failing = db.transact('durable', (tx) => {
      const slow = (async () => {
        await tx.get`select 1`;
        await sleep(50);
        await tx.run`insert into items (name) values ('late')`;
      })();
      slow.then(ended.resolve, ended.resolve);
      return Promise.all([slow, tx.get`select 1 / 0`]);
    });
    await assert.rejects(failing, StoreContentRefused);
    assert.ok((await ended.promise) instanceof Error);
    assert.deepEqual(await db.all`select name from items`, []);
  });
});
