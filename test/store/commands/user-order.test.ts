import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import pg from 'pg';
import { migrate, migrationsOf } from '../../../src/store/migrate.ts';
import { migrationDriver } from '../../../src/store/engine/sqlite/schema.ts';
import { createWriter, type Dialect } from '../../../src/store/commands/dialect.ts';
import { indexedOrder } from '../../../src/store/commands/users.ts';
import { usersIn } from '../../../src/store/commands/users.ts';
import { boundedText } from '../../../src/store/engine/postgres/commands.ts';
import { newDatabase } from '../engines.ts';

const orders = ['user_id', 'created_at', 'updated_at', 'email', 'username'].flatMap((field) => [
  { field, descending: false },
  { field, descending: true },
]);

/** Returns the statement for tenant 1 and the first 50 users, as SQLite reads it. */
function statementOf({ field, descending }: (typeof orders)[number]): string {
  const { strings } = pageIn('sqlite', { field, descending });
  assert.equal(strings.length, 4, field);
  return `${strings[0]}1${strings[1]}50${strings[2]}0${strings[3]}`;
}

/** Returns the same as PostgreSQL reads it. */
function boundedStatementOf({ field, descending }: (typeof orders)[number]): string {
  const { strings, order } = pageIn('postgres', { field, descending });
  const bounded = boundedText(strings, { columns: ['profile'], order });
  assert.equal(bounded.length, 5, field);
  return `${bounded[0]}1${bounded[1]}50${bounded[2]}0${bounded[3]}8388608${bounded[4]}`;
}

function pageIn(dialect: Dialect, { field, descending }: (typeof orders)[number]) {
  const order = indexedOrder(field, { descending });
  assert.ok(order, field);
  const page = usersIn(order, { tenant: 1, limit: 50, offset: 0 });
  return { order, strings: createWriter(dialect)(page).strings };
}

describe('the sort orders of users', () => {
  test('SQLite reads a page from an index, without sorting', async (t) => {
    const connection = new DatabaseSync(':memory:');
    t.after(() => connection.close());
    await migrate(migrationDriver(connection, 'a.db'), migrationsOf('sqlite'));
    for (const order of orders) {
      const rows = connection.prepare(`explain query plan ${statementOf(order)}`).all();
      const plan = rows.map(({ detail }) => detail).join('\n');
      assert.match(plan, /USING (?:COVERING )?INDEX/, order.field);
      assert.doesNotMatch(plan, /TEMP B-TREE/, `${order.field} ${order.descending}: ${plan}`);
    }
  });

  test('PostgreSQL reads a page from an index, without sorting', async (t) => {
    const client = new pg.Client({ connectionString: await newDatabase() });
    await client.connect();
    t.after(() => client.end());
    // A statement that can only be sorted is sorted nevertheless.
    for (const way of ['seqscan', 'bitmapscan', 'sort', 'incremental_sort']) {
      await client.query(`set enable_${way} = off`);
    }
    for (const order of orders) {
      const { rows: plan } = await client.query(
        `explain (format json) ${boundedStatementOf(order)}`,
      );
      const text = JSON.stringify(plan);
      assert.match(text, /Index Scan/, order.field);
      assert.doesNotMatch(text, /Sort/, `${order.field} ${order.descending}: ${text}`);
    }
  });

  test('other fields have no statement', () => {
    for (const field of ['name', 'profile', 'password_hash', '', 'email, id; --']) {
      assert.equal(indexedOrder(field, { descending: false }), undefined);
    }
  });
});
