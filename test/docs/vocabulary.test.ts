import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { words } from '../../src/core/words.ts';
import { migrationsOf } from '../../src/store/migrate.ts';
import { retiredIn, retiredNamesIn } from '../helpers/vocabulary.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8');
const files = globSync('{src,test,bench,tools}/**/*.{ts,mjs,sql}', { cwd: root }).toSorted();

describe('retired names', () => {
  test('identifiers: none has a retired word', () => {
    const sources = files.filter((path) => path.endsWith('.ts'));
    assert.ok(sources.length > 800, `found ${sources.length} files`);
    assert.deepEqual(
      sources.flatMap((path) => retiredNamesIn(path, read(path))),
      [],
    );
  });

  test('files: none has a retired word', () => {
    assert.deepEqual(files.filter((path) => !path.includes('/migrations/')).flatMap(retiredIn), []);
  });

  test('tables and columns: none has a retired word', () => {
    const db = new DatabaseSync(':memory:');
    for (const { sql } of migrationsOf('sqlite')) db.exec(sql);
    const names = db
      .prepare(
        `select t.name as "table", c.name as "column"
        from sqlite_schema t, pragma_table_info(t.name) c where t.type = 'table'`,
      )
      .all()
      .flatMap(({ table, column }) => [String(table), String(column)]);
    db.close();
    assert.ok(names.includes('alert_states'));
    assert.deepEqual([...new Set(names)].flatMap(retiredIn), []);
  });

  test('the check sees identifiers, private fields and files, and no ordinary prose', () => {
    const source = '/** A tour. */ class A { #lane = createWorkshop("courier"); }';
    assert.deepEqual(retiredNamesIn('a.ts', source).toSorted(), [
      'a.ts: createWorkshop has "workshop"; say incarnation',
      'a.ts: lane has "lane"; say serialQueue, TenantQueue or fastPath',
    ]);
    assert.equal(retiredIn('src/delivery/tour.ts').length, 1);
    assert.deepEqual(retiredIn('createTextTurns'), [
      'createTextTurns has "text turns"; say TextQueue',
    ]);
    assert.deepEqual(retiredIn('lookup, landscape, opposite, plane, context turns'), []);
  });
});

describe('words that users meet', () => {
  const rowsOf = (text: string): string[] =>
    [...text.matchAll(/^\| (?<word>.+?) +\| (?<meaning>.+?) +\|$/gm)]
      .slice(1)
      .map(({ groups }) => `${groups?.['word']}: ${groups?.['meaning']}`);

  test('the first table of the glossary has those of the console and the API reference', () => {
    const [, table = ''] = read('docs/glossary.md').split(/^## .*$/m);
    assert.deepEqual(
      rowsOf(table).filter((row) => !row.startsWith('---')),
      words.map(({ word, meaning }) => `${word}: ${meaning}`),
    );
  });
});
