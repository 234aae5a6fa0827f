import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readConfig, showConfig } from '../../src/config.ts';

/** The page that leads to a service in production, against the program. */

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8');
const page = read('docs/production.md');

describe('docs/production.md', () => {
  for (const file of ['deploy/nginx.conf', 'deploy/Caddyfile']) {
    test(`has ${file} as it is`, () => {
      assert.ok(
        page.includes(`\n${read(file)}\`\`\`\n`),
        `copy ${file} into its block of the page`,
      );
    });
  }

  test('every setting that it names exists', () => {
    const loaded = readConfig({});
    assert.ok('config' in loaded);
    const known = new Set(showConfig(loaded).map(({ name }) => name));
    const named = new Set(page.match(/\bLEAT_[A-Z0-9_]+\b/g));
    assert.ok(named.size > 25, `found ${named.size}`);
    assert.deepEqual(
      [...named].filter((name) => !known.has(name)),
      [],
    );
  });

  test('its checklist has every check of leat doctor, and no other', () => {
    const checklist = /## Checklist\n(?<text>.*?)\n## /s.exec(page)?.groups?.['text'] ?? '';
    const lastColumn = checklist
      .split('\n')
      .filter((line) => line.startsWith('| ') && !line.startsWith('| Do'))
      .map((line) => line.split('|').at(-2) ?? '');
    const named = lastColumn.flatMap((cell) => cell.match(/(?<=`)[a-z][a-z ]*(?=`)/g) ?? []);
    assert.deepEqual(named.toSorted(), checksOfDoctor());
  });
});

/** Returns the names of all checks, which are literal in the sources. */
function checksOfDoctor(): string[] {
  const sources = globSync('src/operator/{doctor,*-findings}.ts', { cwd: root }).map(read);
  const names = sources.flatMap((source) =>
    [...source.matchAll(/\b(?:ok|note|warn|bad|failed)\(\s*'(?<name>[a-z ]+)'/g)].map(
      (match) => match.groups?.['name'] ?? '',
    ),
  );
  return [...new Set(names)].toSorted();
}
