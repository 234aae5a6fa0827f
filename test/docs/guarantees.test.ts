import assert from 'node:assert/strict';
import { globSync, readFileSync, statSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { hasTestsOf } from '../../tools/test-units.ts';

/**
 * Each guarantee names the tests that show it. Those followed by "(long)" have the tag of `npm run test:all`,
 * the others run with `npm test`.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const text = readFileSync(`${root}docs/guarantees.md`, 'utf8');
const named = /`(?<path>test\/[^`]+)`(?<long>\s\(long\))?/g;

/** The items of the lists, each on one line. */
const guarantees = text
  .split(/\n(?=- )|\n\n/)
  .filter((part) => part.startsWith('- '))
  .map((part) => part.replaceAll(/\s+/g, ' '));

describe('docs/guarantees.md', () => {
  for (const guarantee of guarantees) {
    const tests = Array.from(guarantee.matchAll(named), ({ groups }) => ({
      path: groups?.['path'] ?? '',
      tier: groups?.['long'] === undefined ? ('quick' as const) : ('long' as const),
    }));
    test(`has quick tests, and all in the tier that it names: ${guarantee.slice(2, 80)}`, () => {
      for (const { path, tier } of tests) {
        assert.ok(
          filesOf(path).some((file) => hasTestsOf(tier, file)),
          `${path} has no ${tier} tests`,
        );
      }
      assert.ok(
        tests.some(({ tier }) => tier === 'quick'),
        'no quick test',
      );
    });
  }

  test('has guarantees to check', () => {
    assert.ok(guarantees.length > 20, `found ${guarantees.length}`);
  });
});

/** Returns the files of a path, of a pattern, or of everything in a folder. */
function filesOf(path: string): string[] {
  return globSync(path, { cwd: root }).flatMap((found) =>
    statSync(`${root}${found}`).isDirectory()
      ? globSync(`${found}/**/*.test.ts`, { cwd: root })
      : [found],
  );
}
