import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { managementApiId } from '../../src/core/types.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import { newDatabase } from './engines.ts';

/** The scopes of before the audit log. */
const former = managementScopes.filter((scope) => scope !== 'read:logs');

/** Grants by id, as they are before and after the migration. */
const grants: Readonly<Record<string, readonly [string, readonly string[], readonly string[]]>> = {
  all: [managementApiId, former, [...former, 'read:logs']],
  reversed: [managementApiId, former.toReversed(), [...former.toReversed(), 'read:logs']],
  repeated: [managementApiId, [...former, 'read:users'], [...former, 'read:users', 'read:logs']],
  has: [managementApiId, managementScopes, managementScopes],
  oneLess: [managementApiId, former.slice(1), former.slice(1)],
  // As many, but not the same.
  instead: [managementApiId, [...former.slice(1), 'x'], [...former.slice(1), 'x']],
  none: [managementApiId, [], []],
  otherApi: ['api_1', former, former],
};

test('read:logs: at the upgrade on SQLite it comes to grants with all scopes of before', () => {
  const db = new DatabaseSync(':memory:');
  db.exec(`create table grants (tenant integer, id text, client text, api text, scope text)`);
  db.exec(insertions());
  db.exec(upgradeOf('sqlite'));
  const rows = db.prepare('select id, scope from grants').all();
  db.close();
  assertUpgraded(rows as unknown as GrantRow[]);
});

test('read:logs: at the upgrade on PostgreSQL it comes to grants with all scopes of before', async (t) => {
  const url = await newDatabase();
  t.after(async () => (await sharedPostgres()).dropDatabase(url));
  await query(url, insertions());
  await query(url, upgradeOf('postgres'));
  assertUpgraded(await query(url, 'select id, scope from grants'));
});

interface GrantRow {
  readonly id: string;
  readonly scope: string;
}

function assertUpgraded(rows: readonly GrantRow[]): void {
  const scopes = rows.map(({ id, scope }) => [id, JSON.parse(scope)]);
  const expected = Object.entries(grants).map(([id, [, , after]]) => [id, after]);
  assert.deepEqual(Object.fromEntries(scopes), Object.fromEntries(expected));
}

function insertions(): string {
  const rows = Object.entries(grants).map(
    ([id, [api, scope]]) => `(1, '${id}', '${id}', '${api}', '${JSON.stringify(scope)}')`,
  );
  return `insert into grants (tenant, id, client, api, scope) values ${rows.join(', ')}`;
}

/** Returns the part of the migration that changes grants. */
function upgradeOf(engine: 'sqlite' | 'postgres'): string {
  const folder = new URL(`../../src/store/${engine}/migrations/`, import.meta.url);
  const file = readdirSync(folder).find((name) => name.endsWith('_audit_log.sql'));
  assert.ok(file);
  const sql = readFileSync(new URL(file, folder), 'utf8');
  return sql.slice(sql.indexOf('update grants'));
}
