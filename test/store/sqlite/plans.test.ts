import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { asset } from '../../../src/core/asset.ts';
import { readMigrations } from '../../../src/store/migrate.ts';
import { defineTestKey } from '../../../src/store/sqlite/attempts.ts';

/**
 * SQLite has no statistics here, and takes a second column of an index for hardly better than the
 * first: a statement may walk over all open deliveries of a tenant although an index fits it.
 */
test('SQLite: no statement walks over all deliveries, or over those of a tenant', () => {
  const db = new DatabaseSync(':memory:');
  defineTestKey(db);
  for (const { sql } of readMigrations(asset('store/sqlite/migrations/'))) db.exec(sql);
  const walks = /^(?:SCAN (?:d|deliveries)\b|SEARCH (?:d|deliveries)\b.*\(tenant=\?\)$)/;
  const found = statements();
  assert.ok(found.length > 20, `${found.length} statements were found`);
  for (const { place, sql } of found) {
    const plan = db.prepare(`explain query plan ${sql}`).all();
    const steps = plan.map(({ detail }) => String(detail));
    assert.deepEqual(
      steps.filter((step) => walks.test(step)),
      [],
      place,
    );
  }
  db.close();
});

/** Those of the store that name the deliveries, read from its sources as they are asked. */
function statements(): { readonly place: string; readonly sql: string }[] {
  const folder = asset('store/sqlite/');
  return globSync('*.ts', { cwd: folder }).flatMap((name) => {
    const source = readFileSync(new URL(name, folder), 'utf8');
    return [...source.matchAll(/\b(?:db|tx)\.(?:all|get|run)(?:<[^`]*?>)?`([^`]*)`/g)]
      .filter(([, text = '']) => /\bdeliveries\b/.test(text))
      .map(({ 1: text = '', index }) => ({
        place: `${name}:${source.slice(0, index).split('\n').length}`,
        sql: text.replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '?'),
      }));
  });
}
