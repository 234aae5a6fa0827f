import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import { createDatabase } from '../../src/store/sqlite/database.ts';

function open(t: TestContext) {
  const connection = new DatabaseSync(':memory:');
  connection.exec('create table items (id integer primary key, name text not null) strict');
  const db = createDatabase(connection);
  t.after(() => db.close());
  const names = () =>
    db.all<{ name: string }>`select name from items order by id`.map(({ name }) => name);
  return { connection, db, names };
}

describe('the SQLite connection', () => {
  test('values are bound, never part of the statement', (t) => {
    const { db, names } = open(t);
    const hostile = "x'); drop table items; --";
    db.run`insert into items (name) values (${hostile})`;
    assert.deepEqual(names(), [hostile]);
  });

  test('undefined is stored as null, a boolean as a number', (t) => {
    const { db } = open(t);
    const row = db.get<{ none: null; yes: number; no: number }>`
      select ${undefined} as none, ${true} as yes, ${false} as no`;
    assert.deepEqual({ ...row }, { none: null, yes: 1, no: 0 });
  });

  test('rows are read one by one, and reading may stop early', (t) => {
    const { db } = open(t);
    for (const name of ['a', 'b', 'c']) db.run`insert into items (name) values (${name})`;
    const read = (stopAt: string): string[] => {
      const names: string[] = [];
      for (const row of db.each<{ name: string }>`select name from items order by id`) {
        names.push(row.name);
        if (row.name === stopAt) break;
      }
      return names;
    };
    assert.deepEqual(read('b'), ['a', 'b']);
    assert.deepEqual(read('none'), ['a', 'b', 'c']);
  });

  test('a transaction that throws writes nothing, and the next one works', (t) => {
    const { db, names } = open(t);
    const bug = new Error('a bug');
    assert.throws(
      () =>
        db.transact('durable', () => {
          db.run`insert into items (name) values ('gone')`;
          throw bug;
        }),
      bug,
    );
    db.transact('relaxed', () => db.run`insert into items (name) values ('kept')`);
    assert.deepEqual(names(), ['kept']);
  });

  test('a broken constraint throws StoreContentRefused', (t) => {
    const { db } = open(t);
    db.run`insert into items (id, name) values (1, 'a')`;
    assert.throws(() => db.run`insert into items (id, name) values (1, 'b')`, StoreContentRefused);
    assert.throws(() => db.run`insert into items (name) values (${null})`, StoreContentRefused);
    assert.throws(
      () => db.run`insert into items (id, name) values ('x', 'b')`,
      StoreContentRefused,
    );
  });

  test('a full disk throws StoreUnavailable; the data stays, and freed space is used', (t) => {
    const { connection, db, names } = open(t);
    db.run`insert into items (name) values ('first')`;
    const pages = db.get<{ page_count: number }>`pragma page_count`?.page_count ?? 0;
    connection.exec(`pragma max_page_count = ${pages + 2}`);
    const large = 'x'.repeat(100_000);
    const write = () =>
      db.transact('durable', () => {
        db.run`insert into items (name) values ('second')`;
        db.run`insert into items (name) values (${large})`;
      });
    assert.throws(write, StoreUnavailable);
    assert.deepEqual(names(), ['first']);
    connection.exec('pragma max_page_count = 1000');
    write();
    assert.deepEqual(names(), ['first', 'second', large]);
  });

  test('a closed connection throws StoreUnavailable, and closing twice is no error', (t) => {
    const { db } = open(t);
    db.close();
    db.close();
    assert.throws(() => db.get`select 1`, StoreUnavailable);
    assert.throws(() => db.transact('durable', () => 1), StoreUnavailable);
    assert.throws(() => db.each`select 1`.next(), StoreUnavailable);
  });
});
