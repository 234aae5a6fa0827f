import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

/**
 * Commands are written once for both engines. What an engine writes in SQL of its own is what an engine is: each
 * of its files that does is here, by what it is about.
 */
const sqlOfEngines: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  postgres: {
    connection: [
      'commands',
      'database',
      'identity',
      'overview',
      'schema',
      'session',
      'store',
      'time',
    ],
    append: ['append'],
    settle: ['rows', 'runs', 'settle'],
    history: ['attempts', 'history-pruner', 'kept', 'tenant-removal', 'upkeep'],
    partitions: ['event-days', 'old-days', 'partitions'],
    notify: ['listen-notify'],
    pages: ['log'],
    copy: ['migrate-store'],
  },
  sqlite: {
    connection: [
      'commands',
      'connection',
      'database',
      'file-identity',
      'overview',
      'schema',
      'store',
    ],
    append: ['append'],
    settle: ['outcome', 'runs', 'settle'],
    history: ['attempts', 'failures', 'history-pruner', 'tenant-removal', 'upkeep'],
    pages: ['log', 'type-index'],
    copy: ['copy-check', 'migrate-store', 'vacuum'],
  },
};

const engines = new URL('../../src/store/engine/', import.meta.url);

for (const [engine, files] of Object.entries(sqlOfEngines)) {
  test(`${engine}: only these files have SQL of their own`, () => {
    const folder = new URL(`${engine}/`, engines);
    const found = globSync('*.ts', { cwd: folder }).filter((name) => hasSql(new URL(name, folder)));
    const listed = Object.values(files).flat();
    assert.deepEqual(found.map((name) => name.replace(/\.ts$/, '')).toSorted(), listed.toSorted());
  });
}

/** Returns whether a file has a statement: in a template or a string that begins as one does. */
function hasSql(file: URL): boolean {
  const code = readFileSync(file, 'utf8').replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  return /[`'"]\s*(?:select|insert|update|delete|with|begin|set local|create|pragma|vacuum|listen|backup)\b[^`'"]*\s/i.test(
    code,
  );
}
