import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreTextRefused } from '../../../src/core/errors.ts';
import {
  createDatabase,
  type Database,
  withCommit,
} from '../../../src/store/engine/postgres/database.ts';
import { createHosts } from '../../../src/store/engine/postgres/hosts.ts';
import { sharedPostgres } from '../../helpers/postgres.ts';

describe('the connections of PostgreSQL', () => {
  test('transact: what continues after a failed statement writes nothing', async (t) => {
    const db = await openItems(t);
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

  test('withCommit: a statement that fails is the error of the transaction, which writes nothing', async (t) => {
    const db = await openItems(t);
    const failing = db.transact('durable', async (tx) => {
      await tx.run`insert into items (name) values ('before')`;
      withCommit(Promise.all([tx.get`select 1 / 0`, tx.run`insert into items values ('after')`]));
    });
    await assert.rejects(failing, StoreContentRefused);
    assert.deepEqual(await db.all`select name from items`, []);
  });

  test('transact: the error of a statement before a copy is that of the transaction', async (t) => {
    const db = await openItems(t);
    const failing = db.transact('durable', async (tx) => {
      withCommit(Promise.all([tx.get`select 1 / 0`, tx.copy`items (name)`([['after']])]));
    });
    await assert.rejects(failing, StoreContentRefused);
    const awaited = db.transact('durable', (tx) =>
      Promise.all([
        tx.copy`items (name)`([['before']]),
        tx.get`select 1 / 0`,
        tx.copy`items (name)`([['after']]),
      ]),
    );
    await assert.rejects(awaited, StoreContentRefused);
    assert.deepEqual(await db.all`select name from items`, []);
  });

  test('transact: a statement after the commit is an error', async (t) => {
    const db = await openItems(t);
    const failing = db.transact('durable', async (tx) => {
      await tx.get`select 1`;
      const late = Promise.withResolvers();
      // The transaction has begun: its commit is sent before the next tick, and its response comes later.
      process.nextTick(() => late.resolve(tx.get`select 2`));
      withCommit(late.promise);
    });
    await assert.rejects(failing, /after the commit/);
  });

  test('copy: rows have any text, none and numbers', async (t) => {
    const db = await openItems(t);
    const names = ['\t\n\r\\', '\\N', '\\.', '\\.\n', '', 'null', "'", '"', '\u2028é😀', '\b\f\v'];
    await db.transact('durable', async (tx) => {
      await tx.copy`items (name, size)`([...names.map((name) => [name, 0.1]), [undefined, null]]);
    });
    const rows = await db.all<{ name: string | null }>`select name from items order by number`;
    assert.deepEqual(
      rows.map(({ name }) => name),
      [...names, null],
    );
    assert.deepEqual(await db.all`select distinct size from items order by size`, [
      { size: 0.1 },
      { size: null },
    ]);
  });

  test('copy: a refused row fails the transaction, and the connection goes on', async (t) => {
    const db = await openItems(t);
    for (const [row, error] of [
      [['\0', 1], StoreTextRefused],
      [['large', 'x'], StoreContentRefused],
    ] as const) {
      const failing = db.transact('durable', (tx) =>
        Promise.all([
          tx.run`insert into items (name) values ('before')`,
          tx.copy`items (name, size)`([['small', 1], row]),
          tx.run`insert into items (name) values ('after')`,
        ]),
      );
      await assert.rejects(failing, error);
    }
    await assert.rejects(
      db.transact('durable', (tx) => tx.copy`absent (name)`([['a']])),
      /absent/,
    );
    assert.deepEqual(await db.all`select name from items`, []);
  });
});

async function openItems(t: TestContext): Promise<Database> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  const db = createDatabase({ hosts: createHosts(url, 'test'), connectionsMax: 1 });
  t.after(async () => {
    await db.close();
    await server.dropDatabase(url);
  });
  await db.script(`create table items (name text, size double precision,
    number integer generated always as identity)`);
  return db;
}
