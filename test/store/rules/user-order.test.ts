import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import pg from 'pg';
import { migrate, readMigrations } from '../../../src/store/migrate.ts';
import { migrationDriver } from '../../../src/store/sqlite/schema.ts';
import { orderedPage, orderedPageWithin } from '../../../src/store/rules/user-order.ts';
import { newDatabase } from '../engines.ts';

const migrations = new URL('../../../src/store/sqlite/migrations/', import.meta.url);
const orders = ['user_id', 'created_at', 'updated_at', 'email', 'username'].flatMap((field) => [
  { field, descending: false },
  { field, descending: true },
]);

/** The statement for tenant 1 and the first 50 users. */
function statementOf({ field, descending }: (typeof orders)[number]): string {
  const parts = orderedPage(field, { descending }) ?? [];
  assert.equal(parts.length, 4, field);
  return `${parts[0]}1${parts[1]}50${parts[2]}0${parts[3]}`;
}

/** The same as PostgreSQL is asked. */
function boundedStatementOf({ field, descending }: (typeof orders)[number]): string {
  const parts = orderedPageWithin(field, { descending }) ?? [];
  assert.equal(parts.length, 5, field);
  return `${parts[0]}8388608${parts[1]}1${parts[2]}50${parts[3]}0${parts[4]}`;
}

describe('an order of users that may be asked for', () => {
  test('SQLite reads a page from an index, without sorting', async (t) => {
    const connection = new DatabaseSync(':memory:');
    t.after(() => connection.close());
    await migrate(migrationDriver(connection, 'a.db'), readMigrations(migrations));
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
    // What can only be sorted is sorted all the same.
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

  test('other fields have none', () => {
    for (const field of ['name', 'profile', 'password_hash', '', 'email, id; --']) {
      assert.equal(orderedPage(field, { descending: false }), undefined);
      assert.equal(orderedPageWithin(field, { descending: false }), undefined);
    }
  });
});
