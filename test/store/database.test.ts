import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import { createDatabase } from '../../src/store/engine/sqlite/database.ts';

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

  test('what was read of a file that turns out to be another one is refused, and nothing is written', (t) => {
    const { connection, names } = open(t);
    const gone = new StoreUnavailable('gone', { reason: 'gone' });
    const isThrown = (error: unknown): boolean => error === gone;
    let isGone = false;
    const read = (): void => {
      if (isGone) throw gone;
    };
    // SQL that is run when the file becomes another one.
    connection.function('lose', () => Number((isGone = true)));
    const db = createDatabase(connection, { read, before: () => {}, committed: () => {} });
    const reads: Record<string, () => unknown> = {
      all: () => db.all`select lose()`,
      get: () => db.get`select lose()`,
      each: () => [...db.each`select lose()`],
      eachArray: () => [...db.eachArray`select lose()`],
      'one that fails': () => db.get`select abs(-9223372036854775808 * lose())`,
      'a transaction': () => {
        db.transact('durable', () => db.run`insert into items (name) values (lose())`);
      },
      'a transaction that fails': () => {
        db.transact('durable', () => db.run`insert into items (id) values (lose())`);
      },
    };
    for (const [name, each] of Object.entries(reads)) {
      assert.throws(each, isThrown, name);
      isGone = false;
    }
    assert.deepEqual(names(), []);
    db.transact('durable', () => db.run`insert into items (name) values ('kept')`);
    assert.deepEqual(names(), ['kept']);
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
