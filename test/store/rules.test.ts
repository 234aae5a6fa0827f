import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

/**
 * A rule stands in one place, also where SQL needs it: the columns by which SQL expresses it are together in
 * one fragment, and in no other statement of the store.
 */
const rules: readonly {
  readonly name: string;
  /** The file with its fragment, below `src/store/`. */
  readonly file: string;
  /** The columns of the rule, as a statement would have them. */
  readonly columns: RegExp;
}[] = [
  {
    name: 'needsOwner',
    file: 'rules/owner.ts',
    columns: /\bstatus = 'enabled'\s+or\s+exists\b|\bkind <> 'replay'(?![^`]*\border by\b)/,
  },
  {
    name: 'beginsCycle',
    file: 'rules/cycle.ts',
    columns: /\battempt = 1\b|\bstate = 'retrying',(?=[^`]*\bcycle_at = )/,
  },
  {
    name: 'endWithStream',
    file: 'rules/pause.ts',
    columns: /\bkind in \('(?:first|test)', '(?:first|test)'\)/,
  },
  {
    name: 'sendsAll',
    file: 'rules/pause.ts',
    columns: /\bstatus = 'enabled' and (?:\w+\.)?paused_at is null\b/,
  },
];

const store = new URL('../../src/store/', import.meta.url);
const files = globSync(['**/*.ts', '**/*.sql'], { cwd: store });

describe('rules that SQL needs', () => {
  for (const { name, file, columns } of rules) {
    test(`${name}: its columns are in the fragment alone`, () => {
      assert.ok(files.length > 100);
      const found = files.filter((path) => sqlOf(path).some((text) => text.search(columns) >= 0));
      assert.deepEqual(found, [file]);
      assert.match(
        readFileSync(new URL(file, store), 'utf8'),
        new RegExp(`export const ${name}\\b|export function ${name}\\(`),
      );
    });
  }
});

/** Returns the texts of a file that may be SQL: its templates and strings. */
function sqlOf(path: string): string[] {
  const source = readFileSync(new URL(path, store), 'utf8');
  if (path.endsWith('.sql')) return [source];
  const code = source.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  return [...code.matchAll(/`[^`]*`|"[^"\n]*"|'(?:[^'\\\n]|\\.)*'/g)].map(([text]) => text);
}
